"""Sees every request from outside of all else: names it, counts it, logs it, and answers when all else failed."""

from __future__ import annotations

import logging
import re
import time
from random import getrandbits
from typing import Final

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holderlake.contract.errors import ERROR_KINDS
from holderlake.service.errors import INTERNAL_ERROR, error_response
from holderlake.service.observability.log import log_request
from holderlake.service.observability.metrics import Metrics
from holderlake.service.observability.observation import Observation, begin

UNMATCHED: Final = "unmatched"
"""The route of a request that no route took, or that was refused before routes were looked at."""

_log = logging.getLogger(__name__)
_ID_HEADER: Final = b"x-request-id"
_SANE_ID: Final = re.compile(rb"(?!.*hl_)[A-Za-z0-9._-]{1,64}")  # not an API key in the wrong header
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Observed:
    """To be outermost, so that it sees what other middleware refuses too."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        seen = Observation(_request_id(scope))
        scope.setdefault("state", {})["observation"] = seen
        begin(seen)
        answer = _Answer(seen, send)
        began = time.perf_counter()
        self._metrics.in_progress.inc()
        try:
            await self._app(scope, receive, answer)
        except BaseException as error:
            seen.failure = type(error).__name__
            if answer.status is not None or not isinstance(error, Exception):
                raise
            _log.exception("a request failed in a way that nobody foresaw")
            await error_response("internal_error", INTERNAL_ERROR)(scope, receive, answer)
        finally:
            self._metrics.in_progress.dec()
            self._report(scope, seen, answer, time.perf_counter() - began)

    def _report(self, scope: Scope, seen: Observation, answer: _Answer, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", UNMATCHED)
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._metrics.request(route, method, answer.status, seen.code, seconds)
        log_request(
            seen,
            method=method,
            route=route,
            status=answer.status,
            ms=round(1_000 * seconds, 2),
            size=answer.size,
            client=scope["client"][0] if scope.get("client") else None,
        )


class _Answer:
    """A request's ``send`` that adds the id and remembers what went out."""

    __slots__ = ("_seen", "_send", "size", "status")

    def __init__(self, seen: Observation, send: Send) -> None:
        self._seen = seen
        self._send = send
        self.status: int | None = None
        self.size = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), (_ID_HEADER, self._seen.request_id.encode())]
        elif message["type"] == "http.response.body":
            body = message.get("body", b"")
            self.size += len(body)
            if self.status is not None and self.status >= 400 and self._seen.code is None:
                self._seen.code = _code(body)
        await self._send(message)


def _request_id(scope: Scope) -> str:
    """The caller's own id, or a new one."""
    for name, value in scope["headers"]:
        if name == _ID_HEADER and _SANE_ID.fullmatch(value):
            return str(value, "ascii")
    return f"{getrandbits(128):032x}"  # a name, no secret: the system's own randomness costs a call to it


class _ErrorBody(msgspec.Struct):
    code: str | None = None


_error_body: Final = msgspec.json.Decoder(_ErrorBody)


def _code(body: bytes) -> str | None:
    """The code that an error answer says, whoever made it."""
    try:
        code = _error_body.decode(body).code
    except msgspec.DecodeError:
        return None
    return code if code in ERROR_KINDS else None
