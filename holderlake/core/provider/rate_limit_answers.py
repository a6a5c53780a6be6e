"""Reading of HTTP 429 answers: a rate limit that ends soon, used-up credits, or neither for certain.

The contract has an error code for each case, but other providers and gateways use only text and headers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final, Literal

from holderlake.core.contract.times import as_utc, utc_now
from holderlake.core.http import header_number, retry_after

Limit = Literal["rate_limited", "credits_exhausted", "limit_reached"]
"""Meaning of a refusal. ``limit_reached``: the answer does not say whether rate or credits are the reason."""

_LONGEST_WINDOW: Final = 3600.0
"""Seconds. A limit that resets within this time is a rate limit; monthly credits take longer to renew."""
_READ_CHARACTERS: Final = 4_000
_OLDEST_CLOCK: Final = 1_000_000_000
"""A number in a reset header from this value on is a unix time in seconds, not a wait."""
_PER_TIME: Final = re.compile(
    r"(\b(per|a|each|every)\s+|/\s*)(\d+\s*)?(sec(ond)?s?|min(ute)?s?|hours?|hrs?)\b|(\d|requests?|calls?)\s*/\s*[smh]\b",
    re.I,
)
_CREDITS: Final = re.compile(
    r"credits?\b|\bbilling|payment|balance|allowance|month|\brenew|subscription|\bprepaid|insufficient|\bupgrade", re.I
)
_RATE: Final = re.compile(r"\brate\b|rate.?limit|throttl|slow.?down|too fast|concurren|burst", re.I)
_RESET_HEADER: Final = re.compile(r"(x-)?rate-?limit-(\w+-)*reset(-\w+)*|retry-after-ms", re.I)
_REMAINING_HEADER: Final = re.compile(r"(x-)?rate-?limit-(\w+-)*remaining(-\w+)*", re.I)
_COMBINED: Final = re.compile(r"\b(?:t|reset)\s*=\s*\"?(\d+(?:\.\d+)?)")
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def limit_of(text: str, headers: Mapping[str, str]) -> Limit:
    """Return the error code for an HTTP 429 whose body ``text`` has no error code of the contract.

    It is ``limit_reached`` if the reason may be the rate limit or used-up credits. Names of headers are in lower
    case. The order of the checks matters: "monthly rate limit of credits" is about credits, "quota of requests per
    minute" about the rate.
    """
    words = re.sub(r"[_-]", " ", text[:_READ_CHARACTERS])
    if _PER_TIME.search(words):
        return "rate_limited"
    if _is_zero(headers.get("x-credits-remaining")) or _CREDITS.search(words):
        return "credits_exhausted"
    wait = seconds_until_reset(headers)
    if _RATE.search(words) or (wait is not None and wait <= _LONGEST_WINDOW):
        return "rate_limited"
    used_up = any(_REMAINING_HEADER.fullmatch(name) and _is_zero(value) for name, value in headers.items())
    return "rate_limited" if used_up and wait is None else "limit_reached"


def seconds_until_reset(headers: Mapping[str, str]) -> float | None:
    """Return the longest wait in the headers of a refusal, in seconds; None if no header has a readable wait."""
    return max((seconds for seconds in _waits(headers)), default=None)


def _waits(headers: Mapping[str, str]) -> Iterator[float]:
    wait_seconds = retry_after(headers.get("retry-after"))
    if wait_seconds is not None:
        yield wait_seconds
        return  # the standard header says it best; the others may be about longer windows
    for name, value in headers.items():
        if name == "ratelimit":
            yield from (float(number) for number in _COMBINED.findall(value))
        elif _RESET_HEADER.fullmatch(name):
            seconds = _reset(value)
            if seconds is not None:
                yield seconds * (0.001 if name == "retry-after-ms" else 1.0)


def _reset(text: str) -> float | None:
    """Return the wait in a reset header, in seconds; None if it cannot be read.

    Headers hold seconds, a unix time in seconds or milliseconds, a date, or a text such as ``1m30s``.
    """
    number = header_number(text)
    if number is not None:
        if number >= 1_000 * _OLDEST_CLOCK:
            number /= 1_000
        if number >= _OLDEST_CLOCK:
            number -= utc_now().replace(tzinfo=UTC).timestamp()
        return max(0.0, number)
    parts = _DURATION.findall(text.strip())
    if parts and "".join(map("".join, parts)) == text.strip():
        return sum(float(amount) * _SECONDS[unit] for amount, unit in parts)
    try:
        when = datetime.fromisoformat(text.strip())
    except ValueError:
        return retry_after(text)
    return max(0.0, (as_utc(when) - utc_now()).total_seconds())


def _is_zero(text: str | None) -> bool:
    return text is not None and header_number(text) is not None and float(text) <= 0
