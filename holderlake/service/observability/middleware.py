"""The outermost middleware: gives each request an id, counts and logs it, and answers 500 on an unexpected error."""

from __future__ import annotations

import logging
import re
import time
from random import getrandbits
from typing import Final

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holderlake.core.contract.errors import ERROR_KINDS
from holderlake.service.errors import INTERNAL_ERROR, error_response
from holderlake.service.observability.log import Observation, current_observation, log_request
from holderlake.service.observability.prometheus import Metrics

UNMATCHED: Final = "unmatched"
"""Route label of a request that matched no route, or was refused before routing."""

_log = logging.getLogger(__name__)
_ID_HEADER: Final = b"x-request-id"
_SANE_ID: Final = re.compile(rb"(?!.*hl_)[A-Za-z0-9._-]{1,64}")  # refuses an API key sent in the wrong header
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class ObservabilityMiddleware:
    """Middleware that gives each request an id, counts and logs it, and answers 500 on an unexpected error.

    Add it last, because the outermost middleware also sees the requests that other middleware refuses.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        observation = Observation(_request_id(scope))
        scope.setdefault("state", {})["observation"] = observation
        current_observation.set(observation)
        answer = _Recorder(observation, send)
        began = time.perf_counter()
        self._metrics.in_progress.inc()
        try:
            await self._app(scope, receive, answer)
        except BaseException as error:
            observation.failure = type(error).__name__
            if answer.status is not None or not isinstance(error, Exception):
                raise
            _log.exception("a request failed unexpectedly")
            await error_response("internal_error", INTERNAL_ERROR)(scope, receive, answer)
        finally:
            self._metrics.in_progress.dec()
            self._report(scope, observation, answer, time.perf_counter() - began)

    def _report(self, scope: Scope, observation: Observation, answer: _Recorder, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", UNMATCHED)
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._metrics.request(route, method, answer.status, observation.code, seconds)
        log_request(
            observation,
            method=method,
            route=route,
            status=answer.status,
            ms=round(1_000 * seconds, 2),
            size=answer.size,
            client=scope["client"][0] if scope.get("client") else None,
        )


class _Recorder:
    """An ASGI ``send`` that adds the request id as a header and records status, size and error code of the answer."""

    __slots__ = ("_observation", "_send", "size", "status")

    def __init__(self, observation: Observation, send: Send) -> None:
        self._observation = observation
        self._send = send
        self.status: int | None = None
        self.size = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), (_ID_HEADER, self._observation.request_id.encode())]
        elif message["type"] == "http.response.body":
            body = message.get("body", b"")
            self.size += len(body)
            if self.status is not None and self.status >= 400 and self._observation.code is None:
                self._observation.code = _code(body)
        await self._send(message)


def _request_id(scope: Scope) -> str:
    """Return the caller's request id if it is well-formed, else a new one."""
    for name, value in scope["headers"]:
        if name == _ID_HEADER and _SANE_ID.fullmatch(value):
            return str(value, "ascii")
    return f"{getrandbits(128):032x}"  # not a secret, so without a system call for randomness


class _ErrorBody(msgspec.Struct):
    code: str | None = None


_error_body: Final = msgspec.json.Decoder(_ErrorBody)


def _code(body: bytes) -> str | None:
    """Return the error code in an answer's body; None if the body has no code of the contract."""
    try:
        code = _error_body.decode(body).code
    except msgspec.DecodeError:
        return None
    return code if code in ERROR_KINDS else None
