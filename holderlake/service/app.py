"""Assembles the service: routes, error handlers, middleware and metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

from fastapi import Depends, FastAPI, Security
from fastapi_offline import FastAPIOffline
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from holderlake.engine.store.store import Store
from holderlake.service.api.backend import Backend
from holderlake.service.api.metering import ParsedRequestsMiddleware, api_key_header
from holderlake.service.api.parameters import reject_ambiguous_target, supported_chains
from holderlake.service.api.routes import addresses, chains, extras, health, pictures, relationships, removed, tokens
from holderlake.service.billing.keys import KeyStore
from holderlake.service.errors import add_handlers
from holderlake.service.middleware.rate_limits import RateLimitMiddleware
from holderlake.service.observability import ObservabilityMiddleware
from holderlake.service.output.description import complete, errors_table
from holderlake.service.settings import ServiceSettings

API_VERSION: Final = "0.3.1"
"""Version of the API that the contract describes, not of this program."""

_DESCRIPTION: Final = """
Holders, grouped transfers, clusters and labels of tokens, computed from raw transfers, as of any second.

Every request carries an API key in `X-ApiKey`. Answers with a 2xx status are charged credits; their headers show the
cost and the remaining credits. A caller that hangs up before the answer arrives is charged too, because the answer is
computed. An answer that the service cannot send, because of an error or a crash, is not charged. Routes under `/v0/x/`
are this service's own, beyond the contract.

Errors are `{"detail": ..., "code": "..."}`; the detail of a 422 lists each fault with its place. `GET /chains` and
`GET /maps/...` of earlier versions answer 410.
"""


def create_app(
    store: Store, keys: KeyStore, settings: ServiceSettings, close: Callable[[], object] = lambda: None
) -> FastAPI:
    """Return the service's ASGI app over a store and the database of API keys; the caller closes both.

    ``close`` is called when the app has shut down, for a caller that a signal then ends.
    """
    backend = Backend(store, keys, settings)
    app = FastAPIOffline(
        title="Token holders and transfers",
        description=f"{_DESCRIPTION}\n{errors_table()}\n",
        version=API_VERSION,
        lifespan=_lifespan(backend, close),
        redirect_slashes=False,
        strict_content_type=False,
        generate_unique_id_function=lambda route: route.name,
        dependencies=[Depends(reject_ambiguous_target)],
        redoc_url=None,
    )
    app.state.backend = backend
    for metered in (
        tokens.router,
        chains.router,
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
    complete(app, lambda: supported_chains(store))
    watch = backend.metrics.watch
    watch("cache_bytes", lambda: backend.cache.bytes_held, "Bytes of cached answers")
    watch("computations", lambda: backend.workers.pending, "Answers being computed or waiting for it")
    # The last middleware added is the outermost: the client's address is known before calls are counted.
    app.add_middleware(ParsedRequestsMiddleware, backend=backend, handlers=app.exception_handlers)
    app.add_middleware(RateLimitMiddleware, calls_per_minute=settings.calls_per_minute)
    if settings.trusted_proxies:
        app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=settings.trusted_proxies)
    app.add_middleware(ObservabilityMiddleware, metrics=backend.metrics)
    return app


def _lifespan(backend: Backend, close: Callable[[], object]) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await backend.close()
        close()

    return lifespan
