"""Middleware that protects the explorer: known host names, only GET and HEAD, no scripts or frames of other origins."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from typing import Final

from fastapi import Request
from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Security headers, added to every answer."""


class Guard:
    """Middleware that refuses requests for a host other than ``names``, ``localhost`` and IP addresses.

    The page of an attacker can make its own host name resolve to this machine (DNS rebinding), but not an IP address.
    So a request for an unknown host name may come from such a page.
    """

    def __init__(self, app: ASGIApp, names: Collection[str] = ()) -> None:
        self._app = app
        self._names = {"localhost", *(name.lower() for name in names)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request to the app. Answer 421 for another host, and 405 for a method other than GET and HEAD."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        request = Request(scope)
        if not self._is_ours(request.headers.get("host", "")):
            text = "This page answers to localhost only; open it at the address that 'holderlake explore' prints."
            await PlainTextResponse(text, 421)(scope, receive, guarded)
        elif request.method not in ("GET", "HEAD"):
            await PlainTextResponse("This page is read-only.", 405, {"Allow": "GET, HEAD"})(scope, receive, guarded)
        else:
            await self._app(scope, receive, guarded)

    def _is_ours(self, host: str) -> bool:
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if name.lower() in self._names:
            return True
        try:
            ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
        except ValueError:
            return False
        return True
