"""Puts the service together: routes, error answers, limits, what is observed, and what happens at its end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

from fastapi import Depends, FastAPI, Security
from fastapi_offline import FastAPIOffline

from holderlake.engine.store.store import Store
from holderlake.service.api.backend import Backend
from holderlake.service.api.fast_path import ShortWay
from holderlake.service.api.metering import api_key_header
from holderlake.service.api.queries import chains_of, clear_target
from holderlake.service.api.routes import addresses, chains, extras, health, pictures, relationships, removed, tokens
from holderlake.service.billing.keys import KeyStore
from holderlake.service.errors import add_handlers
from holderlake.service.middleware.client_ip import TrustedProxies, networks
from holderlake.service.middleware.rate_limit_storage import CountsInMemory, SharedCounts
from holderlake.service.middleware.rate_limits import BodyLimit, RateLimit
from holderlake.service.observability import Observed
from holderlake.service.output.description import complete, errors_table
from holderlake.service.settings import ServiceSettings

API_VERSION: Final = "0.3.1"
"""The version of the interface that the contract describes, not of this program."""

_DESCRIPTION: Final = """
Holders, grouped transfers, clusters and labels of tokens, computed from raw transfers, as of any second.

Every request carries an API key in `X-ApiKey` and is charged credits when it is answered with a 2xx; what an answer
cost and what is left stands in its headers. Routes under `/v0/x/` are this service's own, beyond the contract.

Errors are `{"detail": ..., "code": "..."}`; the detail of a 422 lists each fault with its place. `GET /chains` and
`GET /maps/...` of earlier versions answer 410.
"""


def create_app(store: Store, keys: KeyStore, settings: ServiceSettings) -> FastAPI:
    """The service over a store and its keys; both stay the caller's to close."""
    backend = Backend(store, keys, settings)
    counting = ThreadPoolExecutor(1, thread_name_prefix="calls")
    app = FastAPIOffline(
        title="Token holders and transfers",
        description=f"{_DESCRIPTION}\n{errors_table()}\n",
        version=API_VERSION,
        lifespan=_lifespan(backend, counting),
        redirect_slashes=False,
        strict_content_type=False,
        generate_unique_id_function=lambda route: route.name,
        dependencies=[Depends(clear_target)],
        redoc_url=None,
    )
    app.state.backend = backend
    for metered in (
        chains.router,
        tokens.router,
        pictures.metered,
        relationships.router,
        addresses.router,
        extras.router,
        extras.custom,
    ):
        app.include_router(metered, dependencies=[Security(api_key_header)])
    for free in (pictures.router, removed.router, health.router):
        app.include_router(free)
    add_handlers(app)
    complete(app, lambda: chains_of(store), settings.score_names)
    _watch(backend)
    # The last one added is the outermost: who calls is known before calls are counted.
    counts = SharedCounts(keys.count_calls, counting) if settings.shared_limits else CountsInMemory()
    app.add_middleware(ShortWay, backend=backend)
    app.add_middleware(BodyLimit, limit=settings.body_limit, seconds=settings.body_seconds)
    app.add_middleware(RateLimit, calls_per_minute=settings.calls_per_minute, storage=counts)
    app.add_middleware(TrustedProxies, trusted=networks(settings.trusted_proxies))
    app.add_middleware(Observed, metrics=backend.metrics)
    return app


def _watch(backend: Backend) -> None:
    """Shows cache and computing threads in the metrics."""
    watch = backend.metrics.watch
    watch("cache_bytes", lambda: backend.cache.bytes_held, "Bytes of answers that are kept")
    watch("cache_evictions", lambda: backend.cache.evicted, "Kept answers that had to make room", total=True)
    watch("computations", lambda: backend.computing.pending, "Answers that are computed or wait for it")


def _lifespan(backend: Backend, counting: ThreadPoolExecutor) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await backend.close()
        counting.shutdown(wait=False)

    return lifespan
