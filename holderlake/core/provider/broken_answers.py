"""Counter of consecutive broken answers: they are incomplete or unusable, but each may have been charged."""

from __future__ import annotations

from typing import Final

from holderlake.core.contract.prices import credits_text
from holderlake.core.provider.errors import AnswersBreak, Broken

IN_A_ROW: Final = 5
"""Number of broken answers in a row that stops a run."""
_ASK_LESS: Final = "ask for less at a time (maps.limit, holders.limit)"
_CAUSES: Final[dict[Broken, tuple[str, str]]] = {
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
}
BREAKAGES: Final[dict[str, str]] = {how: description for how, (description, _) in _CAUSES.items()}
"""Descriptions of unusable answers by their kind (``errors.Broken``), such as "did not arrive in time"."""


class BrokenStreak:
    """Counter of consecutive answers that broke in the same way (``errors.Broken``)."""

    def __init__(self) -> None:
        self._how: Broken | None = None
        self._count = 0
        self._credits = 0

    def intact(self) -> None:
        """Set the count to zero, after an answer that is not broken."""
        self._how, self._count, self._credits = None, 0, 0

    def broke(self, how: Broken, credits: int) -> AnswersBreak | None:
        """Count an answer that broke in the way ``how``, and its possible cost in hundredths of a credit.

        Return the error that stops the run after five answers that broke in the same way, else None.
        """
        if how != self._how:
            self.intact()
        self._how = how
        self._count += 1
        self._credits += credits
        if self._count < IN_A_ROW:
            return None
        description, remedy = _CAUSES[how]
        return AnswersBreak(
            f"{self._count} answers in a row {description}, and up to {credits_text(self._credits)} credits may have "
            f"been charged for them; the run stops before more is lost. {remedy} 'holderlake credits' shows the calls."
        )
