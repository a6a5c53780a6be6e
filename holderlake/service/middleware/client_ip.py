"""Networks of addresses, and the text by which the calls of an address are counted.

uvicorn's ``ProxyHeadersMiddleware`` finds the address of a client behind trusted proxies.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from functools import lru_cache

Networks = tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]


def networks(texts: Iterable[str]) -> Networks:
    """Parse IP networks or addresses, for example ``10.0.0.0/8`` or ``::1``. Raises ``ValueError`` for other text."""
    return tuple(ipaddress.ip_network(text) for text in texts)


def is_within(address: str, among: Networks) -> bool:
    """Return whether an address is in one of the networks ``among``; False for an invalid address."""
    parsed = _parsed(address.strip())
    return parsed is not None and any(parsed in network for network in among)


@lru_cache(4096)
def rate_limit_key(address: str) -> str:
    """Return the text by which calls from an IP address are counted, empty for another text.

    It is an IPv4 address itself, and for IPv6 the /64 network, because one host may own a complete /64 network.
    """
    parsed = _parsed(address)
    if not isinstance(parsed, ipaddress.IPv6Address):
        return "" if parsed is None else str(parsed)
    return f"{ipaddress.IPv6Address(int(parsed) >> 64 << 64)}/64"


def _parsed(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
