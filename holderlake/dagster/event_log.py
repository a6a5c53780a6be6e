"""Makes Dagster's history quick to write: a run over years of partitions tells it tens of thousands of events.

Each event is a transaction or two in SQLite, with connections of their own: every one of them reads the schema anew,
every commit waits for the disk, and every last connection that closes tidies the file up. Here connections are kept
while the process writes, and commits wait for the disk only when SQLite tidies up: after a power cut, the last events
of a run may be missing from the UI. Credits, lake and archive have stores of their own, which forget nothing.
"""

from __future__ import annotations

import atexit
import os
import sqlite3
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._serdes import ConfigurableClassData
from sqlalchemy import Connection, Engine, StaticPool, create_engine, event

_MOST_FILES: Final = 16
"""Held open at once; Dagster keeps a file a run beside the index."""
_BUSY_SECONDS: Final = 60

_held: dict[str, sqlite3.Connection] = {}


class QuickEventLog(SqliteEventLogStorage):
    """Dagster's own log of events in its own files, on connections that are kept. ``dagster.yaml`` names it."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._engines: OrderedDict[str, Engine] = OrderedDict()
        self._tables: set[str] = set()
        super().__init__(base_dir, inst_data)

    @classmethod
    def config_type(cls) -> Any:
        return {}

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> QuickEventLog:
        return cls(str(Path(os.environ["DAGSTER_HOME"]) / "history" / "runs"), inst_data)

    def has_table(self, table_name: str) -> bool:
        """Asked with each event; a table that is there stays."""
        if table_name not in self._tables and super().has_table(table_name):
            self._tables.add(table_name)
        return table_name in self._tables

    def dispose(self) -> None:
        super().dispose()
        with self._db_lock:
            while self._engines:
                self._engines.popitem()[1].dispose()

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        """As Dagster's own, which makes an engine and a connection for each event. The lock keeps threads apart."""
        with self._db_lock:
            engine = self._engine(shard)
            if shard not in self._initialized_dbs:
                self._initdb(engine)
                self._initialized_dbs.add(shard)
            with engine.begin() as connection:
                yield connection

    def _engine(self, shard: str) -> Engine:
        if shard not in self._engines:
            arguments = {"timeout": _BUSY_SECONDS, "check_same_thread": False}
            self._engines[shard] = create_engine(
                self.conn_string_for_shard(shard), poolclass=StaticPool, connect_args=arguments
            )
            if len(self._engines) > _MOST_FILES:
                self._engines.popitem(last=False)[1].dispose()
        self._engines.move_to_end(shard)
        return self._engines[shard]


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
