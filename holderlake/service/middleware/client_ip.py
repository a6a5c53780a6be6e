"""Who calls: the address behind proxies that the operator trusts, and the network that its calls are counted by.

Uvicorn's own middleware for these headers is not used: it takes any text for an address, does not know a proxy that
reaches it as IPv4 within IPv6, and leaves ``X-Forwarded-Host`` aside.
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

_MOST_HOPS: Final = 16
_LONGEST_ADDRESS: Final = 64
_WITH_PORT: Final = re.compile(r"\[([^\]]*)\](?::\d*)?|([^:]*):\d*")
_HOST: Final = re.compile(rb"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?")


def networks(texts: Iterable[str]) -> Networks:
    """Networks as an operator writes them (``10.0.0.0/8``, ``::1``). Raises ``ValueError`` on what is none."""
    return tuple(ipaddress.ip_network(text) for text in texts)


def is_within(address: str, among: Networks) -> bool:
    """Whether an address lies in one of the networks; a text that is no address lies in none."""
    parsed = _address(address)
    return parsed is not None and _is_within(parsed, among)


def caller_of(scope: Scope, trusted: Networks) -> str:
    """The address that a request came from, or an empty text where it has none, as on a Unix socket.

    Behind a trusted proxy it is the right-most address of ``X-Forwarded-For`` that is not trusted too. Where that
    can't be read as an address, the last trusted proxy stands for its callers.
    """
    peer = scope["client"][0] if scope.get("client") else ""
    if not is_within(peer, trusted):
        return str(peer)
    caller: str = peer
    forwarded = ",".join(_values(scope, b"x-forwarded-for"))
    for text in reversed(forwarded.rsplit(",", _MOST_HOPS)):
        address = _address(text)
        if address is None:
            break
        caller = str(address)
        if not _is_within(address, trusted):
            break
    return caller


@lru_cache(4096)
def counted_as(address: str) -> str:
    """What the calls of an address are counted by: IPv4 itself, of IPv6 the /64, which one host owns whole."""
    parsed = _address(address)
    if not isinstance(parsed, ipaddress.IPv6Address):
        return "" if parsed is None else str(parsed)
    return f"{ipaddress.IPv6Address(int(parsed) >> 64 << 64)}/64"


class TrustedProxies:
    """Lets what follows see caller, scheme and host as a trusted proxy saw them; anyone else's word is ignored.

    A proxy must append to ``X-Forwarded-For`` and set ``X-Forwarded-Proto`` and ``X-Forwarded-Host`` itself, or drop
    them: what it passes on is believed. The scope is changed in place, so what stands outside sees it too, afterwards.
    """

    def __init__(self, app: ASGIApp, trusted: Networks) -> None:
        self._app = app
        self._trusted = trusted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._trusted and scope["type"] == "http" and scope.get("client"):
            _see_as_forwarded(scope, self._trusted)
        await self._app(scope, receive, send)


def _see_as_forwarded(scope: Scope, trusted: Networks) -> None:
    if not is_within(scope["client"][0], trusted):
        return
    caller = caller_of(scope, trusted)
    if caller != scope["client"][0]:
        scope["client"] = (caller, 0)
    scheme = _last(scope, b"x-forwarded-proto").lower()
    if scheme in ("http", "https"):
        scope["scheme"] = scheme
    host = _last(scope, b"x-forwarded-host").encode("latin-1")
    if _HOST.fullmatch(host):
        scope["headers"] = [(b"host", host), *(header for header in scope["headers"] if header[0] != b"host")]


def _values(scope: Scope, header: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == header]


def _last(scope: Scope, header: bytes) -> str:
    """Of a list, the nearest proxy's word: what stands before it may be the caller's own."""
    return ",".join(_values(scope, header)).rpartition(",")[2].strip()


def _is_within(address: _Address, among: Networks) -> bool:
    return any(address in network for network in among)


def _address(text: str) -> _Address | None:
    """An address as proxies write it, with or without quotes, brackets, port and zone; None where it is none."""
    if len(text) > _LONGEST_ADDRESS:
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
