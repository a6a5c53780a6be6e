"""Puts the service together: routes, error answers, limits, and what happens at its start."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

import anyio.to_thread
from fastapi import FastAPI, Security

from engine.store import Store
from service.errors import add_handlers
from service.keys import KeyStore
from service.limits import BodyLimit, RateLimit
from service.metering import api_key_header
from service.routes import addresses, chains, relationships, removed, tokens
from service.settings import ServiceSettings

API_VERSION: Final = "0.3.0"
"""The version of the interface that the contract describes, not of this program."""

_log = logging.getLogger(__name__)


def create_app(store: Store, keys: KeyStore, settings: ServiceSettings) -> FastAPI:
    """The service over a store and its keys; both stay the caller's to close."""
    app = FastAPI(
        title="Token holders and transfers",
        version=API_VERSION,
        lifespan=_lifespan(keys, settings),
        redirect_slashes=False,
    )
    app.state.store = store
    app.state.keys = keys
    for metered in (chains, tokens, relationships, addresses):
        app.include_router(metered.router, dependencies=[Security(api_key_header)])
    app.include_router(removed.router)
    add_handlers(app)
    app.add_middleware(BodyLimit, limit=settings.body_limit)
    app.add_middleware(RateLimit, calls_per_minute=settings.calls_per_minute)
    return app


def _lifespan(keys: KeyStore, settings: ServiceSettings) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = settings.workers
        released = keys.release_abandoned()
        if released:
            _log.warning("released %d reservations that a process left when it ended", released)
        yield

    return lifespan
