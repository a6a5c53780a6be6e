"""The short way of a request that was asked before and whose answer is kept: it is not read and routed again.

Whatever is not just so (another target, an unknown key, an answer that is gone, no credits) goes the usual way, which
also says what is wrong. Reading a request costs several times what sending a kept answer does.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from fastapi import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from holderlake.contract.requests import Request
from holderlake.contract.times import to_unix, utc_now
from holderlake.service.api.backend import Backend
from holderlake.service.api.responses import charged, not_modified
from holderlake.service.billing.keys import CreditsExhausted, Demand, Key, KeyEnded, KeysBusy
from holderlake.service.cache import is_known, key_of
from holderlake.service.observability import observation

_REFUSED: Final = (CreditsExhausted, KeyEnded, KeysBusy)
_READ: Final = (b"accept", b"if-none-match", b"x-apikey", b"content-length", b"transfer-encoding")


class ShortWay:
    """Middleware that answers what it can; to stand within what limits and observes requests."""

    def __init__(self, app: ASGIApp, backend: Backend) -> None:
        self._app = app
        self._backend = backend

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_get = scope["type"] == "http" and scope["method"] == "GET"
        answer = await self._answer(scope) if is_get else None
        await (self._app if answer is None else answer)(scope, receive, send)

    async def _answer(self, scope: Scope) -> Response | None:
        """The answer to a request that is known with one that is kept, for a key that is known and has the credits."""
        backend = self._backend
        headers = _headers(scope)
        asked = backend.shortcuts.find((scope["path"], scope["query_string"], headers[b"accept"]))
        key = None if asked is None else backend.known_keys.peek(headers[b"x-apikey"])
        if asked is None or key is None or headers[b"content-length"] or headers[b"transfer-encoding"]:
            return None
        name = (key_of(asked.request, asked.form, to_unix(utc_now())), None)
        tags = headers[b"if-none-match"]
        found = backend.cache.find(name) if tags else backend.cache.peek(name)
        if found is None:
            return None
        scope["route"] = asked.route
        seen = observation()
        seen.key, seen.account, seen.cached = key.prefix, key.account, True
        if tags and is_known(tags.decode("latin-1"), found):
            return not_modified(found)
        return await self._charged(key, asked.request, name)

    async def _charged(self, key: Key, request: Request, name: Hashable) -> Response | None:
        backend = self._backend
        try:
            charge = await backend.cashier.reserve(Demand(key.id, request.endpoint, request.cost))
        except _REFUSED:
            return None
        found = backend.cache.peek(name)  # the cashier has just looked what the store holds now
        if found is None:
            backend.cashier.release(charge)
            return None
        backend.metrics.cache("hit")
        return charged(backend, found, request, charge)


def _headers(scope: Scope) -> dict[bytes, bytes]:
    """The headers that matter; empty where they are not there, and joined where they stand more than once."""
    found = dict.fromkeys(_READ, b"")
    for name, value in scope["headers"]:
        if name in found:
            found[name] = value if not found[name] else found[name] + b"," + value
    return found
