"""SQL of the credit ledger: tables, triggers, and statements that write many entries at once."""

from __future__ import annotations

from typing import Final

FORMAT: Final = 1
"""Format of the ledger's file."""
RESTORE: Final = """
    INSERT INTO entries (run_id, endpoint, subject, day, state, cost) VALUES (?, ?, ?, ?, 'settled', ?)
"""
SCHEMA: Final = (
    """
    CREATE TABLE IF NOT EXISTS entries (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        run_id TEXT NOT NULL,
        endpoint TEXT NOT NULL,
        subject TEXT,
        day TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('reserved', 'settled', 'released')),
        cost INTEGER NOT NULL CHECK (cost >= 0)
    )
    """,
    "CREATE INDEX IF NOT EXISTS entries_by_day ON entries (day)",
    "CREATE INDEX IF NOT EXISTS entries_reserved ON entries (state) WHERE state = 'reserved'",
    # Sums for the ceilings, updated by triggers: to add a month of entries before each call would be slow.
    "CREATE TABLE IF NOT EXISTS days (name TEXT PRIMARY KEY, cost INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS runs (name TEXT PRIMARY KEY, cost INTEGER NOT NULL) WITHOUT ROWID",
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
    "CREATE TABLE IF NOT EXISTS told (one INTEGER PRIMARY KEY CHECK (one = 1), credits INTEGER, at TEXT)",
    # The first balance of a period, and the sum settled by then: later balances are compared with it.
    "CREATE TABLE IF NOT EXISTS told_first (period TEXT PRIMARY KEY, credits INTEGER, settled INTEGER) WITHOUT ROWID",
    # Whose balance it is: a keyed hash of provider and API key, from which the key cannot be computed.
    "CREATE TABLE IF NOT EXISTS account (one INTEGER PRIMARY KEY CHECK (one = 1), salt TEXT, mark TEXT)",
    "CREATE TABLE IF NOT EXISTS turns (one INTEGER PRIMARY KEY CHECK (one = 1), asked_at REAL, free_at REAL)",
)
STILL_RESERVED: Final = """
    SELECT json_group_array(id)
    FROM entries
    WHERE state = 'reserved' AND id IN (SELECT value FROM json_each(?))
"""
CLAIMED: Final = """
    SELECT answer, owner
    FROM entries
    WHERE answer IS NOT NULL AND answer IN (SELECT value FROM json_each(?))
"""
END_CLAIMS: Final = "UPDATE entries SET answer = NULL, owner = NULL WHERE answer IS NOT NULL AND owner = ?"
MARK_BROKEN: Final = """
    UPDATE entries
    SET problem = ?, answer = NULL, owner = NULL
    WHERE id = ? AND state = 'reserved'
"""
CLOSE: Final = """
    UPDATE entries
    SET state = closed.state, cost = closed.cost, problem = closed.problem, answer = NULL, owner = NULL
    FROM (
        SELECT json_extract(value, '$[0]') AS id, json_extract(value, '$[1]') AS state,
            json_extract(value, '$[2]') AS cost, json_extract(value, '$[3]') AS problem
        FROM json_each(?)
    ) AS closed
    WHERE entries.id = closed.id
"""
ADD: Final = """
    INSERT INTO entries (run_id, endpoint, subject, day, state, cost, answer, owner)
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
        json_extract(value, '$[3]'), 'reserved', json_extract(value, '$[4]'), json_extract(value, '$[5]'),
        json_extract(value, '$[6]')
    FROM json_each(?)
    ORDER BY key
"""
"""Insert reserved entries. Within a transaction their ids are consecutive."""
