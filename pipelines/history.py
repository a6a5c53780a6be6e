"""Makes Dagster's history quick to write: a run over years of partitions tells it tens of thousands of events.

Each event is a transaction or two in SQLite, with connections of their own: every commit waits for the disk, and every
last connection that closes tidies the file up. Here a file is held open while the process writes to it, and commits
wait for the disk only when SQLite tidies up: after a power cut, the last events of a run may be missing from the UI.
Credits, lake and archive have stores of their own, which forget nothing.
"""

from __future__ import annotations

import atexit
import os
import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

_held: dict[str, sqlite3.Connection] = {}


def quicken() -> None:
    """From now on, files of Dagster's home are written as told above, in this process."""
    if not event.contains(Engine, "connect", _opened):
        event.listen(Engine, "connect", _opened)
        atexit.register(let_go)


def let_go() -> None:
    """Closes what is held open."""
    while _held:
        _held.popitem()[1].close()


def _opened(connection: Any, record: Any) -> None:
    home = os.environ.get("DAGSTER_HOME")
    if not isinstance(connection, sqlite3.Connection) or not home:
        return
    path = connection.execute("PRAGMA database_list").fetchone()[2]
    if not path or not Path(path).is_relative_to(Path(home).resolve()):
        return
    connection.execute("PRAGMA synchronous = NORMAL")
    if path not in _held:
        _held[path] = sqlite3.connect(path, check_same_thread=False)
        _held[path].execute("SELECT 1 FROM sqlite_master").fetchone()  # it is opened when it is first read
