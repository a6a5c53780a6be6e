"""SQL of the credit ledger, for SQLite and PostgreSQL: tables, triggers, and statements about many entries.

Tables are written with SQLite's types; ``storage.postgresql`` translates them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from holderlake.core.storage.owners import OWNERS
from holderlake.core.storage.state import DatabaseKind, given_rows

FORMAT: Final = 1
"""Format of the ledger's tables."""
_TABLES: Final = (
    # ``answer`` and ``owner`` are set only during a claim. ``expected`` is the cost by the price list, before the call.
    """
    CREATE TABLE IF NOT EXISTS entries (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        run_id TEXT NOT NULL,
        endpoint TEXT NOT NULL,
        subject TEXT,
        day TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('reserved', 'settled', 'released')),
        cost INTEGER NOT NULL CHECK (cost >= 0),
        problem TEXT,
        answer TEXT,
        owner TEXT,
        expected INTEGER NOT NULL
    )
    """,
    "CREATE INDEX IF NOT EXISTS entries_by_day ON entries (day)",
    "CREATE INDEX IF NOT EXISTS entries_reserved ON entries (state) WHERE state = 'reserved'",
    "CREATE INDEX IF NOT EXISTS entries_problem ON entries (problem) WHERE problem IS NOT NULL",
    "CREATE UNIQUE INDEX IF NOT EXISTS entries_claimed ON entries (answer) WHERE answer IS NOT NULL",
    # Sums for the ceilings, updated by triggers: to add a month of entries before each call would be slow.
    "CREATE TABLE IF NOT EXISTS days (name TEXT PRIMARY KEY, cost INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS runs (name TEXT PRIMARY KEY, cost INTEGER NOT NULL) WITHOUT ROWID",
    # The last balance that the provider named.
    "CREATE TABLE IF NOT EXISTS balance (one INTEGER PRIMARY KEY CHECK (one = 1), credits INTEGER, at TEXT)",
    # The first balance of a period, and the sum settled by then: later balances are compared with it.
    """
    CREATE TABLE IF NOT EXISTS first_balances (
        period TEXT PRIMARY KEY,
        credits INTEGER,
        settled INTEGER
    ) WITHOUT ROWID
    """,
    # The order of balances: the newest call when the last balance came, and when the last call was closed. Then the
    # last balance of a call that was alone, with the sum settled in its period by then.
    """
    CREATE TABLE IF NOT EXISTS balance_order (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        newest INTEGER NOT NULL DEFAULT 0,
        closed INTEGER NOT NULL DEFAULT 0,
        alone INTEGER NOT NULL DEFAULT 0,
        period TEXT,
        credits INTEGER,
        settled INTEGER
    )
    """,
    # Whose balance it is: a keyed hash of provider and API key, from which the key cannot be computed.
    "CREATE TABLE IF NOT EXISTS account (one INTEGER PRIMARY KEY CHECK (one = 1), salt TEXT, mark TEXT)",
    # Homes whose own ledgers were copied to this one.
    "CREATE TABLE IF NOT EXISTS homes (name TEXT PRIMARY KEY)",
    # The end of the queue of calls for the rate limit, in unix seconds.
    "CREATE TABLE IF NOT EXISTS rate_queue (one INTEGER PRIMARY KEY CHECK (one = 1), asked_at REAL, free_at REAL)",
)
_SQLITE: Final = (
    """
    CREATE TRIGGER IF NOT EXISTS entry_added AFTER INSERT ON entries BEGIN
        INSERT INTO days VALUES (NEW.day, NEW.cost) ON CONFLICT (name) DO UPDATE SET cost = cost + excluded.cost;
        INSERT INTO runs VALUES (NEW.run_id, NEW.cost) ON CONFLICT (name) DO UPDATE SET cost = cost + excluded.cost;
    END
    """,
    """
    CREATE TRIGGER IF NOT EXISTS entry_closed AFTER UPDATE OF cost ON entries BEGIN
        UPDATE days SET cost = cost + NEW.cost - OLD.cost WHERE name = NEW.day;
        UPDATE runs SET cost = cost + NEW.cost - OLD.cost WHERE name = NEW.run_id;
    END
    """,
)
_POSTGRESQL: Final = (
    *OWNERS,
    """
    CREATE OR REPLACE FUNCTION add_entries() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
    BEGIN
        INSERT INTO days SELECT day, sum(cost) FROM new_rows GROUP BY day
        ON CONFLICT (name) DO UPDATE SET cost = days.cost + excluded.cost;
        INSERT INTO runs SELECT run_id, sum(cost) FROM new_rows GROUP BY run_id
        ON CONFLICT (name) DO UPDATE SET cost = runs.cost + excluded.cost;
        RETURN NULL;
    END $$
    """,
    """
    CREATE OR REPLACE FUNCTION close_entries() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
    BEGIN
        UPDATE days SET cost = days.cost + change.cost
        FROM (
            SELECT day, sum(new_rows.cost - old_rows.cost) AS cost
            FROM new_rows JOIN old_rows USING (id, day)
            GROUP BY day
        ) AS change
        WHERE name = change.day AND change.cost <> 0;
        UPDATE runs SET cost = runs.cost + change.cost
        FROM (
            SELECT run_id, sum(new_rows.cost - old_rows.cost) AS cost
            FROM new_rows JOIN old_rows USING (id, run_id)
            GROUP BY run_id
        ) AS change
        WHERE name = change.run_id AND change.cost <> 0;
        RETURN NULL;
    END $$
    """,
    """
    CREATE OR REPLACE TRIGGER entries_added AFTER INSERT ON entries
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION add_entries()
    """,
    """
    CREATE OR REPLACE TRIGGER entries_closed AFTER UPDATE ON entries
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION close_entries()
    """,
)
SCHEMAS: Final[dict[DatabaseKind, tuple[str, ...]]] = {
    "sqlite": (*_TABLES, *_SQLITE),
    "postgresql": (*_TABLES, *_POSTGRESQL),
}
END_CLAIMS: Final = "UPDATE entries SET answer = NULL, owner = NULL WHERE answer IS NOT NULL AND owner = ?"
MARK_BROKEN: Final = """
    UPDATE entries
    SET problem = ?, answer = NULL, owner = NULL
    WHERE id = ? AND state = 'reserved'
"""
SET_ACCOUNT: Final = """
    INSERT INTO account VALUES (1, ?, ?) ON CONFLICT (one) DO UPDATE SET salt = excluded.salt, mark = excluded.mark
"""
SET_BALANCE: Final = """
    INSERT INTO balance VALUES (1, ?, ?) ON CONFLICT (one) DO UPDATE SET credits = excluded.credits, at = excluded.at
"""
SET_NEWEST: Final = "UPDATE balance_order SET newest = ?"
SET_CLOSED: Final = """
    INSERT INTO balance_order (one, closed) VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET closed = excluded.closed
"""
SET_ALONE: Final = "UPDATE balance_order SET alone = ?, period = ?, credits = ?, settled = ?"
RELEASE_RESETS: Final = """
    UPDATE entries
    SET state = 'released', cost = 0
    WHERE state = 'reserved' AND problem = 'reset' AND id > ? AND id < ?
"""
UNCHARGED: Final = """
    SELECT coalesce(sum(expected - cost), 0)
    FROM (SELECT state, cost, expected FROM entries WHERE id <= ? AND day >= ? ORDER BY id DESC LIMIT ?) AS late
    WHERE state <> 'reserved' AND expected > cost
"""
"""SQL query of the hundredths of a credit that the last calls before a balance might have cost and did not."""
SET_FIRST_BALANCE: Final = """
    INSERT INTO first_balances VALUES (?, ?, ?)
    ON CONFLICT (period) DO UPDATE SET credits = excluded.credits, settled = excluded.settled
"""
SET_QUEUE: Final = """
    INSERT INTO rate_queue VALUES (1, ?, ?)
    ON CONFLICT (one) DO UPDATE SET asked_at = excluded.asked_at, free_at = excluded.free_at
"""
SUMS: Final = (
    "CAST(coalesce(sum(cost) FILTER (WHERE state = 'settled'), 0) AS BIGINT), "
    "CAST(coalesce(sum(cost) FILTER (WHERE state = 'reserved'), 0) AS BIGINT)"
)
"""Columns of a query of entries: settled and reserved hundredths of a credit."""
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
SPENDING: Final = f"""
    SELECT
        run_id, endpoint, subject,
        count(*) FILTER (WHERE state = 'settled'),
        count(*) FILTER (WHERE state = 'reserved'),
        count(*) FILTER (WHERE state = 'released'),
        count(problem),
        CAST(sum(expected) AS BIGINT),
        {SUMS}
    FROM entries
    WHERE day = ?
    GROUP BY run_id, endpoint, subject
    ORDER BY run_id, endpoint, subject
"""
"""SQL query of the calls of a day, a row for each run, endpoint and subject.

After these three: the numbers of calls that were charged, may have been charged, were not charged, and had unusable
answers; then hundredths of a credit: expected by the price list, charged, and perhaps charged.
"""


@dataclass(frozen=True)
class Batch:
    """SQL statements about many ledger entries. Their one parameter is a JSON text of rows (see ``given_rows``)."""

    restore: str
    copy: str
    still_reserved: str
    claimed: str
    close: str
    add: str


def _batch(kind: DatabaseKind) -> Batch:
    lost_rows = given_rows(kind, run_id="TEXT", endpoint="TEXT", subject="TEXT", day="TEXT", cost="INTEGER")
    copied = given_rows(
        kind,
        run_id="TEXT",
        endpoint="TEXT",
        subject="TEXT",
        day="TEXT",
        state="TEXT",
        cost="INTEGER",
        problem="TEXT",
        expected="INTEGER",
    )
    closed = given_rows(kind, id="INTEGER", state="TEXT", cost="INTEGER", problem="TEXT")
    added_rows = given_rows(
        kind,
        run_id="TEXT",
        endpoint="TEXT",
        subject="TEXT",
        day="TEXT",
        cost="INTEGER",
        answer="TEXT",
        owner="TEXT",
    )
    return Batch(
        restore=f"""
            INSERT INTO entries (run_id, endpoint, subject, day, state, cost, expected)
            SELECT run_id, endpoint, subject, day, 'settled', cost, cost FROM {lost_rows} AS lost ORDER BY place
        """,
        copy=f"""
            INSERT INTO entries (run_id, endpoint, subject, day, state, cost, problem, expected)
            SELECT run_id, endpoint, subject, day, state, cost, problem, expected FROM {copied} AS copied
            ORDER BY place
        """,
        still_reserved=f"""
            SELECT id FROM entries
            WHERE state = 'reserved' AND id IN (SELECT id FROM {given_rows(kind, id="INTEGER")} AS wanted)
        """,
        claimed=f"""
            SELECT answer, owner FROM entries
            WHERE answer IS NOT NULL AND answer IN (SELECT answer FROM {given_rows(kind, answer="TEXT")} AS wanted)
        """,
        close=f"""
            UPDATE entries
            SET state = closed.state, cost = closed.cost, problem = closed.problem, answer = NULL, owner = NULL
            FROM {closed} AS closed
            WHERE entries.id = closed.id
        """,
        add=f"""
            INSERT INTO entries (run_id, endpoint, subject, day, state, cost, expected, answer, owner)
            SELECT run_id, endpoint, subject, day, 'reserved', cost, cost, answer, owner FROM {added_rows} AS added
            ORDER BY place
        """,
    )


BATCHES: Final[dict[DatabaseKind, Batch]] = {"sqlite": _batch("sqlite"), "postgresql": _batch("postgresql")}
