"""Restore of the credit ledger from the archive, after it was emptied, lost or replaced by an older copy.

Each archived answer was paid; its cost is computed from its request in the archive's provenance. The sum is a lower
bound, because the archive knows nothing of calls that were charged without an answer.
"""

from __future__ import annotations

import logging
from typing import Final

from holderlake.archive import provenance
from holderlake.archive.archive import AnswerArchive
from holderlake.provider.ledger.ledger import CreditLedger
from holderlake.provider.ledger.reports import Restored

_log = logging.getLogger(__name__)
RESTORED_RUN: Final = "restored from the archive"


def restore_if_older(ledger: CreditLedger, archive: AnswerArchive) -> None:
    """Add calls from the archive to the ledger if the archive's newest answer is of a later day."""
    if archive.is_local and not archive.root.exists():
        return
    newest, known = archive.newest_day(), ledger.newest_day()
    if newest is None or (known is not None and known >= newest):
        return
    requests = {
        one.digest: one.request
        for commit in provenance.commits(archive)
        for group in commit.groups
        for one in group.asked
        if one.digest is not None
    }
    stored = [one for one in archive.stored() if known is None or f"{one.fetched_at:%Y-%m-%d}" > known]
    found = [(one, requests[one.digest]) for one in stored if one.digest in requests]
    entries = [
        Restored(request.endpoint, request.subject, one.fetched_at.date(), request.cost) for one, request in found
    ]
    if ledger.restore(RESTORED_RUN, entries, known):
        _log.warning(
            "%s lacked calls whose answers are archived: %d calls were restored with their list prices. Failed calls "
            "that were charged cannot be restored%s; compare with the provider's own count",
            ledger,
            len(entries),
            f", nor {len(stored) - len(found)} answers that no partition uses" if len(found) < len(stored) else "",
        )
