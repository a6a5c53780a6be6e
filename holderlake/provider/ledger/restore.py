"""Restore of the credit ledger, after it was emptied, lost or replaced by an older copy.

Each archived answer was paid, and its cost follows from its request. Calls that were charged without an answer are not
in the archive. Their sum follows from the provider's balance and the monthly ceiling, as soon as a balance is known.
"""

from __future__ import annotations

import logging
from typing import Final

from holderlake.archive.archive import AnswerArchive
from holderlake.archive.paid_requests import request_of
from holderlake.contract.prices import credits_text
from holderlake.provider.ledger.ledger import CreditLedger
from holderlake.provider.ledger.reports import Restored
from holderlake.units import counted

_log = logging.getLogger(__name__)
RESTORED_RUN: Final = "restored from the archive"
BALANCE_RUN: Final = "restored from the provider's balance of"
"""Name of the run that has the charges without an archived answer; the first day of the month follows."""
NOT_ARCHIVED: Final = "not archived"
"""Name in place of the endpoint of these charges."""


def restore_if_older(ledger: CreditLedger, archive: AnswerArchive) -> None:
    """Add archived calls to the ledger if the archive's newest answer is of a later day than the ledger's newest call.

    Then add the charges without an archived answer: see ``add_unknown_charges``.
    """
    known = ledger.newest_day()
    if archive.root.exists() or (known is None and not archive.is_local):
        _restore_answers(ledger, archive, known)
        add_unknown_charges(ledger)


def _restore_answers(ledger: CreditLedger, archive: AnswerArchive, known: str | None) -> None:
    newest = archive.newest_day()
    if newest is None or (known is not None and known >= newest):
        return
    stored = [one for one in archive.stored() if known is None or f"{one.fetched_at:%Y-%m-%d}" > known]
    found = [(one, request) for one in stored if (request := request_of(one.request)) is not None]
    entries = [
        Restored(request.endpoint, request.subject, one.fetched_at.date(), request.cost) for one, request in found
    ]
    if ledger.restore(RESTORED_RUN, entries, known):
        _log.warning(
            "%s lacked calls whose answers are archived: their list prices were restored (%s)%s. If "
            "budget.per_month is your allowance, the provider's next balance shows what failed calls cost",
            ledger,
            counted(len(entries), "call"),
            f", {len(stored) - len(found)} calls were not, because this version does not know their requests"
            if len(found) < len(stored)
            else "",
        )


def add_unknown_charges(ledger: CreditLedger) -> None:
    """Add this month's charges without an archived answer to a restored ledger, once a month, as one entry.

    Its cost is the monthly ceiling less the provider's balance and the calls of the ledger. If the ceiling is higher
    than the allowance, the cost is too high by the difference; the balance can still be spent.
    """
    totals = ledger.totals(RESTORED_RUN)
    ceilings = {one.name: one for one in totals.ceilings}
    month, told = ceilings["per_month"], totals.credits_remaining
    if not ceilings["per_run"].used or month.limit is None or told is None or totals.charged is None:
        return  # not restored, or no balance of this month is known
    if not any(row.name == RESTORED_RUN for row in ledger.report("run", totals.start)):
        return
    unknown = month.limit - told - totals.spent - totals.reserved - totals.uncharged
    entry = Restored(NOT_ARCHIVED, None, totals.start, unknown)
    if unknown > 0 and ledger.restore(f"{BALANCE_RUN} {totals.start}", [entry], ledger.newest_day(), once=True):
        _log.warning(
            "%s: by the provider's balance, %s of %s credits are left; it charged %s credits more than the ledger had: "
            "they were added as one call",
            ledger,
            credits_text(told),
            credits_text(month.limit),
            credits_text(unknown),
        )
