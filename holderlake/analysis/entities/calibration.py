"""Measure confidences of evidence on groups of wallets whose owner is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import sqrt
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

from holderlake.analysis.entities.files import plain_text
from holderlake.analysis.entities.kinds import EVIDENCE_KINDS, LEVELS, Level
from holderlake.engine.errors import BadSource

LEAST_PAIRS: Final = 100
"""Number of pairs from which a share of right pairs counts."""
_SHARES: Final = """
WITH known AS (
    SELECT kind, basis, level, link, address, owner
    FROM read_parquet($links)
    JOIN levels USING (kind, confidence)
    JOIN owners USING (address)
    GROUP BY ALL
),
pairs AS (
    SELECT kind, level, one.owner = other.owner AS is_right
    FROM known AS one
    JOIN known AS other USING (kind, basis, level, link)
    WHERE one.address < other.address
    QUALIFY min(basis) OVER (PARTITION BY one.address, other.address)
        = max(basis) OVER (PARTITION BY one.address, other.address)
)
SELECT kind, level, count(*) FILTER (is_right), count(*) FROM pairs GROUP BY kind, level
"""
"""The right pairs, and all pairs, that each level of evidence links and no other basis does."""


def read_owners(path: Path) -> dict[str, str]:
    """Return the owner of each address in a CSV or Parquet file with ``address``, and ``owner`` or ``group``.

    Raises ``BadSource`` if the file can't be read, or lacks the columns.
    """
    with duckdb.connect() as database:
        try:
            is_csv = path.name.endswith((".csv", ".csv.gz"))
            file = database.read_csv(str(path), all_varchar=True) if is_csv else database.read_parquet(str(path))
            owner = next((name for name in ("owner", "group") if name in file.columns), None)
            if owner is None or "address" not in file.columns:
                raise BadSource(f"{path} needs the columns address and owner; it has {', '.join(file.columns)}")
            columns = (plain_text("address"), f'CAST("{owner}" AS VARCHAR)')
            rows = file.project(f"{columns[0]} AS address, {columns[1]} AS owner")
            return {address: owner for address, owner in rows.fetchall() if address and owner}
        except duckdb.Error as error:
            raise BadSource(f"{path} can't be read as groups of wallets: {str(error).splitlines()[0]}") from error


def measured_pairs(links: Path, owners: Mapping[str, object]) -> dict[Level, tuple[int, int]]:
    """Return the number of right pairs, and of all, that each level of evidence in the file ``links`` links alone.

    Pairs that another basis of evidence links too have a higher confidence together, so they do not count. ``owners``
    has the owner of each wallet that is known; other wallets do not count.
    """
    levels = [(kind, level, p, EVIDENCE_KINDS[kind].basis) for (kind, level), p in LEVELS.items()]
    names = ("kind", "level", "confidence", "basis")
    with duckdb.connect() as database:
        database.register("levels", pa.table(dict(zip(names, map(list, zip(*levels, strict=True)), strict=True))))
        known = {"address": list(owners), "owner": [str(owner) for owner in owners.values()]}
        database.register("owners", pa.table(known, pa.schema([("address", pa.string()), ("owner", pa.string())])))
        rows = database.execute(_SHARES, {"links": str(links)}).fetchall()
    return {(kind, level): (right, pairs) for kind, level, right, pairs in rows}


def calibrated(measured: Iterable[Mapping[Level, tuple[int, int]]]) -> dict[Level, float]:
    """Return the confidence of each level that data with known owners support; the stated one if none does.

    It is the lowest share of right pairs in data with ``LEAST_PAIRS`` or more, rounded down to twentieths, from 0.1 to
    0.95. Within a kind of evidence, a level has at least 0.05 less than the next stronger one: so a crowd loses the
    joins of the weakest level first.
    """
    all_measured = list(measured)
    confidences: dict[Level, float] = {}
    for (kind, level), stated in reversed([*LEVELS.items()]):
        counts = [one[kind, level] for one in all_measured if one.get((kind, level), (0, 0))[1] >= LEAST_PAIRS]
        lowest = min((right / pairs for right, pairs in counts), default=stated)
        twentieths = min(19, int(20 * lowest + 1e-9), round(20 * confidences.get((kind, level + 1), 1.0)) - 1)
        confidences[kind, level] = max(2, twentieths) / 20
    return {level: confidences[level] for level in LEVELS}


def interval(right: int, pairs: int) -> tuple[float, float]:
    """Return the bounds of 95 % of a share of independent pairs (Wilson's)."""
    z = 1.96
    middle, width = (
        right / pairs + z * z / (2 * pairs),
        z * sqrt(right / pairs * (1 - right / pairs) / pairs + z * z / (4 * pairs * pairs)),
    )
    return (middle - width) / (1 + z * z / pairs), (middle + width) / (1 + z * z / pairs)
