"""Size and period of a token's stored transfers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holderlake.engine.files.manifest import OPENING, PartFile
from holderlake.engine.records import Key


@dataclass(frozen=True)
class History:
    """The number of a token's stored transfers, and unix seconds of the first and the last."""

    chain: str
    token_address: str
    transfers: int
    first_time: int
    last_time: int


def history_of(key: Key, parts: Sequence[PartFile]) -> History | None:
    """Return the history that the parts hold; None if they hold no transfers, as opening balances are none."""
    found = [part for part in parts if part.kind != OPENING]
    if not found:
        return None
    first, last = min(part.first_time for part in found), max(part.last_time for part in found)
    return History(*key, sum(part.transfers for part in found), first, last)
