"""What whoever runs the service asks: does it live, can it answer, what has it counted. No key, no charge, no limit."""

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

from holderlake.contract.models import ErrorBody
from holderlake.service.api.backend import BackendDependency
from holderlake.service.errors import ServiceError
from holderlake.service.middleware.client_ip import is_within, networks
from holderlake.service.settings import ServiceSettings

router = APIRouter(tags=["service"])

_UNAVAILABLE: Final[dict[int | str, dict[str, Any]]] = {
    503: {"model": ErrorBody, "description": "`unavailable`: the detail says what is missing"}
}

_log = logging.getLogger(__name__)
_FORWARDED: Final = ("X-Forwarded-For", "X-Real-IP")


class Healthy(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Ready(BaseModel):
    """Requests can be answered."""

    status: Literal["ready"] = "ready"


class Readiness:
    """Whether a service can answer: looked at once in ``every`` seconds at most, however many ask.

    A look is a call that raises where something is missing. It runs in a thread; one that takes longer than
    ``patience`` seconds counts as missing, and is not begun again before it ends. For one event loop.
    """

    def __init__(self, looks: Mapping[str, Callable[[], object]], every: float = 1.0, patience: float = 2.0) -> None:
        self._looks = looks
        self._every = every
        self._patience = patience
        self._running: dict[str, Future[Exception | None]] = {}
        self._missing: dict[str, str] = {}
        self._looked = float("-inf")
        self._lock = asyncio.Lock()

    async def missing(self) -> list[str]:
        """What is not ready, by name; nothing where all is."""
        async with self._lock:
            if time.monotonic() - self._looked >= self._every:
                self._note(await self._look())
                self._looked = time.monotonic()
            return list(self._missing)

    async def _look(self) -> dict[str, str]:
        """What is missing, and why."""
        for name, look in self._looks.items():
            if name not in self._running or self._running[name].done():
                self._running[name] = _in_thread(look)
        waiting = [asyncio.wrap_future(one) for one in self._running.values()]
        _, late = await asyncio.wait(waiting, timeout=self._patience)
        for one in late:
            one.cancel()  # the waiting, not the look
        failures = {name: one.result() if one.done() else TimeoutError() for name, one in self._running.items()}
        return {name: type(error).__name__ for name, error in failures.items() if error is not None}

    def _note(self, found: dict[str, str]) -> None:
        if found and found != self._missing:
            _log.warning("not ready: %s", ", ".join(f"{name} ({why})" for name, why in found.items()))
        elif self._missing and not found:
            _log.warning("ready again")
        self._missing = found


async def _readiness(request: Request, backend: BackendDependency) -> Readiness:
    """The service's one; made by who asks first."""
    state = request.app.state
    if not hasattr(state, "readiness"):
        looks = {"keys": backend.keys.ping, "store": lambda: backend.store.history("", "")}
        state.readiness = Readiness(looks)
    return cast(Readiness, state.readiness)


@router.get("/health")
async def health() -> Healthy:
    """Whether the process answers."""
    return Healthy()


@router.get("/ready", responses=_UNAVAILABLE)
async def ready(request: Request, readiness: Annotated[Readiness, Depends(_readiness)]) -> Ready:
    """Whether keys and store can be asked."""
    missing = await readiness.missing()
    if getattr(request.app.state, "stopping", False):
        missing.append("shutting down")
    if missing:
        raise ServiceError("unavailable", f"Not ready: {', '.join(missing)}", {"Retry-After": "1"})
    return Ready()


@router.get("/metrics", include_in_schema=False)
async def metrics(request: Request, backend: BackendDependency) -> Response:
    """The metrics, for callers of the networks that may read them; for others there is no such path."""
    if not _may_read(request, backend.settings):
        raise HTTPException(404)
    # In a thread of its own, for the common ones may all be at work.
    text = await anyio.to_thread.run_sync(backend.metrics.text(), limiter=anyio.CapacityLimiter(1))
    return Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)


def _may_read(request: Request, settings: ServiceSettings) -> bool:
    """Whether the caller may, and everyone for whom it says that it asks: a proxy is not its callers elsewhere.

    Proxies that are trusted may stand between.
    """
    may = networks(settings.metrics_from)
    between = may + networks(settings.trusted_proxies)
    headers = request.headers
    forwarded = [text for name in _FORWARDED for header in headers.getlist(name) for text in header.split(",")]
    caller = request.client.host if request.client else ""
    return "Forwarded" not in headers and is_within(caller, may) and all(is_within(text, between) for text in forwarded)


def _in_thread(look: Callable[[], object]) -> Future[Exception | None]:
    """Runs it in a thread that ends with the process, whatever it hangs at; the result is what it raised."""
    future: Future[Exception | None] = Future()
    future.set_running_or_notify_cancel()  # so that nobody can cancel it

    def run() -> None:
        try:
            look()
        except Exception as error:
            future.set_result(error)
        else:
            future.set_result(None)

    threading.Thread(target=run, name="ready", daemon=True).start()
    return future
