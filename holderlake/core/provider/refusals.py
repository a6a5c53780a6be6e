"""Answers with an error status as exceptions, and the reading of HTTP 429: rate limit, used-up credits, or unclear.

The contract has an error code for each case, but other providers and gateways use only status, text and headers.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

from holderlake.core.contract.errors import ERROR_KINDS, error_code, error_detail
from holderlake.core.contract.requests import AddressesMetadataRequest, AddressMetadataRequest
from holderlake.core.contract.times import as_utc, utc_now
from holderlake.core.http import header_number, retry_after
from holderlake.core.provider import errors
from holderlake.core.provider.errors import ProviderError, TransientError, plain

_CUSTOM_PLAN: Final = frozenset({AddressMetadataRequest.endpoint, AddressesMetadataRequest.endpoint})
"""Endpoints of custom plans. Only for these, HTTP 403 without an error code of the contract means ``plan_required``."""
_LONGEST_DETAIL: Final = 500
_READ_BYTES: Final = 1 << 20
"""Number of bytes of an error answer that are read."""
_LONGEST_PAGE: Final = 20_000
_PAGE: Final = "a web page, "
_KINDS: Final[tuple[type[ProviderError], ...]] = (
    *(errors.NoHolders, errors.UnknownToken, errors.UnsupportedToken, errors.InvalidKey, errors.PlanRequired),
    *(errors.RemovedEndpoint, errors.CreditsExhausted, errors.RateLimited, errors.Forbidden, errors.Redirected),
    errors.Unavailable,
)
_BY_CODE: Final[Mapping[str, type[ProviderError]]] = {
    **{kind.code: kind for kind in _KINDS},
    **dict.fromkeys(("too_slow", "internal_error"), errors.Unavailable),
    "missing_key": errors.InvalidKey,
    "limit_reached": errors.RateLimited,
}
"""Exceptions by error code; ``InvalidRequest`` for any other code."""
_BY_STATUS: Final = {408: "unavailable", 425: "unavailable"} | dict.fromkeys((301, 302, 303, 307, 308), "redirected")
_GATEWAY_GAVE_UP: Final = frozenset({504, 524})
"""Statuses of a gateway that stopped waiting. The provider behind it may have answered and charged the call."""

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
_REFUSED_TEXT: Final = re.compile(r"rate.?limit|throttl|slow.?down|too (many|fast)|max(imum)? (calls|requests)", re.I)
_RESET_HEADER: Final = re.compile(r"(x-)?rate-?limit-(\w+-)*reset(-\w+)*|retry-after-ms", re.I)
_REMAINING_HEADER: Final = re.compile(r"(x-)?rate-?limit-(\w+-)*remaining(-\w+)*", re.I)
_COMBINED: Final = re.compile(r"\b(?:t|reset)\s*=\s*\"?(\d+(?:\.\d+)?)")
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def error_of(status: int, raw: bytes, headers: Mapping[str, str], endpoint: str = "") -> ProviderError:
    """Return the exception for an answer with a status other than 2xx. ``raw`` is its body.

    The names in ``headers`` are in lower case. ``endpoint`` is the request's endpoint, for example ``map``.
    """
    text = raw[:_READ_BYTES].decode("utf-8", "replace")
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = None
    words = _page_words(text) if _is_page(text) else text
    code = _code(status, body, words, headers, endpoint)
    error = _BY_CODE.get(code, errors.InvalidRequest)(_detail(status, body, words, headers, code), code, status)
    if isinstance(error, TransientError):
        limited = status == HTTPStatus.TOO_MANY_REQUESTS
        error.retry_after = seconds_until_reset(headers) if limited else retry_after(headers.get("retry-after"))
        error.maybe_charged = status in _GATEWAY_GAVE_UP
        error.broken = "gateway" if error.maybe_charged else None
    return error


def _code(status: int, body: Any, words: str, headers: Mapping[str, str], endpoint: str) -> str:
    """Return the contract's error code of an answer: the code in its body if the contract has it, else its status's."""
    body_code = error_code(status, body)
    if body_code in ERROR_KINDS and isinstance(body, dict) and body.get("code") == body_code:
        return body_code
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return limit_of(words, headers)
    if status == HTTPStatus.FORBIDDEN and endpoint in _CUSTOM_PLAN:
        return "plan_required"
    is_about_the_token = body.get("detail") != "Not Found" if isinstance(body, dict) else not words.startswith(_PAGE)
    if status in (400, 404) and not is_about_the_token:
        # As "no holders", a wrong base address would look like a world without holders.
        return "not_found" if status == HTTPStatus.NOT_FOUND else "unexpected_status"
    return _BY_STATUS.get(status) or error_code(status, None)


def _detail(status: int, body: Any, words: str, headers: Mapping[str, str], code: str) -> str:
    try:
        detail = error_detail(body, words)
    except RecursionError:
        detail = words
    detail = plain(detail[: 4 * _LONGEST_DETAIL])[:_LONGEST_DETAIL] or _phrase(status)
    if code == "redirected":
        target = plain(headers.get("location", ""))[:_LONGEST_DETAIL] or "no address"
        return f"the provider redirects to {target}; redirects are not followed, so set provider.url to the new address"
    if code == "forbidden":
        return f"the provider refuses access: {detail}; check the API key, and whether a firewall answers in its place"
    return detail


def _is_page(text: str) -> bool:
    return text[:1_000].removeprefix("\ufeff").lstrip().startswith("<")


def _page_words(page: str) -> str:
    """Return the title or the first words of a web page."""
    title = re.search(r"<(title|h1)[^>]*>([^<]*)<", page[:_LONGEST_PAGE], re.IGNORECASE)
    words = title[2] if title and title[2].strip() else re.sub(r"<[^>]*>", " ", page[:_LONGEST_DETAIL])
    return f"{_PAGE}{html.unescape(words).strip()[:200]!r}"


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "an answer without words"


def limit_of(text: str, headers: Mapping[str, str]) -> str:
    """Return the error code for an HTTP 429 whose body ``text`` has no error code of the contract.

    It is ``rate_limited``, ``credits_exhausted``, or ``limit_reached`` if either may be the reason. Names of headers
    are in lower case. The order of the checks matters: "monthly rate limit of credits" is about credits, "quota of
    requests per minute" about the rate.
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


def is_rate_limit(raw: bytes) -> bool:
    """Return whether a short body with a status of success says that the rate limit refused the call."""
    text = raw[: _READ_CHARACTERS + 1].decode("utf-8", "replace")
    return len(text) <= _READ_CHARACTERS and bool(_REFUSED_TEXT.search(re.sub(r"[_-]", " ", text)))


def seconds_until_reset(headers: Mapping[str, str]) -> float | None:
    """Return the longest wait in the headers of a refusal, in seconds; None if no header has a readable wait."""
    return max(_waits(headers), default=None)


def _waits(headers: Mapping[str, str]) -> Iterator[float]:
    wait_seconds = retry_after(headers.get("retry-after"))
    if wait_seconds is not None:
        yield wait_seconds
        return  # the standard header says it best; the others may be about longer windows
    for name, value in headers.items():
        if name == "ratelimit":
            yield from map(float, _COMBINED.findall(value))
        elif _RESET_HEADER.fullmatch(name) and (seconds := _reset(value)) is not None:
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
    number = header_number(text or "")
    return number is not None and number <= 0
