"""State of the pipeline: a SQLite file of the home, or PostgreSQL for several hosts. Both run the same SQL."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from holderlake.core.storage.postgresql import NOW, Connection, Postgres, PostgresDatabase
from holderlake.core.storage.sqlite import BUSY_SECONDS, Database

DatabaseKind = Literal["sqlite", "postgresql"]
Column = Literal["INTEGER", "TEXT"]
Where: TypeAlias = Path | Postgres
"""The path of a SQLite file, or a place in PostgreSQL."""
State: TypeAlias = Database | PostgresDatabase
StateConnection: TypeAlias = sqlite3.Connection | Connection


def open_state(
    place: Where,
    schema: Sequence[str],
    synchronous: Literal["FULL", "NORMAL"],
    remedy: str = "move it away",
    version: int | None = None,
    busy_seconds: float = BUSY_SECONDS,
) -> State:
    """Open the database, and create its tables. ``synchronous`` and ``remedy`` are for SQLite (see ``Database``)."""
    if isinstance(place, Postgres):
        return PostgresDatabase(place, schema, version, busy_seconds)
    return Database(place, schema, synchronous, remedy, version, busy_seconds)


def kind_of(place: Where) -> DatabaseKind:
    """Return the kind of database at a place."""
    return "postgresql" if isinstance(place, Postgres) else "sqlite"


def inserted(db: StateConnection, sql: str, values: Sequence[Any]) -> Sequence[int]:
    """Run an insert into a table with a generated ``id``, and return the new ids in rising order."""
    if isinstance(db, Connection):
        return sorted(row[0] for row in db.execute(f"{sql} RETURNING id", values).fetchall())
    cursor = db.execute(sql, values)
    last_id = cursor.lastrowid or 0
    return range(last_id - cursor.rowcount + 1, last_id + 1)  # without RETURNING, which SQLite has since version 3.35


def unix_now(db: StateConnection) -> float:
    """Return the time in unix seconds: of this host for SQLite, of the server for PostgreSQL."""
    return float(db.execute(f"SELECT {NOW}").fetchall()[0][0]) if isinstance(db, Connection) else time.time()


def given_rows(kind: DatabaseKind, **columns: Column) -> str:
    """Return a subquery in SQL whose rows come from one parameter: a JSON list with a list of values for each row.

    Its columns are ``columns`` (name and type) and ``place``, an integer that rises with the row's position in the
    list. So the text of a statement does not depend on the number of rows.
    """
    if kind == "sqlite":
        values = ", ".join(f"json_extract(value, '$[{place}]') AS {name}" for place, name in enumerate(columns))
        return f"(SELECT key AS place, {values} FROM json_each(?))"
    values = ", ".join(
        f"CAST(value ->> {place} AS {'BIGINT' if column == 'INTEGER' else 'TEXT'}) AS {name}"
        for place, (name, column) in enumerate(columns.items())
    )
    return f"(SELECT place, {values} FROM json_array_elements(CAST(? AS json)) WITH ORDINALITY AS each (value, place))"
