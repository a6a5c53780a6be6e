"""Exceptions of calls to a provider, and the function that turns an error answer into an exception.

``client`` retries calls, ``fetcher`` decides when a run stops, ``ingest`` turns errors into rows of the table
``failures``. The tree::

    ProviderError
    ├── NoAnswer              a fact about the token, which never fails a run
    │   ├── UnsupportedToken
    │   ├── NoHolders
    │   └── UnknownToken
    ├── PermanentError        repeating the request cannot help until someone changes something
    │   ├── InvalidKey        ┐
    │   ├── Redirected        │ stop every request to the provider
    │   ├── CreditsExhausted  │
    │   ├── RateLimitPersists │ (refused for two rate windows)
    │   ├── AnswersBreak      │ (several answers in a row broke the same way)
    │   ├── BudgetExceeded    │ (one of our own ceilings)
    │   ├── Cancelled         │ (the run was cancelled)
    │   ├── AnswerNotKept     ┘ (the archive cannot be written)
    │   ├── Forbidden         ┐
    │   ├── PlanRequired      │ stop requests to that endpoint
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

import hashlib
import html
import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, ClassVar, Final, Literal

from holderlake.core.contract.errors import ERROR_KINDS, error_code, error_detail
from holderlake.core.contract.prices import credits_text
from holderlake.core.contract.requests import AddressesMetadataRequest, AddressMetadataRequest
from holderlake.core.http import retry_after
from holderlake.core.provider.rate_limit_answers import limit_of, seconds_until_reset

CUSTOM_PLAN_ENDPOINTS: Final = frozenset({AddressMetadataRequest.endpoint, AddressesMetadataRequest.endpoint})
"""Endpoints of custom plans. Only for these, HTTP 403 without an error code of the contract means ``plan_required``."""
_LONGEST_DETAIL: Final = 500
_READ_BYTES: Final = 1 << 20
"""Number of bytes of an error answer that are read."""
_LONGEST_PAGE: Final = 20_000

PAY_AGAIN: Final = "'holderlake retry-failures --pay-again' pays for a new one"
"""What a user can do about a paid answer that cannot be read."""
Broken = Literal[
    "timeout",
    "reset",
    "closed",
    "too_large",
    "encoding",
    "corrupt",
    "gateway",
    "page",
    "empty",
    "cut",
    "error",
    "no_rows",
]
"""Kinds of broken answers: the answer cannot be used, but the call may have been charged."""


class ProviderError(Exception):
    """Base of all errors of a call: the contract's error ``code``, a ``detail`` in words, and the HTTP ``status``.

    ``status`` is None if no answer came.
    """

    code: str = "unexpected_status"
    retryable: ClassVar[bool] = False
    stops: ClassVar[Literal["provider", "endpoint"] | None] = None
    """Scope of later requests that would fail too and are not sent: all, those to the endpoint, or none."""
    maybe_charged: bool = False
    """The provider may have charged the call although no answer came."""
    broken: Broken | None = None
    """Kind of the broken answer; None if the answer was not broken."""
    request: Any = None
    """The request that caused the error; set only if the error stops other requests."""

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
    """The provider cannot make a map of the token."""

    code = "unsupported_token"


class NoHolders(NoAnswer):
    """The token has no holders at the requested instant."""

    code = "no_holders"


class UnknownToken(NoAnswer):
    """The provider does not know the token."""

    code = "unknown_token"


class PermanentError(ProviderError):
    """A retry of the request cannot succeed until someone changes a setting, the key or the plan."""


class InvalidKey(PermanentError):
    """The API key is missing, unknown or revoked."""

    code = "invalid_key"
    stops = "provider"


class CreditsExhausted(PermanentError):
    """The month's credits are used up."""

    code = "credits_exhausted"
    stops = "provider"


class Forbidden(PermanentError):
    """The provider, or a firewall in front of it, refuses access to the endpoint."""

    code = "forbidden"
    stops = "endpoint"


class Redirected(PermanentError):
    """The provider answers with a redirect, which is not followed, because that would send the key to its target."""

    code = "redirected"
    stops = "provider"


class RateLimitPersists(PermanentError):
    """The provider refused every call for two periods of the rate limit (``provider.rate_window_seconds``)."""

    code = "rate_limited"
    stops = "provider"


class AnswersBreak(PermanentError):
    """Several answers in a row could not be used for the same reason, and each may have been charged."""

    code = "answers_break"
    stops = "provider"


class BudgetExceeded(PermanentError):
    """The call was not made, because it would exceed a ceiling of the user's settings.

    ``limit``, ``spent`` and ``call_cost`` are in hundredths of a credit.
    """

    code = "budget_exceeded"
    stops = "provider"

    def __init__(self, ceiling: str, limit: int, spent: int, call_cost: int, way_out: str) -> None:
        super().__init__(
            f"a call of {credits_text(call_cost)} credits would exceed the ceiling budget.{ceiling} of "
            f"{credits_text(limit)} credits: {credits_text(spent)} are spent or reserved; {way_out}"
        )
        self.args = (ceiling, limit, spent, call_cost, way_out)
        self.ceiling = ceiling
        self.limit = limit
        self.spent = spent
        self.call_cost = call_cost
        self.way_out = way_out


class Cancelled(PermanentError):
    """The run was cancelled; the call was not made."""

    code = "cancelled"
    stops = "provider"


class AnswerNotKept(PermanentError):
    """A paid answer could not be written to the archive. No more requests are sent: their answers would be lost."""

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
    """The provider rejects this request, or answers with a status that the contract does not have."""

    code = "invalid_request"


class TransientError(ProviderError):
    """A later retry may succeed. ``retry_after``: seconds that the provider asks to wait; None if it names none."""

    retryable = True
    retry_after: float | None = None
    is_final: bool = False
    """True if there must be no further attempt, because it could be charged once more."""


class RateLimited(TransientError):
    """HTTP 429: too many calls a minute. With the code ``limit_reached``, used-up credits may be the reason instead."""

    code = "rate_limited"


class Unavailable(TransientError):
    """The provider failed, is overloaded or took too long: mostly HTTP 5xx."""

    code = "unavailable"


class Unreachable(TransientError):
    """No answer came. ``maybe_charged`` is False if the request was never sent."""

    code = "unreachable"


class BrokenAnswer(Unreachable):
    """An answer began and did not arrive in full, or its body is no answer of the API and its headers name no charge.

    ``cost_billed`` and ``credits_remaining`` come from its headers, in hundredths of a credit; None if not in them.
    """

    code = "broken_answer"
    maybe_charged = True
    cost_billed: int | None = None
    credits_remaining: int | None = None
    body: bytes | None = None
    """A complete body that is no answer; None if the body is incomplete."""

    @property
    def answer_hash(self) -> str | None:
        """The SHA-256 of the body, which the archive keeps as evidence."""
        return hashlib.sha256(self.body).hexdigest() if self.body else None


class MalformedAnswer(ProviderError):
    """An answer that cannot be decoded. ``answer_hash`` is the SHA-256 of its bytes.

    ``digest`` is its name in the archive; None if it is not archived.
    """

    code = "malformed_answer"

    def __init__(self, reason: str, answer_hash: str, digest: str | None = None) -> None:
        archive_hint = f"; the archive keeps it, and {PAY_AGAIN}" if digest else ""
        super().__init__(f"the answer with SHA-256 {answer_hash} cannot be read: {reason}{archive_hint}")
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
"""Statuses of a gateway that stopped waiting. The provider behind it may have answered and charged the call."""


def error_of(status: int, raw: bytes, headers: Mapping[str, str], endpoint: str = "") -> ProviderError:
    """Return the exception for an answer with a status other than 2xx. ``raw`` is its body.

    The names in ``headers`` are in lower case. ``endpoint`` is the request's endpoint, for example ``map``.
    """
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
    """Return untrusted text as one line, with U+FFFD for control, escape and direction characters."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in " ".join(text.split()))


def _code(status: int, body: Any, text: str, headers: Mapping[str, str], endpoint: str) -> str:
    """Return the contract's error code of an answer: the code in its body if the contract has it, else its status's."""
    body_code = error_code(status, body)
    if body_code in ERROR_KINDS and isinstance(body, dict) and body.get("code") == body_code:
        return body_code
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return limit_of(_page_words(text) if _is_page(text) else text, headers)
    if status == HTTPStatus.FORBIDDEN and endpoint in CUSTOM_PLAN_ENDPOINTS:
        return "plan_required"
    if status in (400, 404) and not _is_about_the_token(body, text):
        # As "no holders", a wrong base address would look like a world without holders.
        return "not_found" if status == HTTPStatus.NOT_FOUND else "unexpected_status"
    return _BY_STATUS.get(status) or error_code(status, None)


def _is_about_the_token(body: Any, text: str) -> bool:
    """Return whether an HTTP 400 or 404 is about the token: not if it is a web page or a framework's "Not Found"."""
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
    detail = plain(words[: 4 * _LONGEST_DETAIL])[:_LONGEST_DETAIL] or _phrase(status)
    if code == "redirected":
        target = plain(headers.get("location", ""))[:_LONGEST_DETAIL] or "no address"
        return f"the provider redirects to {target}; redirects are not followed, so set provider.url to the new address"
    if code == "forbidden":
        return f"the provider refuses access: {detail}; check the API key, and whether a firewall answers in its place"
    return detail


def _page_words(page: str) -> str:
    """Return the title or the first words of a web page."""
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
