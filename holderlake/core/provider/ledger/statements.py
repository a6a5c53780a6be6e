"""Tables and triggers of the credit ledger, and queries about many entries."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import Column, ColumnElement, Connection, Table, Text

from holderlake.core.storage.state import WHOLE, single

FORMAT: Final = 1
"""Format of the ledger's tables."""
TABLES: Final = sa.MetaData()
# ``answer`` and ``owner`` are set only during a claim. ``expected`` is the cost by the price list, before the call.
ENTRIES: Final = Table(
    "entries",
    TABLES,
    Column("id", WHOLE, sa.Identity(), primary_key=True),
    Column("run_id", Text, nullable=False),
    Column("endpoint", Text, nullable=False),
    Column("subject", Text),
    Column("day", Text, nullable=False),
    Column("state", Text, sa.CheckConstraint("state IN ('reserved', 'settled', 'released')"), nullable=False),
    Column("cost", WHOLE, sa.CheckConstraint("cost >= 0"), nullable=False),
    Column("problem", Text),
    Column("answer", Text),
    Column("owner", Text),
    Column("expected", WHOLE, nullable=False),
    sqlite_autoincrement=True,
)
IS_RESERVED: Final = ENTRIES.c.state == sa.literal_column("'reserved'")
"""Condition of a partial index, which databases use only if they see the value."""
_HAS_PROBLEM: Final = sa.text("problem IS NOT NULL")
_IS_CLAIMED: Final = sa.text("answer IS NOT NULL")
sa.Index("entries_by_day", ENTRIES.c.day)
sa.Index("entries_reserved", ENTRIES.c.state, sqlite_where=IS_RESERVED, postgresql_where=IS_RESERVED)
sa.Index("entries_problem", ENTRIES.c.problem, sqlite_where=_HAS_PROBLEM, postgresql_where=_HAS_PROBLEM)
sa.Index("entries_claimed", ENTRIES.c.answer, unique=True, sqlite_where=_IS_CLAIMED, postgresql_where=_IS_CLAIMED)
# Sums for the ceilings, updated by triggers: to add a month of entries before each call would be slow.
DAYS, RUNS = (
    Table(
        name,
        TABLES,
        Column("name", Text, primary_key=True),
        Column("cost", WHOLE, nullable=False),
        sqlite_with_rowid=False,
    )
    for name in ("days", "runs")
)
# The last balance that the provider named.
BALANCE: Final = single("balance", TABLES, Column("credits", WHOLE), Column("at", Text))
# The first balance of a period, and the sum settled by then: later balances are compared with it.
FIRST_BALANCES: Final = Table(
    "first_balances",
    TABLES,
    Column("period", Text, primary_key=True),
    Column("credits", WHOLE),
    Column("settled", WHOLE),
    sqlite_with_rowid=False,
)
# The order of balances: the newest call when the last balance came, and when the last call was closed. Then the last
# balance of a call that was alone, with the sum settled in its period by then.
BALANCE_ORDER: Final = single(
    "balance_order",
    TABLES,
    *(Column(name, WHOLE, nullable=False, server_default=sa.text("0")) for name in ("newest", "closed", "alone")),
    Column("period", Text),
    Column("credits", WHOLE),
    Column("settled", WHOLE),
)
# Whose balance it is: a keyed hash of provider and API key, from which the key cannot be computed.
ACCOUNT: Final = single("account", TABLES, Column("salt", Text), Column("mark", Text))
# Homes whose own ledgers were copied to this one.
HOMES: Final = Table("homes", TABLES, Column("name", Text, primary_key=True))
# The end of the queue of calls for the rate limit, in unix seconds.
RATE_QUEUE: Final = single("rate_queue", TABLES, Column("asked_at", sa.Double), Column("free_at", sa.Double))

_SQLITE_TRIGGERS: Final = (
    """
    CREATE TRIGGER entry_added AFTER INSERT ON entries BEGIN
        INSERT INTO days VALUES (NEW.day, NEW.cost) ON CONFLICT (name) DO UPDATE SET cost = cost + excluded.cost;
        INSERT INTO runs VALUES (NEW.run_id, NEW.cost) ON CONFLICT (name) DO UPDATE SET cost = cost + excluded.cost;
    END
    """,
    """
    CREATE TRIGGER entry_closed AFTER UPDATE OF cost ON entries BEGIN
        UPDATE days SET cost = cost + NEW.cost - OLD.cost WHERE name = NEW.day;
        UPDATE runs SET cost = cost + NEW.cost - OLD.cost WHERE name = NEW.run_id;
    END
    """,
)
_FUNCTION: Final = """
    CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
    BEGIN
        INSERT INTO days SELECT day, sum(cost) FROM ({changes}) AS change GROUP BY day
        ON CONFLICT (name) DO UPDATE SET cost = days.cost + excluded.cost;
        INSERT INTO runs SELECT run_id, sum(cost) FROM ({changes}) AS change GROUP BY run_id
        ON CONFLICT (name) DO UPDATE SET cost = runs.cost + excluded.cost;
        RETURN NULL;
    END $$
"""
_ADDED_ROWS: Final = "SELECT day, run_id, cost FROM new_rows"
_POSTGRESQL_TRIGGERS: Final = (
    _FUNCTION.format(name="add_entries", changes=_ADDED_ROWS),
    _FUNCTION.format(name="close_entries", changes=f"{_ADDED_ROWS} UNION ALL SELECT day, run_id, -cost FROM old_rows"),
    """
    CREATE TRIGGER entries_added AFTER INSERT ON entries REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION add_entries()
    """,
    """
    CREATE TRIGGER entries_closed AFTER UPDATE ON entries REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION close_entries()
    """,
)


@sa.event.listens_for(ENTRIES, "after_create")
def _add_triggers(table: Table, db: Connection, **options: Any) -> None:
    for trigger in _POSTGRESQL_TRIGGERS if db.dialect.name == "postgresql" else _SQLITE_TRIGGERS:
        db.exec_driver_sql(trigger)


def cost_of(state: str) -> ColumnElement[int]:
    """Return the column of a query of entries with the hundredths of a credit of those in a state."""
    return sa.cast(sa.func.coalesce(sa.func.sum(ENTRIES.c.cost).filter(ENTRIES.c.state == state), 0), WHOLE)


def count_of(state: str) -> ColumnElement[int]:
    """Return the column of a query of entries with the number of those in a state."""
    return sa.func.count(sa.case((ENTRIES.c.state == state, 1)))


_CALL: Final = (ENTRIES.c.run_id, ENTRIES.c.endpoint, ENTRIES.c.subject)
SPENDING: Final = (
    sa.select(
        *_CALL,
        *map(count_of, ("settled", "reserved", "released")),
        sa.func.count(ENTRIES.c.problem),
        sa.cast(sa.func.sum(ENTRIES.c.expected), WHOLE),
        *map(cost_of, ("settled", "reserved")),
    )
    .group_by(*_CALL)
    .order_by(*_CALL)
)
"""Query of the calls, a row for each run, endpoint and subject.

After these three: the numbers of calls that were charged, may have been charged, were not charged, and had unusable
answers; then hundredths of a credit: expected by the price list, charged, and perhaps charged.
"""
WRONG_SUM: Final = """
    SELECT kept, name
    FROM (
        SELECT 'day' AS kept, day AS name, cost FROM entries
        UNION ALL SELECT 'run', run_id, cost FROM entries
        UNION ALL SELECT 'day', name, -cost FROM days
        UNION ALL SELECT 'run', name, -cost FROM runs
        UNION ALL SELECT 'state', state, 1 FROM entries WHERE state NOT IN ('reserved', 'settled', 'released')
    ) AS kept
    GROUP BY kept, name
    HAVING sum(cost) <> 0
    LIMIT 1
"""
"""SQL query that finds a day or run whose calls do not add up to its stored sum, or an unknown state."""
