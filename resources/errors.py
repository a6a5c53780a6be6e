"""What can go wrong between us and a provider, and the one place where an error answer becomes an exception.

Who retries stands in ``client``, who gives up in ``provider``, what a run makes of it in ``assets``. The tree::

    ProviderError
    ├── NoAnswer              a fact about the token, which never fails a run
    │   ├── UnsupportedToken
    │   ├── NoHolders
    │   └── UnknownToken
    ├── PermanentError        asking again can't help until somebody changes something
    │   ├── InvalidKey        ┐
    │   ├── CreditsExhausted  │ stop everything that asks the provider
    │   ├── BudgetExceeded    │ (one of our own ceilings)
    │   ├── AnswerNotKept     ┘ (the archive can't be written)
    │   ├── PlanRequired      ┐ stop what asks that endpoint
    │   ├── RemovedEndpoint   ┘
    │   └── InvalidRequest    this request alone, and statuses that the contract doesn't know
    ├── TransientError        worth a retry
    │   ├── RateLimited
    │   ├── Unavailable
    │   └── Unreachable       no connection, no answer in time, or half an answer
    └── MalformedAnswer       the answer came, was paid and kept, and can't be read
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from math import isfinite, nan
from typing import Any, ClassVar, Final, Literal

from contract.errors import ERROR_KINDS, error_code, error_detail
from contract.prices import credits_text
from contract.times import utc_now

_LONGEST_DETAIL: Final = 500


class ProviderError(Exception):
    """Base of all: the contract's ``code``, a ``detail`` in words, and the HTTP ``status`` where one came."""

    code: str = "unexpected_status"
    retryable: ClassVar[bool] = False
    stops: ClassVar[Literal["provider", "endpoint"] | None] = None
    """What there is no point in asking any further after this error."""
    maybe_charged: bool = False
    """The provider may have charged the call although no answer came."""

    def __init__(self, detail: str, code: str | None = None, status: int | None = None) -> None:
        super().__init__(detail, code, status)
        self.detail = detail
        self.code = code or type(self).code
        self.status = status

    def __str__(self) -> str:
        return f"{self.detail} ({self.code}{f', HTTP {self.status}' if self.status else ''})"


class NoAnswer(ProviderError):
    """The provider has nothing on the token."""

    code = "no_answer"


class UnsupportedToken(NoAnswer):
    """No map can be made for the token."""

    code = "unsupported_token"


class NoHolders(NoAnswer):
    """Nobody holds the token at that time."""

    code = "no_holders"


class UnknownToken(NoAnswer):
    """The token is not known."""

    code = "unknown_token"


class PermanentError(ProviderError):
    """Asking again can't help until somebody changes something."""


class InvalidKey(PermanentError):
    """The API key is missing, unknown or revoked."""

    code = "invalid_key"
    stops = "provider"


class CreditsExhausted(PermanentError):
    """The month's credits are used up."""

    code = "credits_exhausted"
    stops = "provider"


class BudgetExceeded(PermanentError):
    """The call would pass one of our own ceilings; it was not made. Amounts in hundredths of a credit."""

    code = "budget_exceeded"
    stops = "provider"

    def __init__(self, ceiling: str, limit: int, spent: int, asked: int, way_out: str) -> None:
        super().__init__(
            f"{credits_text(asked)} credits would pass the ceiling {ceiling} of {credits_text(limit)}: "
            f"{credits_text(spent)} are spent or reserved; {way_out}"
        )
        self.args = (ceiling, limit, spent, asked, way_out)
        self.ceiling = ceiling
        self.limit = limit
        self.spent = spent
        self.asked = asked
        self.way_out = way_out


class AnswerNotKept(PermanentError):
    """A paid answer could not be written to the archive, and neither would the next be."""

    code = "answer_not_kept"
    stops = "provider"


class PlanRequired(PermanentError):
    """The endpoint is part of custom plans only."""

    code = "plan_required"
    stops = "endpoint"


class RemovedEndpoint(PermanentError):
    """The endpoint was removed; the detail names its replacement."""

    code = "removed"
    stops = "endpoint"


class InvalidRequest(PermanentError):
    """The provider does not take this request."""

    code = "invalid_request"


class TransientError(ProviderError):
    """The same request may be answered later. ``retry_after``: the seconds that the provider asks to wait."""

    retryable = True
    retry_after: float | None = None


class RateLimited(TransientError):
    """Too many calls a minute."""

    code = "rate_limited"


class Unavailable(TransientError):
    """The provider can't answer now."""

    code = "unavailable"


class Unreachable(TransientError):
    """No whole answer came: ``maybe_charged`` tells whether the request may have reached the provider."""

    code = "unreachable"


class MalformedAnswer(ProviderError):
    """An answer that can't be read. ``answer_hash``: its SHA-256; ``digest``: its name in the archive, if kept."""

    code = "malformed_answer"

    def __init__(self, reason: str, answer_hash: str, digest: str | None = None) -> None:
        told = f"the answer with SHA-256 {answer_hash} can't be read: {reason}"
        kept = f"the archived answer {digest} can't be read: {reason}; only a refresh pays for a new one"
        super().__init__(kept if digest else told)
        self.args = (reason, answer_hash, digest)
        self.answer_hash = answer_hash
        self.digest = digest


_BY_CODE: Final[Mapping[str, type[ProviderError]]] = {
    "unsupported_token": UnsupportedToken,
    "missing_key": InvalidKey,
    "invalid_key": InvalidKey,
    "plan_required": PlanRequired,
    "no_holders": NoHolders,
    "unknown_token": UnknownToken,
    "not_found": InvalidRequest,
    "method_not_allowed": InvalidRequest,
    "too_slow": Unavailable,
    "removed": RemovedEndpoint,
    "body_too_large": InvalidRequest,
    "invalid_request": InvalidRequest,
    "credits_exhausted": CreditsExhausted,
    "rate_limited": RateLimited,
    "internal_error": Unavailable,
    "unavailable": Unavailable,
}
_COME_BACK_LATER: Final = frozenset({408, 425})
_GATEWAY_GAVE_UP: Final = frozenset({504, 524})
"""A gateway stopped waiting; the provider behind it may have gone on, answered and charged."""


def error_of(status: int, raw: bytes, headers: Mapping[str, str]) -> ProviderError:
    """The exception for an answer that is not a 2xx. ``headers`` are looked up in lower case."""
    text = raw.decode("utf-8", "replace")
    body = _json(text)
    retry_after = _retry_after(headers.get("retry-after"))
    code = _code(status, body, text, retry_after)
    error = _BY_CODE.get(code, InvalidRequest)(_detail(status, body, text, headers), code, status)
    if isinstance(error, TransientError):
        error.retry_after = retry_after
        error.maybe_charged = status in _GATEWAY_GAVE_UP
    return error


def _code(status: int, body: Any, text: str, retry_after: float | None) -> str:
    """The contract's code: the body's own where the contract knows it, else what the bare status means."""
    own = error_code(status, body)
    if own in ERROR_KINDS and isinstance(body, dict) and body.get("code") == own:
        return own
    if status in _COME_BACK_LATER:
        return "unavailable"
    if status == HTTPStatus.TOO_MANY_REQUESTS and retry_after is not None:
        return "rate_limited"  # whoever says when to come back does not mean used-up credits
    if status in (400, 404) and not _is_about_the_token(body, text):
        # Taken for "no holders", a wrong base address would look like a world without holders.
        return "not_found" if status == HTTPStatus.NOT_FOUND else "unexpected_status"
    return error_code(status, None)


def _is_about_the_token(body: Any, text: str) -> bool:
    """False for web pages, and for the words with which frameworks answer paths that they do not have."""
    if isinstance(body, dict):
        return body.get("detail") != "Not Found"
    return not text.lstrip().startswith("<")


def _detail(status: int, body: Any, text: str, headers: Mapping[str, str]) -> str:
    try:
        said = error_detail(body, text)
    except TypeError:  # a validation list of another shape
        said = text
    words = " ".join(said.split())[:_LONGEST_DETAIL] or _phrase(status)
    target = headers.get("location")
    return f"{words}; the provider points to {target}" if target and 300 <= status < 400 else words


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "an answer without words"


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _retry_after(text: str | None) -> float | None:
    """Seconds from a ``Retry-After`` of either form, seconds or a date; None where it is neither."""
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = _seconds_until(text)
    return max(0.0, seconds) if isfinite(seconds) else None


def _seconds_until(text: str) -> float:
    """From now until an HTTP date; not a number where the text is none."""
    try:
        when = parsedate_to_datetime(text)
        naive = when.astimezone(UTC).replace(tzinfo=None) if when.tzinfo else when
    except (ValueError, TypeError, IndexError, OverflowError):
        return nan
    return (naive - utc_now()).total_seconds()
