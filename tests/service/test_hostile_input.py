"""Bad input in every place of a request: refused with the contract's errors, free, and never logged."""

from __future__ import annotations

import io
import json
import logging
import re
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from holderlake.core.contract.errors import ERROR_KINDS
from holderlake.service.billing.keys import KeyStore
from holderlake.service.observability.log import ServiceJsonLines
from holderlake.service.run import BackgroundService
from holderlake.service.settings import ServiceSettings
from tests.service.conftest import Caller, Running, World, patient
from tests.service.sockets import Answer, connected

MARK = "xq7zj"
"""Part of the inputs below, to find them in logs."""

WORDS = {
    "nothing": "",
    "a NUL": f"{MARK}%00",
    "a line end": f"%0D%0A{MARK}",
    "invalid UTF-8": f"{MARK}%FF",
    "an overlong slash": f"{MARK}%C0%AF",
    "a lone surrogate": f"{MARK}%ED%A0%80",
    "half an escape": f"{MARK}%4",
    "an invalid escape": f"%zz{MARK}",
    "dots and slashes": f"%2e%2e%2f%2e%2e%2fetc%2fpasswd{MARK}",
    "dots and slashes, encoded twice": f"%252e%252e%252f{MARK}",
    "backslashes": f"..%5c..%5c{MARK}",
    "a right-to-left override": quote(f"{MARK}\u202eabc"),
    "a zero-width space": quote(f"{MARK}\u200b\ufeff"),
    "white space of another kind": quote(f"{MARK}\u0085\u3000"),
    "an emoji": quote(f"{MARK}\U0001f600"),
    "a letter that looks like another": quote(f"{MARK}\u0430"),
    "SQL": quote(f"{MARK}' OR 1=1 --"),
    "more SQL": quote(f"{MARK}'; DROP TABLE transfers; --"),
    "a parameter of the service": f"$files{MARK}",
    "a template": f"{{{{{MARK}}}}}",
    "a format": f"{MARK}%25s%25n",
    "HTML": quote(f"<script>{MARK}</script>"),
    "JSON": quote(f'{{"{MARK}": 1}}'),
}
NUMBERS = {
    "a fraction": "80.0",
    "an exponent": "1e2",
    "NaN": "NaN",
    "infinity": "Infinity",
    "a hexadecimal number": "0x50",
    "a number with an underscore": "8_0",
    "a number after a space": "%2080",
    "a number with a plus": "%2B80",
    "full-width digits": quote("\uff18\uff10"),
    "a raised digit": quote("²"),
    "null": "null",
    "a list": "80,250",
    "another list": "[80]",
    "five thousand digits": "9" * 5_000,
}
SPELLINGS = {name: name for name in ("2", "-1", "truee", "falsch", "null", "nil", "undefined", "tr%75%65e")}


@dataclass(frozen=True)
class Place:
    """A parameter in a target, the expected error codes, and further bad values."""

    target: str
    codes: tuple[str | None, ...]
    also: tuple[dict[str, str], ...] = ()
    beyond: tuple[int, ...] = ()

    def values(self) -> dict[str, str]:
        """Bad values by description."""
        found = WORDS | {str(number): str(number) for number in self.beyond}
        for more in self.also:
            found |= more
        return found


_BAD = ("invalid_request",)
_AFTER_TIME = 253_402_300_800
_T = "eth/{token}"
_SIGNED = "0" * 32
_CHAIN, _TOKEN, _ADDRESS = (*_BAD, "not_found"), (*_BAD, "not_found", "unknown_token"), (*_BAD, "not_found", None)


def _integer(target: str, *beyond: int) -> Place:
    return Place(target, _BAD, (NUMBERS,), beyond)


def _flags(target: str, *names: str) -> dict[str, Place]:
    return {f"{target} {name}": Place(f"{target}?{name}=", _BAD, (NUMBERS, SPELLINGS)) for name in names}


_MAP, _HOLDERS, _PAGES = f"/v0/tokens/map/{_T}", f"/v0/tokens/holders/{_T}", f"/v0/x/tokens/holders/{_T}"
_CLUSTERS = f"/v0/x/tokens/clusters/{_T}"
_EVIDENCE, _PICTURE = f"/v0/x/tokens/evidence/{_T}", f"/v0/x/pictures/{_T}/1"
_OF_TOKEN = (
    *(f"/v0/tokens/{kind}" for kind in ("map", "metrics", "holders", "metadata", "screenshot")),
    *(f"/v0/x/tokens/{kind}" for kind in ("holders", "evidence", "clusters")),
)
PLACES: dict[str, Place] = {
    **{f"{path} chain": Place(f"{path}/|/{{token}}", _CHAIN, (NUMBERS,)) for path in _OF_TOKEN},
    **{f"{path} address": Place(f"{path}/eth/|", _TOKEN, (NUMBERS,)) for path in _OF_TOKEN},
    "address": Place("/v0/addresses/metadata/|", _ADDRESS),
    "labels address": Place("/v0/x/addresses/labels/|", _ADDRESS),
    "search query": Place("/v0/tokens/search?query=", (*_BAD, None), (NUMBERS,)),
    **_flags(
        _MAP,
        *("use_magic_nodes", "use_time_nodes", "return_nodes", "return_relationships", "return_clusters"),
        *("return_decentralization_score", "refresh", "return_raw_amounts"),
    ),
    **_flags(_HOLDERS, "return_metadata", "refresh", "return_raw_amounts"),
    **_flags(f"/v0/tokens/metadata/{_T}", "return_token_stats"),
    **_flags(_PAGES, "return_metadata"),
    **_flags(_EVIDENCE, "use_magic_nodes"),
    "map limit": _integer(f"{_MAP}?limit=", 0, -80, 81, 501, 10**400),
    "map timestamp": _integer(f"{_MAP}?timestamp=", -1, -(10**400)),
    "holders limit": _integer(f"{_HOLDERS}?limit=", 0, -80, 81, 501, 10**400),
    "holders timestamp": _integer(f"{_HOLDERS}?timestamp=", -1, -(10**400)),
    "pages limit": _integer(f"{_PAGES}?limit=", 0, -1, 10_001, 10**400),
    "pages timestamp": _integer(f"{_PAGES}?timestamp=", -1, _AFTER_TIME, 10**400),
    "pages cursor": Place(f"{_PAGES}?cursor=", (*_BAD, "unknown_cursor"), (NUMBERS,)),
    "evidence limit": _integer(f"{_EVIDENCE}?limit=", 0, 81),
    "evidence cluster": _integer(f"{_EVIDENCE}?cluster=", 0, -1, 501, 10**400),
    "evidence transfers": _integer(f"{_EVIDENCE}?transfers=", -1, 101, 10**400),
    "evidence timestamp": _integer(f"{_EVIDENCE}?timestamp=", -1, _AFTER_TIME, 10**400),
    "clusters limit": _integer(f"{_CLUSTERS}?limit=", 0, 81),
    "clusters links": _integer(f"{_CLUSTERS}?links=", -1, 101, 10**400),
    "picture chain": Place(f"/v0/x/pictures/|/{{token}}/1/{_SIGNED}.png", _CHAIN),
    "picture address": Place(f"/v0/x/pictures/eth/|/1/{_SIGNED}.png", _CHAIN),
    "picture instant": Place(f"/v0/x/pictures/{_T}/|/{_SIGNED}.png", _CHAIN, (NUMBERS,), (-1, _AFTER_TIME)),
    "picture signature": Place(f"{_PICTURE}/|.png", _CHAIN, (NUMBERS,)),
    "picture form": Place(f"{_PICTURE}/{_SIGNED}.|", _CHAIN, (NUMBERS,)),
    "picture width": _integer(f"{_PICTURE}/{_SIGNED}.png?width=", 0, 601, -600, 10**400),
    "picture theme": Place(f"{_PICTURE}/{_SIGNED}.png?theme=", _BAD, (NUMBERS,)),
}


# ------------------------------------------------------------------------ client


@pytest.fixture(scope="module")
def service(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service without a rate limit."""
    with ExitStack() as stack:
        keys = stack.enter_context(KeyStore(tmp_path_factory.mktemp("keys") / "keys.sqlite"))
        settings = patient(ServiceSettings(calls_per_minute=10**9))
        running = stack.enter_context(BackgroundService(world.store, keys, settings))
        yield Running(running.base_url, keys, stack)


class Logged(io.StringIO):
    """The output of all loggers."""

    def holds(self, *texts: str) -> list[str]:
        """Return the texts that are in the output."""
        output = self.getvalue()
        return [text for text in texts if text in output]


@pytest.fixture
def logged() -> Iterator[Logged]:
    """The output of all loggers during a test, at level DEBUG."""
    stream = Logged()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(ServiceJsonLines())
    root, requests = logging.getLogger(), logging.getLogger("holderlake.service.requests")
    levels = root.level, requests.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    requests.setLevel(logging.INFO)
    yield stream
    root.setLevel(levels[0])
    requests.setLevel(levels[1])
    root.removeHandler(handler)


@dataclass
class Hostile:
    """Sends raw requests, and checks that none does harm."""

    caller: Caller
    world: World
    logged: Logged
    paid: int = 0

    def ask(
        self,
        target: str,
        method: str = "GET",
        headers: Sequence[tuple[str, str | bytes]] = (),
        body: bytes | None = None,
    ) -> Answer:
        """Return the answer to a request with an unquoted target, by default with the caller's key."""
        lines = [f"{method} {target.replace('{token}', self.world.token)} HTTP/1.1".encode("latin-1")]
        given: list[tuple[str, str | bytes]] = [("Connection", "close"), *headers]
        names = {name.lower() for name, _ in given}
        given += [("Host", "localhost")] if "host" not in names else []
        given += [("X-ApiKey", self.caller.secret)] if "x-apikey" not in names else []
        given += [("Content-Length", str(len(body)))] if body is not None else []
        lines += [name.encode() + b": " + (text if isinstance(text, bytes) else text.encode()) for name, text in given]
        with connected(urlsplit(str(self.caller.http.base_url)).port) as peer:
            answer = peer.ask(b"\r\n".join(lines) + b"\r\n\r\n" + (body or b""))
        if answer.status == 200:
            whole, _, cents = answer.headers.get("x-credits-cost", "0.00").partition(".")
            self.paid += 100 * int(whole) + int(cents)
        return answer

    def is_refused(self, answer: Answer, *codes: str) -> bool:
        """Return whether an answer is the contract's error with one of the codes."""
        assert answer.code in codes, (answer.status, answer.body[:300])
        detail = json.loads(answer.body)["detail"]
        if answer.status == 422:
            assert detail and all(set(item) == {"loc", "msg", "type"} for item in detail)
            assert MARK not in str([item["msg"] for item in detail])
        else:
            assert isinstance(detail, str) and detail
        return answer.status == ERROR_KINDS[answer.code].status

    def did_no_harm(self) -> bool:
        """Return whether the service still answers, charged only answers, and logged none of the input."""
        name = uuid.uuid4().hex
        assert self.ask("/v0/chains", headers=[("X-Request-Id", name)]).status == 200
        for _ in range(30_000):  # a request's line comes just after its answer
            if self.logged.holds(name):
                break
            time.sleep(0.01)
        assert self.logged.holds(name) == [name]
        assert self.logged.holds(MARK, self.caller.secret, self.caller.secret.split("_")[2]) == []
        assert '"level": "error"' not in self.logged.getvalue()
        return self.caller.spent == self.paid


@pytest.fixture
def hostile(service: Running, world: World, logged: Logged) -> Hostile:
    return Hostile(service.caller(10**12, custom_plan=True), world, logged)


# ------------------------------------------------------------------------ paths and queries


@pytest.mark.later(integration=2, long=5)
@pytest.mark.parametrize("place", PLACES)
def test_bad_parameter_values_do_no_harm(hostile, place):
    where = PLACES[place]
    for value in where.values().values():
        answer = hostile.ask(_put(where.target, value))
        if answer.status == 200:
            assert None in where.codes, (value[:100], answer.body[:300])
        else:
            assert hostile.is_refused(answer, *(code for code in where.codes if code)), value[:100]
    assert hostile.ask(_put(where.target, f"{MARK}\xff")).status == 400
    assert hostile.did_no_harm()


def _put(target: str, value: str) -> str:
    return target.replace("|", value) if "|" in target else target + value


QUERIES = {
    _MAP: {"limit": "80", "refresh": "false", "timestamp": "1800000000", "return_nodes": "true"},
    _HOLDERS: {"limit": "80", "return_metadata": "true", "timestamp": "1800000000"},
    f"/v0/tokens/metadata/{_T}": {"return_token_stats": "true"},
    "/v0/tokens/search": {"query": "alpha"},
    _PAGES: {"limit": "1", "cursor": "AAAA"},
    _EVIDENCE: {"cluster": "1", "transfers": "5"},
    f"{_PICTURE}/{_SIGNED}.png": {"width": "600", "theme": "dark"},
}


@pytest.mark.parametrize("path", QUERIES)
def test_repeated_parameter_is_invalid(hostile, path):
    query = "&".join(f"{name}={value}" for name, value in QUERIES[path].items())
    for name, value in QUERIES[path].items():
        for second in (value, MARK, ""):
            for again in (f"{name}={second}", f"%{ord(name[0]):x}{name[1:]}={second}"):
                answer = hostile.ask(f"{path}?{query}&{again}")
                assert hostile.is_refused(answer, "invalid_request")
                assert json.loads(answer.body)["detail"][0]["loc"] == ["query", name]
    assert hostile.did_no_harm()


def test_unknown_parameter_is_ignored(hostile):
    for query in (MARK, f"{MARK}={MARK}", f"Limit=7&{MARK}[]=1", "&&&", "=", f"{MARK}%00=%00"):
        assert hostile.ask(f"/v0/chains?{query}").status == 200
    assert hostile.did_no_harm()


NOT_FOUND = (
    "/v0/../v0/chains",
    "//v0/chains",
    "/v0/chains/",
    "/v0/chains%00",
    "/v0/chains%0a",
    "/V0/CHAINS",
    "/v0/chains;a=1",
    "/v0/tokens/map/eth",
    "/v0/tokens/map/eth/{token}/",
    "/v0/tokens/map/eth/../eth/{token}",
    "/v0/tokens/map/eth%2f{token}%2f..",
    "/static-offline-docs/../../../etc/passwd",
    "/static-offline-docs/..%2f..%2f..%2fetc%2fpasswd",
    "/static-offline-docs/%00",
    "/metrics/../v0/chains",
    f"/{MARK}",
)


@pytest.mark.parametrize("target", [*NOT_FOUND, "/maps/../../etc/passwd"])
def test_manipulated_paths_are_not_found(hostile, target):
    assert hostile.is_refused(hostile.ask(target), "not_found" if target in NOT_FOUND else "removed")
    assert hostile.did_no_harm()


# ------------------------------------------------------------------------ headers

HEADERS: dict[str, str | bytes] = {
    **{name: value for name, value in WORDS.items() if value},
    "bytes above 127": f"{MARK}\xff".encode("latin-1"),
    "UTF-8": f"{MARK} \U0001f600".encode(),
    "commas": "," * 10_000,
    "a valid key with a suffix": f"hl_00000000_{'0' * 48}{MARK}",
    "a long text": MARK * 4_000,
}


def test_bad_keys_are_refused_and_not_logged(hostile):
    secret = hostile.caller.secret
    nearly = [secret.upper(), f"{secret},", f"Bearer {secret}", f'"{secret}"', f"{secret}\t{secret}", secret[:-1]]
    for value in (*HEADERS.values(), *nearly):
        answer = hostile.ask("/v0/chains", headers=[("X-ApiKey", value)])
        assert hostile.is_refused(answer, "invalid_key"), value
    assert hostile.is_refused(hostile.ask("/v0/chains", headers=[("X-ApiKey", "")]), "missing_key")
    assert hostile.is_refused(hostile.ask("/v0/chains", headers=[("X-ApiKey", secret)] * 2), "invalid_key")
    assert hostile.did_no_harm()


@pytest.mark.later(integration=3)
@pytest.mark.parametrize(
    "name", ["Accept", "If-None-Match", "X-Request-Id", "User-Agent", "Cookie", "Forwarded", "Range"]
)
def test_meaningless_headers_change_nothing(hostile, name):
    usual = json.loads(hostile.ask(_HOLDERS).body)
    for value in HEADERS.values():
        answer = hostile.ask(_HOLDERS, headers=[(name, value)])
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json"), value
        assert json.loads(answer.body) == usual
        assert MARK not in answer.headers["x-request-id"]
    assert hostile.did_no_harm()


@pytest.mark.later(integration=5)
@pytest.mark.parametrize("host", ["", "[", "[::1", "]", "a b", "a/b", "a@b", "a?b#c", "a:99999", "a:b", "é", "."])
def test_invalid_host_causes_no_failure(hostile, host):
    for path in ("/v0/tokens/screenshot/eth/{token}", "/v0/chains", "/openapi.json", "/docs"):
        assert hostile.ask(path, headers=[("Host", host.encode("latin-1"))]).status == 200
    assert hostile.did_no_harm()


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"])
def test_wrong_method_gets_the_allowed_methods(hostile, method):
    for path, allowed in (("/v0/chains", "GET"), ("/v0/relationships/subgraph", "POST"), (_MAP, "GET")):
        answer = hostile.ask(path, method)
        assert (answer.status, answer.headers["allow"]) == (405, allowed)
    assert hostile.did_no_harm()


# ------------------------------------------------------------------------ bodies

POSTS = {
    "/v0/tokens/metadata": '[{"chain": "eth", "address": "0x1"}]',
    "/v0/relationships/subgraph": '{"addresses": ["0x1", "0x2"]}',
    "/v0/addresses/metadata": '{"addresses": ["0x1"]}',
}
_JSON = ("Content-Type", "application/json")


def _not_json(good: str) -> dict[str, bytes]:
    return {
        "an empty body": b"",
        "white space": b" \n\t",
        "the first half": good[: len(good) // 2].encode(),
        "two values": f"{good} {good}".encode(),
        "a comma after the end": f"{good},".encode(),
        "a NUL after the end": f"{good}\x00".encode(),
        "a comment": f"{good} // {MARK}".encode(),
        "single quotes": good.replace('"', "'").encode(),
        "a trailing comma": good.replace("]", ",]").encode(),
        "a byte order mark": good.encode("utf-8-sig"),
        "UTF-16": good.encode("utf-16"),
        "UTF-32": good.encode("utf-32"),
        "invalid UTF-8": good.encode().replace(b"0x1", b"\xff\xfe"),
        "an overlong slash": good.encode().replace(b"0x1", b"\xc0\xaf"),
        "a lone surrogate": good.replace("0x1", "\\ud800").encode(),
        "surrogates in the wrong order": good.replace("0x1", "\\udc00\\ud800").encode(),
        "an invalid escape": good.replace("0x1", "\\x41").encode(),
        "a line feed in a string": good.replace("0x1", "0x\n1").encode(),
        "NaN": good.replace('"0x1"', "NaN").encode(),
        "infinity": good.replace('"0x1"', "-Infinity").encode(),
        "an overflowing number": good.replace('"0x1"', "1e999").encode(),
        "five thousand digits": good.replace('"0x1"', "9" * 5_000).encode(),
        "deep lists": b"[" * 100_000,
        "deep lists that end": b"[" * 50_000 + b"]" * 50_000,
        "deep objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
        "HTML": f"<html>{MARK}</html>".encode(),
        "a form": f"addresses={MARK}".encode(),
        "a name twice": re.sub('("addresse?s?"):', "\\1: 1, \\1:", good, count=1).encode(),
        "a name twice, once escaped": (
            good.replace('"addresses"', '"\\u0061ddresses": ["0x3"], "addresses"')
            .replace('"address"', '"\\u0061ddress": "0x3", "address"')
            .encode()
        ),
        "a name twice in an ignored value": good.replace('"0x1"', '"0x1", {"a": 1, "a": 1}').encode(),
    }


@pytest.mark.later(integration=18, long=28)
@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize("kind", _not_json(""))
def test_ambiguous_or_invalid_json_is_invalid(hostile, path, kind):
    answer = hostile.ask(path, "POST", [_JSON], _not_json(POSTS[path])[kind])
    assert hostile.is_refused(answer, "invalid_request")
    assert json.loads(answer.body)["detail"][0]["loc"][0] == "body"
    assert hostile.did_no_harm()


NOT_TEXTS: dict[str, Any] = {
    "null": None,
    "true": True,
    "an integer": 1,
    "a number": 1.5,
    "a list": [MARK],
    "an object": {MARK: 1},
}
NOT_NAMES: dict[str, Any] = NOT_TEXTS | {
    "nothing": "",
    "a space": f"{MARK} ",
    "a slash": f"../{MARK}",
    "a percent sign": f"%2e{MARK}",
    "a NUL": f"{MARK}\x00",
    "a line end": f"{MARK}\n",
    "a right-to-left override": f"{MARK}\u202e",
    "a zero-width space": f"{MARK}\u200b",
    "an emoji": f"{MARK}\U0001f600",
    "SQL": f"{MARK}' OR 1=1 --",
    "too many letters": "a" * 129,
    "far too many": MARK * 20_000,
}
_GOOD, _KEY = "0x1", {"chain": "eth", "address": "0x1"}
FIELDS: dict[str, tuple[str, Any]] = {
    "token chain": ("/v0/tokens/metadata", lambda bad: [_KEY, {"chain": bad, "address": "0x1"}]),
    "token address": ("/v0/tokens/metadata", lambda bad: [_KEY, {"chain": "eth", "address": bad}]),
    "subgraph address": ("/v0/relationships/subgraph", lambda bad: {"addresses": [_GOOD, bad]}),
    "context chain": (
        "/v0/relationships/subgraph",
        lambda bad: {"addresses": [_GOOD, "0x2"], "context_token_key": {"chain": bad, "address": "0x1"}},
    ),
    "context address": (
        "/v0/relationships/subgraph",
        lambda bad: {"addresses": [_GOOD, "0x2"], "context_token_key": {"chain": "eth", "address": bad}},
    ),
    "address": ("/v0/addresses/metadata", lambda bad: {"addresses": [_GOOD, bad]}),
}


@pytest.mark.parametrize("field", FIELDS)
def test_bad_values_in_a_body_do_no_harm(hostile, field):
    path, body = FIELDS[field]
    for kind, bad in NOT_NAMES.items():
        answer = hostile.ask(path, "POST", [_JSON], json.dumps(body(bad)).encode())
        assert hostile.is_refused(answer, "invalid_request"), kind
    assert hostile.did_no_harm()


SHAPES: dict[str, tuple[str, Any]] = {
    "an object of tokens": ("/v0/tokens/metadata", {"tokens": [_KEY]}),
    "a token without a list": ("/v0/tokens/metadata", _KEY),
    "tokens as texts": ("/v0/tokens/metadata", ["eth/0x1"]),
    "tokens as lists": ("/v0/tokens/metadata", [["eth", "0x1"]]),
    "a token without a chain": ("/v0/tokens/metadata", [{"address": "0x1"}]),
    "a token without an address": ("/v0/tokens/metadata", [{"chain": "eth"}]),
    "too many tokens": ("/v0/tokens/metadata", [_KEY] * 1_001),
    "a list of addresses": ("/v0/addresses/metadata", ["0x1"]),
    "no addresses": ("/v0/addresses/metadata", {"addresses": []}),
    "an address without a list": ("/v0/addresses/metadata", {"addresses": "0x1"}),
    "addresses as an object": ("/v0/addresses/metadata", {"addresses": {"0x1": True}}),
    "addresses as null": ("/v0/addresses/metadata", {"addresses": None}),
    "another name": ("/v0/addresses/metadata", {"address": ["0x1"]}),
    "too many addresses": ("/v0/addresses/metadata", {"addresses": ["0x1"] * 2_501}),
    "one address to link": ("/v0/relationships/subgraph", {"addresses": ["0x1"]}),
    "too many to link": ("/v0/relationships/subgraph", {"addresses": ["0x1"] * 1_001}),
    "a context as text": ("/v0/relationships/subgraph", {"addresses": ["0x1", "0x2"], "context_token_key": "eth"}),
    "an empty context": ("/v0/relationships/subgraph", {"addresses": ["0x1", "0x2"], "context_token_key": {}}),
    "no context, as false": ("/v0/relationships/subgraph", {"addresses": ["0x1", "0x2"], "context_token_key": False}),
    **{f"{kind} for tokens": ("/v0/tokens/metadata", bad) for kind, bad in NOT_TEXTS.items()},
    **{f"{kind} for addresses": ("/v0/addresses/metadata", bad) for kind, bad in NOT_TEXTS.items()},
    **{f"{kind} for a subgraph": ("/v0/relationships/subgraph", bad) for kind, bad in NOT_TEXTS.items()},
}


@pytest.mark.later(integration=11, long=23)
@pytest.mark.parametrize("kind", SHAPES)
def test_body_of_another_shape_is_invalid(hostile, kind):
    path, body = SHAPES[kind]
    answer = hostile.ask(path, "POST", [_JSON], json.dumps(body).encode())
    assert hostile.is_refused(answer, "invalid_request")
    assert json.loads(answer.body)["detail"][0]["loc"][0] == "body"
    assert hostile.did_no_harm()


@pytest.mark.parametrize("path", POSTS)
def test_unknown_fields_of_a_body_are_refused(hostile, path):
    good = json.loads(POSTS[path])
    more = {MARK: MARK, "__proto__": {"a": 1}, "": None, "$where": [MARK]}
    odd = [one | more for one in good] if isinstance(good, list) else good | more
    answers = [hostile.ask(path, "POST", [_JSON], json.dumps(body).encode()) for body in (good, odd)]
    assert answers[0].status == 200
    assert hostile.is_refused(answers[1], "invalid_request")
    assert hostile.did_no_harm()


@pytest.mark.parametrize("path", POSTS)
def test_body_over_the_limit_is_too_large(hostile, path):
    body = POSTS[path].replace("0x1", MARK * 300_000).encode()
    assert hostile.is_refused(hostile.ask(path, "POST", [_JSON], body), "body_too_large")
    assert hostile.did_no_harm()


def test_body_of_a_get_is_ignored(hostile):
    for path in ("/v0/chains", _MAP, "/v0/tokens/search?query=alpha"):
        assert hostile.ask(path, "GET", [_JSON], f'{{"{MARK}": '.encode()).status == 200
    assert hostile.did_no_harm()
