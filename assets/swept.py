"""One pass of the engine at hand over many partitions: how many it takes at a time, and its rows taken apart again.

Committing them, and asking where there is no engine at hand, is ``family``'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from contract.tables import INSTANT_TYPE, TABLES, learnt
from resources.at_hand import Refused, Swept

_FIRST: Final = 512
"""Answers of the first pass, before it is known how large they are."""
_BYTES: Final = 64 << 20
"""What the rows of a pass may take in memory, unless one partition takes more; two passes are there at a time."""

Tables: TypeAlias = dict[str, pa.Table]


class Pace:
    """How many answers fit into a pass, by the size of those of the passes before."""

    def __init__(self) -> None:
        self._answers = _FIRST

    def partitions(self, tokens: int) -> int:
        """So many partitions of ``tokens`` subjects each make a pass; at least one."""
        return max(1, self._answers // max(1, tokens))

    def learn(self, swept: Swept, answers: int) -> None:
        """Takes the size of a pass's rows into account. The next pass is twice as large at most: rows may grow."""
        size = sum(rows.nbytes for rows in swept.tables.values())
        self._answers = max(1, min(2 * answers, _BYTES * answers // max(size, 1)))


def by_instant(swept: Swept, instants: Sequence[datetime]) -> dict[datetime, tuple[Tables, list[Refused]]]:
    """The rows of each instant by table, with ``fetched_at``, and what was refused then."""
    refused: dict[datetime, list[Refused]] = {as_of: [] for as_of in instants}
    for one in swept.refused:
        refused[one.as_of].append(one)
    tables: dict[datetime, Tables] = {as_of: {} for as_of in instants}
    for name, rows in swept.tables.items():
        stamped = learnt(TABLES[name], rows, swept.computed_at)
        for as_of, own in _apart(stamped, instants).items():
            tables[as_of][name] = own
    return {as_of: (tables[as_of], refused[as_of]) for as_of in instants}


def _apart(rows: pa.Table, instants: Sequence[datetime]) -> Mapping[datetime, pa.Table]:
    """The rows of each instant, in the order in which they stand."""
    wanted = pa.array(instants, INSTANT_TYPE).cast(pa.int64()).to_numpy()
    at = rows["as_of"].cast(pa.int64()).to_numpy()
    order = np.argsort(at, kind="stable")
    ordered, at = rows.take(pa.array(order)), at[order]
    first, last = (np.searchsorted(at, wanted, side) for side in ("left", "right"))
    return {
        as_of: ordered.slice(start, end - start)
        for as_of, start, end in zip(instants, first.tolist(), last.tolist(), strict=True)
    }
