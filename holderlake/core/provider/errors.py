"""Exceptions of calls to a provider.

``attempts`` repeats a request after a ``TransientError``. ``fetcher`` stops the run after an error with ``stops``.
``ingest`` turns the other errors into rows of the table ``failures``.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, Literal

from holderlake.core.contract.prices import credits_text

PAY_AGAIN: Final = "'holderlake retry-failures --pay-again' pays for a new one"
"""What a user can do about a paid answer that cannot be read."""
Stops = Literal["provider", "endpoint"]
NotAnswer = Literal["page", "empty", "cut", "error", "no_rows", "limited"]
"""Kinds of bodies that are no answer of the API, although their status is one of success."""
Broken = Literal["timeout", "reset", "closed", "too_large", "encoding", "corrupt", "gateway"] | NotAnswer
"""Kinds of broken answers: the answer cannot be used, but the call may have been charged."""
_ASK_LESS: Final = "ask for less at a time (maps.limit, holders.limit)"
CAUSES: Final[dict[Broken, tuple[str, str]]] = {
    "timeout": (
        "did not arrive in time",
        "The provider is slow, or provider.timeout_seconds is too short. "
        f"Raise provider.timeout_seconds, or {_ASK_LESS}.",
    ),
    "reset": (
        "did not begin: the connection was closed",
        "The provider, a proxy or a firewall closes connections. The ledger releases these calls as soon as the "
        "provider's balance proves that they were not charged.",
    ),
    "closed": (
        "broke off",
        "A proxy or firewall between here and the provider may limit the size or duration of answers, or the provider "
        f"may fail. Raise that limit or bypass the proxy, or {_ASK_LESS}.",
    ),
    "too_large": (
        "were larger than provider.answer_megabytes",
        f"Raise provider.answer_megabytes, or {_ASK_LESS}. Far larger answers than usual mean a fault at the provider.",
    ),
    "encoding": (
        "had a content encoding that was not asked for",
        "A proxy may compress answers without being asked. Turn that off in the proxy.",
    ),
    "corrupt": (
        "were damaged in transit",
        "A proxy may change compressed answers. Bypass it, or turn off its compression.",
    ),
    "gateway": (
        "were given up by a gateway (HTTP 504)",
        f"The gateway's time limit is shorter than the provider needs. Raise it, or {_ASK_LESS}.",
    ),
    "page": (
        "were web pages, not answers of the API",
        "A firewall, a login page or another web server may answer in the provider's place. Check provider.url and "
        "open it in a browser.",
    ),
    "empty": ("were empty", "A proxy may drop the bodies of answers, or the provider fails. Bypass the proxy."),
    "cut": (
        "were cut short, or were not JSON",
        "A proxy may cut or change answers, or another server may answer in the provider's place. Check provider.url, "
        f"bypass the proxy, or {_ASK_LESS}.",
    ),
    "error": (
        "had a status of success and no field of an answer",
        "A gateway may report errors, such as a rate limit, in this way; the table failures has the messages. Check "
        "provider.url, provider.rate_per_minute and the key.",
    ),
    "no_rows": ("were empty lists", "The provider may have lost its data. Ask its operator."),
    "limited": ("said, with a status of success, that the rate limit is reached", "Lower provider.rate_per_minute."),
}
"""The effect of each kind of broken answers, and their usual cause with the remedy."""


class ProviderError(Exception):
    """Base of all errors of a call: the contract's error ``code``, a ``detail`` in words, and the HTTP ``status``.

    ``status`` is None if no answer came.
    """

    code: str = "unexpected_status"
    retryable: ClassVar[bool] = False
    stops: ClassVar[Stops | None] = None
    """Scope of later requests that would fail too and are not sent: all, those to the endpoint, or none."""
    maybe_charged: bool = False
    """The provider may have charged the call although no answer came."""
    broken: Broken | None = None
    """Kind of the broken answer; None if the answer was not broken."""
    body: bytes | None = None
    """A complete body that is no answer, which the archive keeps as evidence; None without one."""
    answer_hash: str | None = None
    """SHA-256 of an archived body that cannot be used; None without one."""
    cost_billed: int | None = None
    """Hundredths of a credit in the headers of a broken answer; None if not in them. So is ``credits_remaining``."""
    credits_remaining: int | None = None
    request: Any = None
    """The request that caused the error; set only if the error stops other requests."""

    def __init_subclass__(cls, code: str | None = None, stops: Stops | None = None) -> None:
        cls.code, cls.stops = code or cls.code, stops or cls.stops

    def __init__(self, detail: str, code: str | None = None, status: int | None = None) -> None:
        super().__init__(detail, code, status)
        self.detail = detail
        self.code = code or type(self).code
        self.status = status

    def __str__(self) -> str:
        return f"{self.detail} ({self.code}{f', HTTP {self.status}' if self.status else ''})"


class NoAnswer(ProviderError, code="no_answer"):
    """The provider has no data about the token: a fact, which never fails a run."""


class UnsupportedToken(NoAnswer, code="unsupported_token"):
    """The provider cannot make a map of the token."""


class NoHolders(NoAnswer, code="no_holders"):
    """The token has no holders at the requested instant."""


class UnknownToken(NoAnswer, code="unknown_token"):
    """The provider does not know the token."""


class MalformedAnswer(ProviderError, code="malformed_answer"):
    """A paid answer that cannot be decoded. ``answer_hash`` is the SHA-256 of its bytes.

    ``digest`` is its name in the archive; None if it is not archived.
    """

    def __init__(self, reason: str, answer_hash: str, digest: str | None = None) -> None:
        archive_hint = f"; the archive keeps it, and {PAY_AGAIN}" if digest else ""
        super().__init__(f"the answer with SHA-256 {answer_hash} cannot be read: {reason}{archive_hint}")
        self.args = (reason, answer_hash, digest)
        self.answer_hash = answer_hash
        self.digest = digest


class TransientError(ProviderError):
    """A later attempt may succeed. ``retry_after``: seconds that the provider asks to wait; None if it names none."""

    retryable = True
    retry_after: float | None = None


class RateLimited(TransientError, code="rate_limited"):
    """HTTP 429: too many calls a minute. With the code ``limit_reached``, used-up credits may be the reason instead."""


class Unavailable(TransientError, code="unavailable"):
    """The provider failed, is overloaded or took too long: mostly HTTP 5xx."""


class Unreachable(TransientError, code="unreachable"):
    """No answer came. ``maybe_charged`` is False if the request was never sent."""


class BrokenAnswer(Unreachable, code="broken_answer"):
    """An answer began and did not arrive in full, or its body is no answer of the API and no header names a charge."""

    maybe_charged = True


class PermanentError(ProviderError):
    """A retry of the request cannot succeed until someone changes a setting, the key or the plan."""


class InvalidRequest(PermanentError, code="invalid_request"):
    """The provider rejects this request, or answers with a status that the contract does not have."""


class Forbidden(PermanentError, code="forbidden", stops="endpoint"):
    """The provider, or a firewall in front of it, refuses access to the endpoint."""


class PlanRequired(PermanentError, code="plan_required", stops="endpoint"):
    """The key's plan does not include the endpoint."""


class RemovedEndpoint(PermanentError, code="removed", stops="endpoint"):
    """The endpoint was removed; the detail names its replacement."""


class InvalidKey(PermanentError, code="invalid_key", stops="provider"):
    """The API key is missing, unknown or revoked."""


class CreditsExhausted(PermanentError, code="credits_exhausted", stops="provider"):
    """The month's credits are used up."""


class Redirected(PermanentError, code="redirected", stops="provider"):
    """The provider answers with a redirect, which is not followed, because that would send the key to its target."""


class RateLimitPersists(PermanentError, code="rate_limited", stops="provider"):
    """The provider refused every call for two periods of the rate limit (``provider.rate_window_seconds``)."""


class AnswersBreak(PermanentError, code="answers_break", stops="provider"):
    """Several answers in a row could not be used for the same reason, and each may have been charged."""


class Cancelled(PermanentError, code="cancelled", stops="provider"):
    """The run was cancelled; the call was not made."""


class AnswerNotKept(PermanentError, code="answer_not_kept", stops="provider"):
    """A paid answer could not be written to the archive. No more requests are sent: their answers would be lost."""


class BudgetExceeded(PermanentError, code="budget_exceeded", stops="provider"):
    """The call was not made, because it would exceed a ceiling of the settings. Amounts are hundredths of a credit."""

    def __init__(self, ceiling: str, limit: int, spent: int, call_cost: int, way_out: str) -> None:
        super().__init__(
            f"a call of {credits_text(call_cost)} credits would exceed the ceiling budget.{ceiling} of "
            f"{credits_text(limit)} credits: {credits_text(spent)} are spent or reserved; {way_out}"
        )
        self.args = (ceiling, limit, spent, call_cost, way_out)
        self.ceiling = ceiling
        self.call_cost = call_cost


def plain(text: str) -> str:
    """Return untrusted text as one line, with U+FFFD for control, escape and direction characters."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in " ".join(text.split()))
