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
    newest_call_day = ledger.newest_day()
    if archive.root.exists() or (newest_call_day is None and not archive.is_local):
        _restore_answers(ledger, archive, newest_call_day)
        add_unknown_charges(ledger)


def _restore_answers(ledger: CreditLedger, archive: AnswerArchive, newest_call_day: str | None) -> None:
    newest = archive.newest_day()
    if newest is None or (newest_call_day is not None and newest_call_day >= newest):
        return
    archived_answers = [
        answer
        for answer in archive.stored()
        if newest_call_day is None or f"{answer.fetched_at:%Y-%m-%d}" > newest_call_day
    ]
    answer_requests = [
        (answer, request) for answer in archived_answers if (request := request_of(answer.request)) is not None
    ]
    entries = [
        Restored(request.endpoint, request.subject, answer.fetched_at.date(), request.cost)
        for answer, request in answer_requests
    ]
    if ledger.restore(RESTORED_RUN, entries, newest_call_day):
        _log.warning(
            "%s lacked calls whose answers are archived: their list prices were restored (%s)%s. If "
            "budget.per_month is your allowance, the provider's next balance shows what failed calls cost",
            ledger,
            counted(len(entries), "call"),
            f", {len(archived_answers) - len(answer_requests)} calls were not, because this version "
            "does not know their requests"
            if len(answer_requests) < len(archived_answers)
            else "",
        )


def add_unknown_charges(ledger: CreditLedger) -> None:
    """Add this month's charges without an archived answer to a restored ledger, once a month, as one entry.

    Its cost is the monthly ceiling less the provider's balance and the calls of the ledger. If the ceiling is higher
    than the allowance, the cost is too high by the difference; the balance can still be spent.
    """
    totals = ledger.totals(RESTORED_RUN)
    ceilings = {ceiling.name: ceiling for ceiling in totals.ceilings}
    month, balance = ceilings["per_month"], totals.credits_remaining
    if not ceilings["per_run"].used or month.limit is None or balance is None or totals.charged is None:
        return  # not restored, or no balance of this month is known
    if not any(row.name == RESTORED_RUN for row in ledger.report("run", totals.start)):
        return
    unknown = month.limit - balance - totals.spent - totals.reserved - totals.uncharged
    entry = Restored(NOT_ARCHIVED, None, totals.start, unknown)
    if unknown > 0 and ledger.restore(f"{BALANCE_RUN} {totals.start}", [entry], ledger.newest_day(), once=True):
        _log.warning(
            "%s: by the provider's balance, %s of %s credits are left; it charged %s credits more than the ledger had: "
            "they were added as one call",
            ledger,
            credits_text(balance),
            credits_text(month.limit),
            credits_text(unknown),
        )
