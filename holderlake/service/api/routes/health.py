"""Routes for operators: liveness, readiness and metrics. They need no key, cost nothing and have no rate limit."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Annotated, Any, Final, Literal, cast

import anyio
import anyio.to_thread
from fastapi import APIRouter, Depends, Request, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from holderlake.core.contract.models import ErrorBody
from holderlake.service.api.backend import BackendDependency
from holderlake.service.errors import ServiceError
from holderlake.service.middleware.client_ip import is_within, networks
from holderlake.service.settings import ServiceSettings

router = APIRouter(tags=["service"])

_UNAVAILABLE: Final[dict[int | str, dict[str, Any]]] = {
    503: {"model": ErrorBody, "description": "`unavailable`: the detail names the failed checks"}
}

_log = logging.getLogger(__name__)
_FORWARDED: Final = ("X-Forwarded-For", "X-Real-IP")


class Healthy(BaseModel):
    """Body of the answer of ``/health``: the process runs."""

    status: Literal["ok"] = "ok"


class Ready(BaseModel):
    """Body of the answer of ``/ready``: the service can answer requests."""

    status: Literal["ready"] = "ready"


class Readiness:
    """Runs readiness checks at most once in ``every`` seconds, even if more requests arrive.

    A check is a function that raises if something is missing. It runs in a thread. A check that takes longer than
    ``timeout`` seconds counts as failed, and is not started again before it ends. Use one object in one event loop.
    """

    def __init__(self, checks: Mapping[str, Callable[[], object]], every: float = 1.0, timeout: float = 2.0) -> None:
        self._checks = checks
        self._every = every
        self._timeout = timeout
        self._running: dict[str, Future[Exception | None]] = {}
        self._missing: dict[str, str] = {}
        self._checked_at = float("-inf")
        self._lock = asyncio.Lock()

    async def missing(self) -> list[str]:
        """Return the names of the checks that failed."""
        async with self._lock:
            if time.monotonic() - self._checked_at >= self._every:
                self._log_change(await self._failures())
                self._checked_at = time.monotonic()
            return list(self._missing)

    async def _failures(self) -> dict[str, str]:
        """Run the checks. Return the name of each failed check with the type of its error."""
        for name, check in self._checks.items():
            if name not in self._running or self._running[name].done():
                self._running[name] = _in_thread(check)
        waiting = [asyncio.wrap_future(future) for future in self._running.values()]
        _, late = await asyncio.wait(waiting, timeout=self._timeout)
        for future in late:
            future.cancel()  # cancels the waiting, not the check
        errors = {name: future.result() if future.done() else TimeoutError() for name, future in self._running.items()}
        return {name: type(error).__name__ for name, error in errors.items() if error is not None}

    def _log_change(self, failures: dict[str, str]) -> None:
        if failures and failures != self._missing:
            _log.warning("not ready: %s", ", ".join(f"{name} ({error})" for name, error in failures.items()))
        elif self._missing and not failures:
            _log.warning("ready again")
        self._missing = failures


async def _readiness(request: Request, backend: BackendDependency) -> Readiness:
    """Return the app's ``Readiness``, created by the first request."""
    state = request.app.state
    if not hasattr(state, "readiness"):
        checks = {"keys": backend.keys.ping, "store": lambda: backend.store.history("", "")}
        state.readiness = Readiness(checks)
    return cast(Readiness, state.readiness)


@router.get("/health")
async def health() -> Healthy:
    """Liveness: the process answers."""
    return Healthy()


@router.get("/ready", responses=_UNAVAILABLE)
async def ready(request: Request, readiness: Annotated[Readiness, Depends(_readiness)]) -> Ready:
    """Readiness: keys and store can be read."""
    missing = await readiness.missing()
    if getattr(request.app.state, "stopping", False):
        missing.append("shutting down")
    if missing:
        raise ServiceError(
            "unavailable", f"Not ready: {', '.join(missing)}; see the service's log", {"Retry-After": "1"}
        )
    return Ready()


@router.get("/metrics", include_in_schema=False)
async def metrics(request: Request, backend: BackendDependency) -> Response:
    """The Prometheus metrics, for clients in the allowed networks; 404 for others."""
    if not _may_read(request, backend.settings):
        raise HTTPException(404)
    # In its own thread: the shared ones may all be busy.
    text = await anyio.to_thread.run_sync(backend.metrics.text(), limiter=anyio.CapacityLimiter(1))
    return Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)


def _may_read(request: Request, settings: ServiceSettings) -> bool:
    """Return True if the client's address is in the networks ``metrics_from``, so that it may read the metrics.

    All addresses in headers such as ``X-Forwarded-For`` must be in these networks too, or be trusted proxies.
    """
    allowed = networks(settings.metrics_from)
    allowed_hops = allowed + networks(settings.trusted_proxies)
    headers = request.headers
    hops = [text for name in _FORWARDED for header in headers.getlist(name) for text in header.split(",")]
    client = request.client.host if request.client else ""
    return (
        "Forwarded" not in headers and is_within(client, allowed) and all(is_within(hop, allowed_hops) for hop in hops)
    )


def _in_thread(check: Callable[[], object]) -> Future[Exception | None]:
    """Run a check in a daemon thread, which cannot delay the end of the process. The result is its error or None."""
    future: Future[Exception | None] = Future()
    future.set_running_or_notify_cancel()  # from now on it can't be cancelled

    def run() -> None:
        try:
            check()
        except Exception as error:
            future.set_result(error)
        else:
            future.set_result(None)

    threading.Thread(target=run, name="ready", daemon=True).start()
    return future
