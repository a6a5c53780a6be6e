"""Upgrade of ledgers of older versions, and repair of implausible amounts.

Version 0.1.0 stored any cost that a provider's header named. An integer of thirty digits became a floating-point
number, and ceilings and reports failed.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from holderlake.provider.ledger.entries import IMPLAUSIBLE, MOST_CREDITS
from holderlake.provider.ledger.statements import LATER_COLUMNS, LATER_INDEXES

_ABSURD: Final = f"(typeof(cost) <> 'integer' OR cost > {MOST_CREDITS})"
_INDEXES: Final = (f"CREATE INDEX IF NOT EXISTS entries_absurd ON entries (id) WHERE {_ABSURD}", *LATER_INDEXES)
_REPAIR: Final = f"""
    UPDATE entries
    SET problem = ?, cost = coalesce(
        (
            SELECT other.cost
            FROM entries AS other
            WHERE other.endpoint = entries.endpoint AND other.state <> 'released'
                AND typeof(other.cost) = 'integer' AND other.cost <= {MOST_CREDITS}
            GROUP BY other.cost
            ORDER BY count(*) DESC
            LIMIT 1
        ),
        0
    )
    WHERE {_ABSURD}
"""
"""SQL that replaces each implausible cost by the most frequent cost of its endpoint."""
_TOTALS: Final = (
    "DELETE FROM days",
    "INSERT INTO days SELECT day, sum(cost) FROM entries GROUP BY day",
    "DELETE FROM runs",
    "INSERT INTO runs SELECT run_id, sum(cost) FROM entries GROUP BY run_id",
)
_BALANCES: Final = (
    f"DELETE FROM told WHERE typeof(credits) <> 'integer' OR credits > {MOST_CREDITS}",
    f"DELETE FROM told_first WHERE typeof(credits) <> 'integer' OR credits > {MOST_CREDITS} "
    "OR typeof(settled) <> 'integer'",
    "DELETE FROM told WHERE at IS NOT NULL AND julianday(at) IS NULL",
)


def upgrade(db: sqlite3.Connection) -> None:
    """Add columns and indexes that an older ledger lacks, and replace implausible amounts. Idempotent."""
    present = {row[1] for row in db.execute("PRAGMA table_info(entries)")}
    for name, kind in LATER_COLUMNS.items():
        if name not in present:
            db.execute(f"ALTER TABLE entries ADD COLUMN {name} {kind}")
    for statement in _INDEXES:
        db.execute(statement)
    if db.execute(f"SELECT 1 FROM entries WHERE {_ABSURD} LIMIT 1").fetchone():
        db.execute(_REPAIR, (IMPLAUSIBLE,))
        for statement in _TOTALS:
            db.execute(statement)
    for statement in _BALANCES:
        db.execute(statement)
