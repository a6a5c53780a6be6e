"""The provider's client against a real server that misbehaves."""

from __future__ import annotations

import asyncio
import gzip
import html
import json
import logging
import traceback
import tracemalloc
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import pytest
from pydantic import SecretStr

from holderlake.core.contract.models import TokenKey
from holderlake.core.contract.requests import (
    ChainsRequest,
    MapOptions,
    MapRequest,
    TokensMetadataRequest,
)
from holderlake.core.contract.times import utc_now
from holderlake.core.provider import errors
from holderlake.core.provider.attempts import LONGEST_WAIT, CallOptions
from holderlake.core.provider.client import ProviderClient, Response
from holderlake.core.provider.errors import ProviderError
from tests.helpers.misbehaving import (
    CHAINS,
    Misbehaving,
    Step,
    answer,
    drip,
    endless,
    error,
    half,
    reset,
    sends,
    silence,
)
from tests.helpers.processes import PATIENCE

pytestmark = pytest.mark.anyio
KEY = "sk-very-secret-0123456789"
TOKEN = "0x00000000000000000000000000000000000000aa"
OK = answer(CHAINS)
Key = str | SecretStr | None


@asynccontextmanager
async def talking(
    steps: list[Step], key: Key = KEY, **options: Any
) -> AsyncIterator[tuple[ProviderClient, Misbehaving]]:
    """Serve the steps, and give a client that retries fast and the server."""
    chosen = {"timeout": PATIENCE, "attempts": 3, "first_wait": 0.01} | options
    async with Misbehaving(steps) as server, ProviderClient(server.address, key, **chosen) as client:
        yield client, server


def ask(steps: list[Step], **options: Any) -> tuple[Any, Misbehaving]:
    """Return the answer or the error, and the server with the requests that it received."""

    async def asked() -> tuple[Any, Misbehaving]:
        async with talking(steps, **options) as (client, server):
            try:
                return await client.ask(ChainsRequest()), server
            except ProviderError as failure:
                return failure, server

    return asyncio.run(asked())


async def raw_answer(step: Step, key: Key = KEY) -> Response:
    async with talking([step], key) as (client, _):
        return await client.send(ChainsRequest())


async def test_requests_follow_the_contract() -> None:
    async with talking([OK, answer({"metrics": {}}), answer([])]) as (client, server):
        await client.ask(ChainsRequest())
        await client.send(MapRequest(chain="eth", token_address=TOKEN, options=MapOptions(limit=250, refresh=True)))
        tokens = (TokenKey(chain="eth", address=TOKEN),)
        await client.send(TokensMetadataRequest(tokens=tokens, return_token_stats=True))
    chains, a_map, tokens_sent = server.received
    assert (chains.method, chains.target) == ("GET", "/v0/chains")
    assert chains.headers["x-apikey"] == KEY
    assert chains.headers["user-agent"].startswith("holderlake")
    assert a_map.target == f"/v0/tokens/map/eth/{TOKEN}?limit=250&refresh=true"
    assert (tokens_sent.method, tokens_sent.target) == ("POST", "/v0/tokens/metadata?return_token_stats=true")
    assert json.loads(tokens_sent.body) == [{"chain": "eth", "address": TOKEN}]
    assert tokens_sent.headers["content-type"] == "application/json"
    assert len({received.connection for received in server.received}) == 1


async def test_raw_answer_has_cost_balance_and_time() -> None:
    headers = {"X-Credits-Cost": "25.01", "X-Credits-Remaining": "1000.00", "X-Dt-Update": "2026-11-20T00:00:00.000000"}
    before = utc_now()
    raw = await raw_answer(answer(CHAINS, headers=headers))
    assert (raw.cost, raw.credits_remaining) == (2501, 100_000)
    assert raw.fetched_at.tzinfo is None
    assert before <= raw.fetched_at <= utc_now()
    assert json.loads(raw.raw) == CHAINS


@pytest.mark.parametrize("said", ["", "much", "1.234", "-1.00", "nan"])
async def test_invalid_cost_header_counts_as_missing(said: str) -> None:
    assert (await raw_answer(answer(CHAINS, headers={"X-Credits-Cost": said}))).cost is None


@pytest.mark.parametrize(
    "trouble",
    [
        error(500, "internal_error"),
        answer(b"<html>bad gateway</html>", 502),
        error(503, "unavailable"),
        error(504),
        error(408),
        error(429, "rate_limited"),
        reset(),
        half(CHAINS),
    ],
    ids=["500", "502", "503", "504", "408", "429", "reset", "half"],
)
def test_transient_failures_are_retried(trouble: Step) -> None:
    chains, server = ask([trouble, OK])
    assert chains[0].id == "eth"
    assert len(server.received) == 2


@pytest.mark.parametrize(
    ("trouble", "kind", "code"),
    [
        (error(400, "unsupported_token"), errors.UnsupportedToken, "unsupported_token"),
        (error(400), errors.UnsupportedToken, "unsupported_token"),
        (answer(b"<html>bad request</html>", 400), errors.InvalidRequest, "unexpected_status"),
        (error(401, "invalid_key"), errors.InvalidKey, "invalid_key"),
        (error(401, "missing_key"), errors.InvalidKey, "missing_key"),
        (answer(b"", 401), errors.InvalidKey, "invalid_key"),
        (error(403, "plan_required"), errors.PlanRequired, "plan_required"),
        (error(404, "no_holders"), errors.NoHolders, "no_holders"),
        (error(404, "unknown_token"), errors.UnknownToken, "unknown_token"),
        (error(404), errors.NoHolders, "no_holders"),
        (error(404, detail="Not Found"), errors.InvalidRequest, "not_found"),
        (answer(b"<!doctype html><p>Lost?", 404), errors.InvalidRequest, "not_found"),
        (error(405, "method_not_allowed"), errors.InvalidRequest, "method_not_allowed"),
        (error(410, "removed"), errors.RemovedEndpoint, "removed"),
        (error(413, "body_too_large"), errors.InvalidRequest, "body_too_large"),
        (error(422), errors.InvalidRequest, "invalid_request"),
        (error(429, "credits_exhausted"), errors.CreditsExhausted, "credits_exhausted"),
        (error(429, detail="The month's credits are used up"), errors.CreditsExhausted, "credits_exhausted"),
        (error(402, detail="The credits are used up"), errors.CreditsExhausted, "credits_exhausted"),
        (error(403), errors.Forbidden, "forbidden"),
        (error(429, "credits_exhausted", Retry_After="1"), errors.CreditsExhausted, "credits_exhausted"),
        (error(418, "teapot"), errors.InvalidRequest, "unexpected_status"),
        (error(404, "TOKEN_NOT_FOUND"), errors.NoHolders, "no_holders"),
    ],
)
def test_permanent_failures_are_not_retried(trouble: Step, kind: type[ProviderError], code: str) -> None:
    failure, server = ask([trouble])
    assert type(failure) is kind
    assert failure.code == code
    assert not failure.retryable
    assert len(server.received) == 1


def test_a_very_long_retry_after_ends_the_retries() -> None:
    failure, server = ask([error(503, "unavailable", Retry_After=str(int(LONGEST_WAIT) + 1))])
    assert isinstance(failure, errors.Unavailable)
    assert len(server.received) == 1


def test_retries_end_after_the_attempts() -> None:
    failure, server = ask([error(500, "internal_error")])
    assert isinstance(failure, errors.Unavailable)
    assert len(server.received) == 3


@pytest.mark.later(integration=1)
@pytest.mark.parametrize("trouble", [silence(), drip()], ids=["silence", "drip"])
def test_the_deadline_ends_silent_and_slow_answers(trouble: Step) -> None:
    failure, _ = ask([trouble], timeout=0.3, attempts=1)
    assert isinstance(failure, errors.Unreachable)
    assert failure.maybe_charged


async def test_a_broken_kept_connection_does_not_repeat_the_request() -> None:
    async with talking([OK, reset(), OK]) as (client, server):
        await client.ask(ChainsRequest())
        with pytest.raises(errors.Unreachable) as caught:
            await client.exchange(ChainsRequest())
    assert (len(server.received), caught.value.maybe_charged) == (2, True)


@pytest.mark.parametrize(
    "raw",
    [
        b'[{"id": "eth", "name": NaN}]',
        b'[{"id": "eth", "name": "Ethereum", "x": 1e99999999999999999999}]',
        b'[{"id": "eth"}]',
    ],
    ids=["nan", "exponent", "field"],
)
def test_an_unreadable_answer_is_named_by_hash_and_not_retried(raw: bytes) -> None:
    failure, server = ask([answer(raw)])
    assert isinstance(failure, errors.MalformedAnswer)
    assert failure.answer_hash in str(failure)
    assert failure.code == "malformed_answer"
    assert len(server.received) == 1


@pytest.mark.parametrize(
    "raw",
    [b"<html>hello</html>", b"", b'[{"id": "eth", "na', b"[" * 100_000, b'{"detail": "no list", "id": 1}', b"\xff\xfe"],
    ids=["html", "empty", "truncated", "deep", "error", "bytes"],
)
def test_a_body_that_is_no_answer_of_the_api_is_a_broken_answer(raw: bytes) -> None:
    failure, server = ask([answer(raw)], attempts=5)
    assert isinstance(failure, errors.BrokenAnswer)
    assert (failure.code, failure.maybe_charged) == ("broken_answer", True)
    assert len(server.received) == 2, "it may have been charged, so it is repeated once"


CHAINS_TEXT = json.dumps(CHAINS).encode()
BOMB = gzip.compress(bytes(5_000_000), 1)
"""Fifty times the bytes that ``SMALL`` allows, in few."""
ZIPPED = gzip.compress(CHAINS_TEXT, mtime=0)
SMALL = CallOptions(answer_bytes=100_000)


@pytest.mark.parametrize(
    ("raw", "encoding"),
    [
        (ZIPPED, "gzip"),
        (ZIPPED, "x-gzip, identity"),
        (ZIPPED, "GZIP"),
        (ZIPPED, ""),
        (gzip.compress(ZIPPED), "gzip"),
        (gzip.compress(CHAINS_TEXT[:9]) + gzip.compress(CHAINS_TEXT[9:]), "gzip"),
        (ZIPPED + bytes(8), "gzip"),
        (zlib.compress(CHAINS_TEXT), "deflate"),
        (zlib.compress(CHAINS_TEXT)[2:-4], "deflate"),
        (CHAINS_TEXT, "gzip"),
        (CHAINS_TEXT, "deflate"),
        (CHAINS_TEXT, "utf-8"),
        (CHAINS_TEXT, "br"),
    ],
    ids=[
        "gzip",
        "x-gzip",
        "upper case",
        "no header",
        "twice",
        "members",
        "padding",
        "zlib",
        "bare deflate",
        "plain as gzip",
        "plain as deflate",
        "plain as a charset",
        "plain as br",
    ],
)
def test_answers_are_decompressed_by_their_bytes(raw: bytes, encoding: str) -> None:
    chains, server = ask([answer(raw, headers={"Content-Encoding": encoding} if encoding else None)])
    assert chains[0].id == "eth"
    assert server.received[0].headers["accept-encoding"] == "gzip, deflate"


@pytest.mark.later(integration=10)
@pytest.mark.parametrize(
    ("trouble", "how"),
    [
        (endless(), "too_large"),
        (answer(BOMB, headers={"Content-Encoding": "gzip"}), "too_large"),
        (answer(gzip.compress(BOMB), headers={"Content-Encoding": "gzip"}), "too_large"),
        (answer(zlib.compress(bytes(5_000_000), 1), headers={"Content-Encoding": "deflate"}), "too_large"),
        (answer(ZIPPED[:-12], headers={"Content-Encoding": "gzip"}), "closed"),
        (answer(ZIPPED[:10] + b"\xff" * 20, headers={"Content-Encoding": "gzip"}), "corrupt"),
        (answer(b"\x1b\x0b\x00\x80", headers={"Content-Encoding": "br"}), "encoding"),
        (answer(b"\x28\xb5\x2f\xfd", headers={"Content-Encoding": "zstd"}), "encoding"),
        (half(CHAINS), "closed"),
        (sends(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"ff\r\nabc"), "closed"),
    ],
    ids=["endless", "bomb", "double bomb", "deflate bomb", "short gzip", "bad gzip", "br", "zstd", "half", "chunks"],
)
def test_broken_answers_keep_status_and_cause(trouble: Step, how: str) -> None:
    failure, server = ask([trouble], attempts=5, options=SMALL)
    assert isinstance(failure, errors.BrokenAnswer)
    assert (failure.status, failure.broken, failure.maybe_charged) == (200, how, True)
    assert len(server.received) == 2
    if how == "too_large":
        assert "0.1 MB" in failure.detail
        assert "provider.answer_megabytes" in failure.detail


@pytest.mark.parametrize("trouble", ["endless", "bomb"])
def test_memory_for_one_answer_is_bounded(trouble: str) -> None:
    step = endless() if trouble == "endless" else answer(gzip.compress(bytes(100_000_000), 1))
    tracemalloc.start()
    try:
        ask([step], attempts=1, timeout=60.0, options=CallOptions(answer_bytes=4_000_000))
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.later(integration=10)
@pytest.mark.parametrize(
    "raw",
    [
        b"hello\r\n",
        b"<html>an answer of HTTP/0.9</html>",
        b"\x15\x03\x01\x00\x02\x02\x16",
        b"HTTP/99.9 777 \xff\xfe\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 9\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 1_000_000 + b"\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\n" + b"X-Y: z\r\n" * 100_000 + b"\r\n[]",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000,
        b"",
    ],
    ids=["text", "0.9", "tls", "version", "negative", "lengths", "header", "headers", "100s", "nothing"],
)
def test_responses_that_are_not_http_may_have_been_charged(raw: bytes) -> None:
    failure, server = ask([sends(raw)], attempts=5, timeout=3.0)
    assert isinstance(failure, errors.Unreachable)
    assert failure.maybe_charged
    assert len(server.received) == 2
    assert failure.detail.isprintable()
    assert len(failure.detail) <= 300


@pytest.mark.parametrize("status", [204, 205, 206])
def test_empty_answers_with_a_success_status_are_broken(status: int) -> None:
    failure, server = ask([answer(b"", status)])
    assert isinstance(failure, errors.BrokenAnswer)
    assert len(server.received) == 2


@pytest.mark.parametrize("status", [401, 403, 503])
def test_an_error_with_a_broken_body_keeps_its_meaning(status: int) -> None:
    bomb = answer(BOMB, status, {"Content-Encoding": "gzip"})
    failure, _ = ask([bomb], options=SMALL)
    assert failure.status == status
    assert not failure.maybe_charged


def test_a_web_page_is_named_by_its_title() -> None:
    page = b"<!doctype html><html><head><title>Access &amp; denied</title></head>" + b"<p>x</p>" * 10_000
    failure, _ = ask([answer(page, 403)])
    assert "a web page, 'Access & denied'" in str(failure)
    assert "the provider refuses access" in str(failure)
    assert "check the API key, and whether a firewall" in str(failure)


async def test_the_key_is_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    echo = f"your headers were X-ApiKey: {KEY}"
    steps = [
        error(401, "invalid_key", echo),
        error(422, detail=[{"loc": ["header"], "msg": echo}]),
        error(503, "unavailable", echo, Retry_After="1000"),
        answer(echo.encode(), 403),
        answer(echo.encode()),
        answer([{"id": "eth", KEY: 1}]),
        reset(),
        silence(),
    ]
    async with talking(steps, attempts=1, timeout=0.3) as (client, _):
        shown = [
            repr(client),
            str(vars(client)),
            repr(client._http and vars(client._http)),
            repr(client._http and [each.headers for each in client._http._idle]),
        ]
        for _step in range(len(steps)):
            with pytest.raises(ProviderError) as caught:
                await client.ask(ChainsRequest())
            failure = caught.value
            shown += [str(failure), repr(failure), repr(vars(failure)), "".join(traceback.format_exception(failure))]
            assert failure.__cause__ is None
            assert failure.__context__ is None
    assert KEY not in "".join(shown)
    assert KEY not in "".join(f"{record.getMessage()} {vars(record)}" for record in caplog.records)


ODD_KEY = 'hl_a+b/c="9&<x>\\y'


@pytest.mark.parametrize(
    "form",
    [
        ODD_KEY,
        quote(ODD_KEY, safe=""),
        quote(ODD_KEY, safe="").lower(),
        quote(quote(ODD_KEY, safe=""), safe=""),
        json.dumps(ODD_KEY)[1:-1].replace("/", "\\/"),
        "".join(f"\\u{ord(letter):04X}" for letter in ODD_KEY),
        json.dumps(json.dumps(ODD_KEY))[3:-3],
        html.escape(ODD_KEY),
    ],
)
async def test_an_echoed_key_is_replaced_in_each_form(form: str) -> None:
    body = b'[{"name": "100% \\u0041", "x": "key ' + form.encode() + b'"}]'
    assert (await raw_answer(answer(body), ODD_KEY)).raw == b'[{"name": "100% \\u0041", "x": "key ***"}]'


async def test_a_short_key_does_not_change_a_paid_answer() -> None:
    assert b'"eth"' in (await raw_answer(OK, "eth")).raw


def test_a_redirect_is_not_followed_and_its_target_shown_without_the_key() -> None:
    failure, server = ask([answer(b"", 301, {"Location": f"https://elsewhere.example/?{KEY}"})])
    assert "https://elsewhere.example/?***" in str(failure)
    assert len(server.received) == 1


@pytest.mark.parametrize("key", ["with\nnewline", "clé", "nul\x00"])
def test_a_key_that_fits_no_header_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(ValueError, match="API key") as caught:
        ProviderClient("https://provider.example", SecretStr(key))
    assert key not in str(caught.value)


@pytest.mark.parametrize(("key", "sent"), [(None, None), (SecretStr(f"{KEY}\n"), KEY)])
async def test_a_key_may_be_absent_or_end_in_a_newline(key: Key, sent: str | None) -> None:
    async with talking([OK], key) as (client, server):
        await client.ask(ChainsRequest())
    assert server.received[0].headers.get("x-apikey") == sent


@pytest.mark.parametrize(
    "address", ["", "provider.example", "ftp://provider.example", "http://", "https://me:word@provider.example", "::"]
)
def test_invalid_base_addresses_are_refused(address: str) -> None:
    with pytest.raises(ValueError, match="base address") as caught:
        ProviderClient(address, KEY)
    assert "word@" not in str(caught.value)


@pytest.mark.parametrize("tail", ["", "/", "/v0", "/v0/"])
async def test_base_address_may_end_with_a_slash_or_v0(tail: str) -> None:
    async with Misbehaving([OK]) as server, ProviderClient(f"{server.address}/under{tail}", KEY) as client:
        await client.ask(ChainsRequest())
    assert server.received[0].target == "/under/v0/chains"


def test_loopback_is_reached_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    chains, _ = ask([OK])
    assert chains[0].id == "eth"
