"""Write transfers in a short form, and find the links and entities in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from holderlake.analysis.entities.kinds import LEAST_CONFIDENCE
from holderlake.analysis.entities.links import ENTITIES, LINKS, MARKED, find_entities

Row = dict[str, Any]
_hashes = count()


def paid(sender: str, receiver: str, at: int, value: int = 100, tx: str | None = None, token: str = "native") -> Row:
    """Return a transfer. ``at`` is in minutes, and each transfer without ``tx`` is a transaction of its own."""
    return {
        "chain": "eth",
        "token_address": token,
        "from_address": sender,
        "to_address": receiver,
        "value": str(value),
        "block_time": at * 60,
        "tx_hash": tx or f"own {next(_hashes)}",
    }


def write(folder: Path, rows: Iterable[Row]) -> str:
    path = folder / "transfers.parquet"
    pq.write_table(pa.Table.from_pylist(list(rows)), path)
    return str(path)


def links(
    folder: Path, rows: Iterable[Row], kind: str, exchanges: Sequence[str] = (), marked: Sequence[str] = ()
) -> list[set[str]]:
    """Return the groups of wallets that evidence of a kind links."""
    found = linked(folder, rows, exchanges, marked)
    groups: dict[int, set[str]] = defaultdict(set)
    for row in found:
        if row["kind"] == kind:
            groups[row["link"]].add(row["address"])
    return sorted(groups.values(), key=sorted)


def linked(
    folder: Path, rows: Iterable[Row], exchanges: Sequence[str] = (), marked: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return all rows of links."""
    find_entities([write(folder, rows)], marks(exchanges, marked), folder)
    return pq.read_table(folder / LINKS).to_pylist()


def entities(
    folder: Path, rows: Iterable[Row], confidence: float = LEAST_CONFIDENCE, until: int | None = None
) -> list[set[str]]:
    """Return the wallets of each entity. ``until`` is in minutes."""
    instants = [] if until is None else [until * 60]
    find_entities([write(folder, rows)], MARKED.empty_table(), folder, instants, confidence)
    groups: dict[str, set[str]] = defaultdict(set)
    for row in pq.read_table(folder / ENTITIES).to_pylist():
        groups[row["entity"]].add(row["address"])
    return sorted(groups.values(), key=sorted)


def marks(exchanges: Sequence[str], others: Sequence[str] = ()) -> pa.Table:
    return pa.table([[*exchanges, *others], [True] * len(exchanges) + [False] * len(others)], MARKED)
