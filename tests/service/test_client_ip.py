"""The client's address behind trusted and untrusted proxies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from holderlake.service.middleware.client_ip import (
    ProxyHeadersMiddleware,
    client_address,
    is_within,
    networks,
    rate_limit_key,
)
from tests.service.sockets import Served, say, serving

PROXIES = networks(["10.0.0.0/8", "fd00::/8", "192.0.2.7"])


def _scope(peer: str | None, *forwarded: str) -> dict[str, Any]:
    headers = [(b"x-forwarded-for", value.encode("latin-1")) for value in forwarded]
    return {"type": "http", "client": None if peer is None else (peer, 1234), "headers": headers}


def _caller(peer: str | None, *forwarded: str) -> str:
    return client_address(_scope(peer, *forwarded), PROXIES)


def test_forwarded_header_of_an_untrusted_peer_is_ignored():
    assert _caller("203.0.113.1", "198.51.100.1") == "203.0.113.1"


def test_forwarded_header_of_a_trusted_proxy_is_used():
    assert _caller("10.1.2.3", "198.51.100.1") == "198.51.100.1"
    assert _caller("10.1.2.3") == "10.1.2.3"


def test_last_untrusted_address_is_the_client():
    assert _caller("10.1.2.3", "1.1.1.1, 198.51.100.1, 192.0.2.7,10.9.9.9") == "198.51.100.1"
    assert _caller("10.1.2.3", "1.1.1.1", "198.51.100.1", "192.0.2.7") == "198.51.100.1"


def test_proxy_without_forwarded_header_is_the_client():
    assert _caller("10.1.2.3", "10.0.0.1, 10.0.0.2") == "10.0.0.1"


def test_proxy_address_formats_are_equivalent():
    assert _caller("::ffff:10.1.2.3", "198.51.100.1") == "198.51.100.1"
    assert _caller("fd00:0:0::1", "::FFFF:192.0.2.7, 198.51.100.1, ::ffff:0a00:0001") == "198.51.100.1"


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("198.51.100.1:4711", "198.51.100.1"),
        ("2001:db8::1", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ('"[2001:db8::1]:4711"', "2001:db8::1"),
        ("fe80::1%eth0", "fe80::1"),
        (" 198.51.100.1\t", "198.51.100.1"),
        ("::ffff:198.51.100.1", "198.51.100.1"),
    ],
)
def test_address_formats_of_proxies(written, address):
    assert _caller("10.1.2.3", written) == address


@pytest.mark.parametrize(
    "garbage", ["unknown", "_hidden", "", ",", "1.2.3", "[::1", "999.1.1.1", "x" * 9_000, "1.2.3.4:port", "1.2.3.4:5:6"]
)
def test_invalid_forwarded_address_makes_the_proxy_the_client(garbage):
    assert _caller("10.1.2.3", f"198.51.100.1, {garbage}, 10.9.9.9") == "10.9.9.9"
    assert _caller("10.1.2.3", garbage) == "10.1.2.3"


def test_number_of_hops_is_limited():
    assert _caller("10.1.2.3", "198.51.100.1" + ", 10.0.0.1" * 5_000) == "10.0.0.1"


def test_unix_socket_client_has_no_address():
    assert _caller(None, "198.51.100.1") == ""


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
    ("X-Forwarded-Host", "maps.example:8443"),
    ("Host", "inside"),
]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """An app that trusts this host as a proxy."""
    with serving(ProxyHeadersMiddleware(_seen, networks(["127.0.0.0/8"]))) as served:
        yield served


def test_app_sees_forwarded_client_scheme_and_host(served):
    assert httpx.get(served.base_url, headers=_SAID, timeout=None, verify=False).json() == [
        "198.51.100.1",
        "https",
        ["maps.example:8443"],
    ]


def test_untrusted_peer_cannot_set_client_scheme_or_host():
    with serving(ProxyHeadersMiddleware(_seen, PROXIES)) as served:
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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-Forwarded-Proto", "gopher"),
        ("X-Forwarded-Proto", "https, javascript"),
        ("X-Forwarded-Host", "evil.example/path"),
        ("X-Forwarded-Host", "a b"),
        ("X-Forwarded-Host", "a@b"),
        ("X-Forwarded-Host", ""),
        ("X-Forwarded-Host", "x" * 300),
    ],
)
def test_invalid_scheme_or_host_is_ignored(served, name, value):
    answer = httpx.get(served.base_url, headers={"Host": "inside", name: value}, timeout=None, verify=False)
    assert answer.json() == ["127.0.0.1", "http", ["inside"]]


def test_last_value_of_a_forwarded_list_is_used(served):
    text = {"X-Forwarded-Proto": "http, https", "X-Forwarded-Host": "evil.example, maps.example"}
    assert httpx.get(served.base_url, headers=text, timeout=None, verify=False).json()[1:] == [
        "https",
        ["maps.example"],
    ]
