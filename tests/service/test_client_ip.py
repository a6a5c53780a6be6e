"""The client's address behind trusted and untrusted proxies."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from holderlake.service.middleware.client_ip import is_within, networks, rate_limit_key
from tests.service.sockets import Served, say, serving

PROXIES = networks(["10.0.0.0/8", "fd00::/8", "192.0.2.7"])


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("198.51.100.1", "198.51.100.1"),
        ("::ffff:198.51.100.1", "198.51.100.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("testclient", ""),
    ],
)
def test_ipv6_client_is_counted_by_its_network(address, counted):
    assert rate_limit_key(address) == counted


def test_network_with_host_bits_is_refused():
    assert is_within("10.255.0.1", PROXIES) and not is_within("11.0.0.1", PROXIES) and not is_within("none", PROXIES)
    with pytest.raises(ValueError, match="host bits"):
        networks(["10.0.0.1/8"])


async def _seen(scope, receive, send):
    """An app that answers with its request's client, scheme and host."""
    host = [value.decode() for name, value in scope["headers"] if name == b"host"]
    await say(send, json.dumps([scope["client"][0], scope["scheme"], host]).encode())


_SAID = [
    ("X-Forwarded-For", "198.51.100.1"),
    ("X-Forwarded-Proto", "https"),
    ("Host", "inside"),
]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """An app that trusts this host as a proxy."""
    with serving(ProxyHeadersMiddleware(_seen, ["127.0.0.0/8"])) as served:
        yield served


def test_app_sees_forwarded_client_scheme_and_host(served):
    assert httpx.get(served.base_url, headers=_SAID, timeout=None, verify=False).json() == [
        "198.51.100.1",
        "https",
        ["inside"],
    ]


def test_untrusted_peer_cannot_set_client_scheme_or_host():
    with serving(ProxyHeadersMiddleware(_seen, ["10.0.0.0/8"])) as served:
        assert httpx.get(served.base_url, headers=_SAID, timeout=None, verify=False).json() == [
            "127.0.0.1",
            "http",
            ["inside"],
        ]


def test_trailers_do_not_set_the_client(served):
    request = b"POST / HTTP/1.1\r\nHost: inside\r\nX-Forwarded-For: 198.51.100.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    trailer = b"0\r\nX-Forwarded-For: 203.0.113.9\r\n\r\n"
    with served.connect() as peer:
        assert json.loads(peer.ask(request + trailer).body)[0] == "198.51.100.1"


@pytest.mark.parametrize("forwarded", ["1.1.1.1, 198.51.100.1", "198.51.100.1, 127.0.0.9", "198.51.100.1:4711"])
def test_last_untrusted_address_is_the_client(served, forwarded):
    seen = httpx.get(served.base_url, headers={"X-Forwarded-For": forwarded}, timeout=None, verify=False).json()
    assert seen[0] == "198.51.100.1"
