"""Errors between us and a provider, and the one function that turns an error answer into an exception.

``client`` retries, ``provider`` decides when a run stops, ``assets`` turns errors into rows of ``failures``. The tree::

    ProviderError
    ├── NoAnswer              a fact about the token, which never fails a run
    │   ├── UnsupportedToken
    │   ├── NoHolders
    │   └── UnknownToken
    ├── PermanentError        repeating the request cannot help until someone changes something
    │   ├── InvalidKey        ┐
    │   ├── Forbidden         │
    │   ├── Redirected        │ stop every request to the provider
    │   ├── CreditsExhausted  │
    │   ├── RateLimitPersists │ (refused for two rate windows)
    │   ├── AnswersBreak      │ (several answers in a row broke the same way)
    │   ├── BudgetExceeded    │ (one of our own ceilings)
    │   ├── Cancelled         │ (the run was cancelled)
    │   ├── AnswerNotKept     ┘ (the archive cannot be written)
    │   ├── PlanRequired      ┐ stop requests to that endpoint
    │   ├── RemovedEndpoint   ┘
    │   └── InvalidRequest    this request only, and statuses that the contract does not know
    ├── TransientError        worth a retry
    │   ├── RateLimited       (or possibly used-up credits: ``code`` is ``limit_reached``)
    │   ├── Unavailable
    │   └── Unreachable       never sent, or sent and no answer came
    │       └── BrokenAnswer  the answer began and did not arrive in full
    └── MalformedAnswer       the answer came, was paid and kept, and cannot be decoded
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, ClassVar, Final, Literal

from holderlake.contract.errors import ERROR_KINDS, error_code, error_detail
from holderlake.contract.prices import credits_text
from holderlake.contract.requests import AddressesMetadataRequest, AddressMetadataRequest
from holderlake.provider.rate_limit_answers import limit_of, retry_after, seconds_until_reset

CUSTOM_PLAN_ENDPOINTS: Final = frozenset({AddressMetadataRequest.endpoint, AddressesMetadataRequest.endpoint})
"""Only here a 403 without a code of the contract means that the key's plan lacks the endpoint."""
_LONGEST_DETAIL: Final = 500
_READ_BYTES: Final = 1 << 20
"""Of an error answer."""
_LONGEST_PAGE: Final = 20_000

Broken = Literal["timeout", "closed", "too_large", "encoding", "corrupt", "gateway", "page", "empty", "error"]
"""Ways in which an answer that may have been charged is of no use."""


class ProviderError(Exception):
    """Base of all: the contract's ``code``, a ``detail`` in words, and the HTTP ``status`` where one came."""

    code: str = "unexpected_status"
    retryable: ClassVar[bool] = False
    stops: ClassVar[Literal["provider", "endpoint"] | None] = None
    """Later requests that fail too after this error."""
    maybe_charged: bool = False
    """The provider may have charged the call although no answer came."""
    broken: Broken | None = None
    """The way in which an answer broke that may have been charged."""
    request: Any = None
    """The request that was refused."""

    def __init__(self, detail: str, code: str | None = None, status: int | None = None) -> None:
        super().__init__(detail, code, status)
        self.detail = detail
        self.code = code or type(self).code
        self.status = status

    def __str__(self) -> str:
        return f"{self.detail} ({self.code}{f', HTTP {self.status}' if self.status else ''})"


class NoAnswer(ProviderError):
    """The provider has no data about the token."""

    code = "no_answer"


class UnsupportedToken(NoAnswer):
    """No map can be made for the token."""

    code = "unsupported_token"


class NoHolders(NoAnswer):
    """The token has no holders at that time."""

    code = "no_holders"


class UnknownToken(NoAnswer):
    """The token is not known."""

    code = "unknown_token"


class PermanentError(ProviderError):
    """A retry cannot help until someone changes something."""


class InvalidKey(PermanentError):
    """The API key is missing, unknown or revoked."""

    code = "invalid_key"
    stops = "provider"


class CreditsExhausted(PermanentError):
    """The month's credits are used up."""

    code = "credits_exhausted"
    stops = "provider"


class Forbidden(PermanentError):
    """The provider, or a firewall in front of it, refuses access."""

    code = "forbidden"
    stops = "provider"


class Redirected(PermanentError):
    """The provider answers with a redirect. It is not followed, because the key would go along."""

    code = "redirected"
    stops = "provider"


class RateLimitPersists(PermanentError):
    """Every call was refused for two rate windows because of a rate limit."""

    code = "rate_limited"
    stops = "provider"


class AnswersBreak(PermanentError):
    """Several answers in a row broke in the same way, and each may have been charged."""

    code = "answers_break"
    stops = "provider"


class BudgetExceeded(PermanentError):
    """The call would exceed one of our own ceilings; it was not made. Amounts in hundredths of a credit."""

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


class Cancelled(PermanentError):
    """The run was cancelled; the call was not made."""

    code = "cancelled"
    stops = "provider"


class AnswerNotKept(PermanentError):
    """A paid answer could not be written to the archive, and neither would the next be."""

    code = "answer_not_kept"
    stops = "provider"


class PlanRequired(PermanentError):
    """The key's plan does not include the endpoint."""

    code = "plan_required"
    stops = "endpoint"


class RemovedEndpoint(PermanentError):
    """The endpoint was removed; the detail names its replacement."""

    code = "removed"
    stops = "endpoint"


class InvalidRequest(PermanentError):
    """The provider does not accept this request."""

    code = "invalid_request"


class TransientError(ProviderError):
    """The same request may be answered later. ``retry_after``: the seconds that the provider asks to wait."""

    retryable = True
    retry_after: float | None = None
    is_final: bool = False
    """Another try would risk paying once more."""


class RateLimited(TransientError):
    """Too many calls a minute; with the code ``limit_reached`` possibly used-up credits instead."""

    code = "rate_limited"


class Unavailable(TransientError):
    """The provider cannot answer now."""

    code = "unavailable"


class Unreachable(TransientError):
    """No answer came; ``maybe_charged`` is False where the request was never sent."""

    code = "unreachable"


class BrokenAnswer(Unreachable):
    """An answer began and did not arrive in full. Status and credits are those of its headers, where they came."""

    code = "broken_answer"
    maybe_charged = True
    cost_billed: int | None = None
    credits_remaining: int | None = None


class MalformedAnswer(ProviderError):
    """An answer that cannot be decoded. ``answer_hash``: its SHA-256; ``digest``: its name in the archive, if kept."""

    code = "malformed_answer"

    def __init__(self, reason: str, answer_hash: str, digest: str | None = None) -> None:
        kept = "; the archive keeps it, and only --refresh pays for a new one" if digest else ""
        super().__init__(f"the answer with SHA-256 {answer_hash} cannot be read: {reason}{kept}")
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
    "limit_reached": RateLimited,
    "forbidden": Forbidden,
    "redirected": Redirected,
    "internal_error": Unavailable,
    "unavailable": Unavailable,
}
_BY_STATUS: Final = {408: "unavailable", 425: "unavailable"} | dict.fromkeys((301, 302, 303, 307, 308), "redirected")
_GATEWAY_GAVE_UP: Final = frozenset({504, 524})
"""A gateway stopped waiting; the provider behind it may have continued, answered and charged."""


def error_of(status: int, raw: bytes, headers: Mapping[str, str], endpoint: str = "") -> ProviderError:
    """Return the exception for an answer that is not a 2xx. Header names are in lower case."""
    text = raw[:_READ_BYTES].decode("utf-8", "replace")
    body = _json(text)
    code = _code(status, body, text, headers, endpoint)
    error = _BY_CODE.get(code, InvalidRequest)(_detail(status, body, text, headers, code), code, status)
    if isinstance(error, TransientError):
        limited = status == HTTPStatus.TOO_MANY_REQUESTS
        error.retry_after = seconds_until_reset(headers) if limited else retry_after(headers.get("retry-after"))
        error.maybe_charged = status in _GATEWAY_GAVE_UP
        error.broken = "gateway" if error.maybe_charged else None
    return error


def plain(text: str) -> str:
    """Return text from outside as one line without control, escape or direction characters."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in " ".join(text.split()))


def _code(status: int, body: Any, text: str, headers: Mapping[str, str], endpoint: str) -> str:
    """The contract's code: the body's own where the contract knows it, else the meaning of the bare status."""
    own = error_code(status, body)
    if own in ERROR_KINDS and isinstance(body, dict) and body.get("code") == own:
        return own
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return limit_of(_page_words(text) if _is_page(text) else text, headers)
    if status == HTTPStatus.FORBIDDEN and endpoint in CUSTOM_PLAN_ENDPOINTS:
        return "plan_required"
    if status in (400, 404) and not _is_about_the_token(body, text):
        # As "no holders", a wrong base address would look like a world without holders.
        return "not_found" if status == HTTPStatus.NOT_FOUND else "unexpected_status"
    return _BY_STATUS.get(status) or error_code(status, None)


def _is_about_the_token(body: Any, text: str) -> bool:
    """False for web pages, and for the text with which frameworks answer unknown paths."""
    if isinstance(body, dict):
        return body.get("detail") != "Not Found"
    return not _is_page(text)


def _is_page(text: str) -> bool:
    return text[:1_000].removeprefix("\ufeff").lstrip().startswith("<")


def _detail(status: int, body: Any, text: str, headers: Mapping[str, str], code: str) -> str:
    try:
        words = error_detail(body, _page_words(text) if _is_page(text) else text)
    except RecursionError:
        words = text[:_LONGEST_DETAIL]
    said = plain(words[: 4 * _LONGEST_DETAIL])[:_LONGEST_DETAIL] or _phrase(status)
    if code == "redirected":
        target = plain(headers.get("location", ""))[:_LONGEST_DETAIL] or "no address"
        return f"the provider redirects to {target}; redirects are not followed, so set provider.url to the new address"
    if code == "forbidden":
        return f"the provider refuses access: {said}; check the API key, and whether a firewall answers in its place"
    return said


def _page_words(page: str) -> str:
    """The title or the first words of a web page."""
    title = re.search(r"<(title|h1)[^>]*>([^<]*)<", page[:_LONGEST_PAGE], re.IGNORECASE)
    words = title[2] if title and title[2].strip() else re.sub(r"<[^>]*>", " ", page[:_LONGEST_DETAIL])
    return f"a web page, {html.unescape(words).strip()[:200]!r}"


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
