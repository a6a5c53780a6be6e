"""Number and period of a token's stored transfers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holderlake.engine.files.manifest import PartFile
from holderlake.engine.records import Key


@dataclass(frozen=True)
class History:
    """Summary of a token's stored transfers.

    ``transfers`` is their number. ``first_time`` and ``last_time`` are the unix seconds of the first and the last.
    """

    chain: str
    token_address: str
    transfers: int
    first_time: int
    last_time: int


def history_of(key: Key, parts: Sequence[PartFile]) -> History | None:
    """Return the summary of the transfers in the parts of the token ``key``; None if there are none.

    Opening balances and corrections are not transfers, so their parts do not count.
    """
    transfer_parts = [part for part in parts if part.has_transfers]
    if not transfer_parts:
        return None
    first_time, last_time = (
        min(part.first_time for part in transfer_parts),
        max(part.last_time for part in transfer_parts),
    )
    return History(*key, sum(part.transfers for part in transfer_parts), first_time, last_time)
