"""The meaning of HTTP 429 without a code of the contract."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holderlake.core.provider.refusals import limit_of, seconds_until_reset

RATE, CREDITS, UNCLEAR = "rate_limited", "credits_exhausted", "limit_reached"


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
