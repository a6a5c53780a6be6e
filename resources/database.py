"""A SQLite file that many threads and processes of a host write to, one short transaction at a time."""

from __future__ import annotations

import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

_BUSY_SECONDS: Final = 30.0


class Database:
    """The file at ``path``, made with the statements of ``schema``, which change nothing where all is there already.

    With ``FULL`` each commit survives a power cut; with ``NORMAL`` the last ones may be undone by it, in one piece.
    """

    def __init__(self, path: Path, schema: Sequence[str], synchronous: Literal["FULL", "NORMAL"]) -> None:
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self._db.close)  # who does not close it leaves nothing open all the same
        _use_write_ahead_log(self._db)
        self._db.execute(f"PRAGMA synchronous = {synchronous}")
        with self.transaction() as db:
            for statement in schema:
                db.execute(statement)

    @contextmanager
    def transaction(self, *, write: bool = True) -> Iterator[sqlite3.Connection]:
        """One that writes takes the lock at once: two that read first and write then could both find room for one."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The answer to one query."""
        with self._lock:
            return self._db.execute(query, values).fetchall()

    def close(self) -> None:
        """Closes the file; it can't be used any more."""
        with self._lock:
            self._db.close()


def _use_write_ahead_log(db: sqlite3.Connection) -> None:
    """Sets the mode, which stays with the file. While others make the same new file, SQLite refuses without waiting."""
    give_up_at = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > give_up_at:
                raise
            time.sleep(0.01)
