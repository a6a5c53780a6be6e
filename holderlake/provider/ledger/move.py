"""Copy of a home's SQLite ledger to the shared ledger in PostgreSQL, after ``state.url`` was set."""

from __future__ import annotations

import logging
import secrets
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from holderlake.provider.ledger.ledger import CreditLedger
from holderlake.provider.ledger.statements import FORMAT, SCHEMAS
from holderlake.storage.sqlite import Database

_log = logging.getLogger(__name__)
_MARK: Final = "CREATE TABLE IF NOT EXISTS home (one INTEGER PRIMARY KEY CHECK (one = 1), name TEXT NOT NULL)"
_ENTRIES: Final = "SELECT run_id, endpoint, subject, day, state, cost, problem, expected FROM entries ORDER BY id"


def copy_home(ledger: CreditLedger, path: Path) -> None:
    """Add the calls of the SQLite ledger at ``path`` to the shared ledger, once. The file keeps them."""
    if not path.exists():
        return
    with closing(Database(path, SCHEMAS["sqlite"], "FULL", version=FORMAT)) as home:
        name = home.run(_name)
        if not ledger.knows_home(name) and ledger.add_home(name, home.rows(_ENTRIES)):
            _log.warning("the calls in %s were copied to %s, which now counts all calls of this home", path, ledger)


def _name(db: sqlite3.Connection) -> str:
    """Return the random name of the home, by which the shared ledger knows that it was copied."""
    db.execute(_MARK)
    db.execute("INSERT OR IGNORE INTO home VALUES (1, ?)", (secrets.token_hex(16),))
    return str(db.execute("SELECT name FROM home").fetchone()[0])
