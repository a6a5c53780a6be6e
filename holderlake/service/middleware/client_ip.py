"""Finds the client's IP address behind trusted proxies, and the text by which its calls are counted.

uvicorn's own middleware is not used: it accepts any text as an address, does not recognise IPv4-mapped IPv6 proxies,
and ignores ``X-Forwarded-Host``.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

Networks = tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]

_MAX_HOPS: Final = 16
_MAX_ADDRESS: Final = 64
_WITH_PORT: Final = re.compile(r"\[([^\]]*)\](?::\d*)?|([^:]*):\d*")
_HOST: Final = re.compile(rb"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?")


def networks(texts: Iterable[str]) -> Networks:
    """Parse IP networks or addresses, for example ``10.0.0.0/8`` or ``::1``. Raises ``ValueError`` for other text."""
    return tuple(ipaddress.ip_network(text) for text in texts)


def is_within(address: str, among: Networks) -> bool:
    """Return whether an address is in one of the networks ``among``; False for an invalid address."""
    parsed = _address(address)
    return parsed is not None and _is_within(parsed, among)


def client_address(scope: Scope, trusted: Networks) -> str:
    """Return the address of a request's client, or an empty text if it has none, as on a Unix socket.

    Behind a trusted proxy it is the right-most untrusted address in ``X-Forwarded-For``. An invalid address in that
    header ends the search; then the trusted proxy that sent it counts as the client.
    """
    peer = scope["client"][0] if scope.get("client") else ""
    if not is_within(peer, trusted):
        return str(peer)
    client: str = peer
    forwarded = ",".join(_values(scope, b"x-forwarded-for"))
    for text in reversed(forwarded.rsplit(",", _MAX_HOPS)):
        address = _address(text)
        if address is None:
            break
        client = str(address)
        if not _is_within(address, trusted):
            break
    return client


@lru_cache(4096)
def rate_limit_key(address: str) -> str:
    """Return the text by which calls from an IP address are counted.

    It is an IPv4 address itself, and for IPv6 the /64 network, because one host may own a complete /64 network.
    """
    parsed = _address(address)
    if not isinstance(parsed, ipaddress.IPv6Address):
        return "" if parsed is None else str(parsed)
    return f"{ipaddress.IPv6Address(int(parsed) >> 64 << 64)}/64"


class ProxyHeadersMiddleware:
    """Sets client, scheme and host of a request to the values that a trusted proxy forwarded.

    Headers from other peers are ignored. A trusted proxy must append to ``X-Forwarded-For``, and set or remove
    ``X-Forwarded-Proto`` and ``X-Forwarded-Host``. The scope is changed in place, so outer middleware sees it too.
    """

    def __init__(self, app: ASGIApp, trusted: Networks) -> None:
        self._app = app
        self._trusted = trusted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope.get("client"):
            _apply_forwarded(scope, self._trusted)
        await self._app(scope, receive, send)


def _apply_forwarded(scope: Scope, trusted: Networks) -> None:
    if not is_within(scope["client"][0], trusted):
        return
    client = client_address(scope, trusted)
    if client != scope["client"][0]:
        scope["client"] = (client, 0)
    scheme = _last_value(scope, b"x-forwarded-proto").lower()
    if scheme in ("http", "https"):
        scope["scheme"] = scheme
    host = _last_value(scope, b"x-forwarded-host").encode("latin-1")
    if _HOST.fullmatch(host):
        scope["headers"] = [(b"host", host), *(header for header in scope["headers"] if header[0] != b"host")]


def _values(scope: Scope, header: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == header]


def _last_value(scope: Scope, header: bytes) -> str:
    """Return the last value in a header's comma-separated list. The nearest proxy wrote it.

    The client may have written the earlier values.
    """
    return ",".join(_values(scope, header)).rpartition(",")[2].strip()


def _is_within(address: _Address, among: Networks) -> bool:
    return any(address in network for network in among)


def _address(text: str) -> _Address | None:
    """Parse an address as proxies write it, with or without quotes, brackets, port and zone; None for other text."""
    if len(text) > _MAX_ADDRESS:
        return None
    bare = text.strip().strip('"')
    if with_port := _WITH_PORT.fullmatch(bare):
        bare = with_port[1] or with_port[2] or ""
    return _parsed(bare.partition("%")[0])


@lru_cache(4096)
def _parsed(text: str) -> _Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
