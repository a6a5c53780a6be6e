"""Error answers turned into exceptions, and the meaning of HTTP 429 without a code of the contract."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holderlake.core.contract.errors import ERROR_KINDS
from holderlake.core.provider import errors
from holderlake.core.provider.errors import ProviderError
from holderlake.core.provider.refusals import error_of, limit_of, seconds_until_reset

RATE, CREDITS, UNCLEAR = "rate_limited", "credits_exhausted", "limit_reached"


def test_every_error_code_of_the_contract_has_an_exception() -> None:
    for kind in ERROR_KINDS.values():
        failure = error_of(kind.status, json.dumps({"detail": kind.when, "code": kind.code}).encode(), {})
        assert (failure.code, failure.detail, failure.status) == (kind.code, kind.when, kind.status)
        assert failure.retryable is kind.retryable
        assert failure.retryable is isinstance(failure, errors.TransientError)


@given(
    status=st.integers(300, 599),
    raw=st.binary(max_size=80)
    | st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["detail", "code", "loc"]), inner),
    ).map(lambda body: json.dumps(body).encode()),
    headers=st.dictionaries(st.sampled_from(["retry-after", "location"]), st.text(max_size=12)),
)
@settings(deadline=None)
def test_any_error_answer_becomes_an_exception(status: int, raw: bytes, headers: dict[str, str]) -> None:
    failure = error_of(status, raw, headers)
    assert isinstance(failure, ProviderError)
    assert failure.status == status
    assert str(failure)
    copy = pickle.loads(pickle.dumps(failure))
    assert (str(copy), copy.maybe_charged) == (str(failure), failure.maybe_charged)


def test_retry_after_may_be_a_date() -> None:
    soon = datetime.now(UTC) + timedelta(seconds=1_000)
    failure = error_of(503, b"", {"retry-after": format_datetime(soon, usegmt=True)})
    assert isinstance(failure, errors.Unavailable)
    assert failure.retry_after == pytest.approx(1_000, abs=60)


@pytest.mark.parametrize(
    "said",
    [
        "",
        "soon",
        "***",
        "nan",
        "inf",
        "1e3",
        "1_0",
        "٣",
        "0\x1f",
        "Fri, 99 Nov 2026",
        "Mon, 01 Jan 0001 00:00:00 +1400",
    ],
)
def test_invalid_retry_after_is_ignored(said: str) -> None:
    failure = error_of(503, b"", {"retry-after": said})
    assert isinstance(failure, errors.Unavailable)
    assert failure.retry_after in (None, 0)


def test_deeply_nested_detail_is_shortened() -> None:
    failure = error_of(422, b'{"detail":' + b"[" * 900 + b"]" * 900 + b"}", {})
    assert len(str(failure)) < 1_000


def test_a_403_means_the_plan_only_for_custom_plan_endpoints() -> None:
    assert isinstance(error_of(403, b"", {}, "addresses_metadata"), errors.PlanRequired)
    assert isinstance(error_of(403, b'{"code": "plan_required"}', {}, "map"), errors.PlanRequired)
    assert isinstance(error_of(403, b"", {}, "map"), errors.Forbidden)
    assert isinstance(error_of(403, b'{"code": "invalid_key"}', {}, "addresses_metadata"), errors.InvalidKey)


@pytest.mark.parametrize(
    ("said", "wait"),
    [("-5", 0), ("1e999", None), ("99999999999", 99_999_999_999), ("Fri, 31 Dec 9999 23:59:59 GMT", None)],
)
def test_unusual_retry_after_is_read(said: str, wait: float | None) -> None:
    failure = error_of(503, b"", {"retry-after": said})
    assert isinstance(failure, errors.Unavailable)
    assert wait is None or failure.retry_after == wait


@pytest.mark.parametrize(
    ("text", "headers", "meaning"),
    [
        ('{"detail":"Rate limit exceeded: 10000 per 1 minute"}', {}, RATE),
        ('{"code":"RATE_LIMIT_EXCEEDED"}', {}, RATE),
        ("Quota exceeded for requests/min", {}, RATE),
        ("10 requests/s at most", {}, RATE),
        ("You are being rate limited", {}, RATE),
        ("Slow down!", {}, RATE),
        ("Your monthly credits are used up", {}, CREDITS),
        ("Insufficient balance", {}, CREDITS),
        ("Too Many Requests", {"x-credits-remaining": "0.00"}, CREDITS),
        ("Too Many Requests", {}, UNCLEAR),
        ("quota exceeded", {}, UNCLEAR),
        ("", {"retry-after": "30"}, RATE),
        ("", {"retry-after": "0"}, RATE),
        ("", {"retry-after": "900000"}, UNCLEAR),
        ("", {"retry-after": "soon"}, UNCLEAR),
        ("", {"x-ratelimit-remaining": "0"}, RATE),
        ("", {"x-ratelimit-remaining": "17"}, UNCLEAR),
        ("", {"x-ratelimit-reset": "42"}, RATE),
        ("", {"ratelimit-reset": "42"}, RATE),
        ("", {"ratelimit": '"default";r=0;t=42'}, RATE),
        ("", {"ratelimit": "limit=100, remaining=0, reset=42"}, RATE),
        ("", {"x-ratelimit-reset-requests": "1m12s"}, RATE),
        ("", {"x-ratelimit-reset": "2600000"}, UNCLEAR),
    ],
)
def test_text_and_headers_tell_a_rate_limit_from_used_up_credits(
    text: str, headers: dict[str, str], meaning: str
) -> None:
    assert limit_of(text, headers) == meaning


@pytest.mark.parametrize("unit", [1, 1_000])
def test_a_reset_may_be_a_unix_time(unit: int) -> None:
    soon = (datetime.now(UTC) + timedelta(seconds=1_000)).timestamp()
    assert seconds_until_reset({"x-ratelimit-reset": str(int(soon * unit))}) == pytest.approx(1_000, abs=60)


def test_a_reset_may_be_a_date() -> None:
    soon = datetime.now(UTC) + timedelta(seconds=1_000)
    for text in (soon.isoformat(), format_datetime(soon, usegmt=True)):
        assert seconds_until_reset({"x-ratelimit-reset": text}) == pytest.approx(1_000, abs=60)


@given(
    text=st.text(max_size=50),
    headers=st.dictionaries(
        st.sampled_from(["retry-after", "x-ratelimit-reset", "ratelimit", "x-ratelimit-remaining", "retry-after-ms"]),
        st.text(max_size=20) | st.integers().map(str) | st.floats().map(str),
    ),
)
def test_any_429_is_read(text: str, headers: dict[str, str]) -> None:
    assert limit_of(text, headers) in (RATE, CREDITS, UNCLEAR)
    seconds = seconds_until_reset(headers)
    assert seconds is None or seconds >= 0
