"""A faster event log for Dagster on SQLite, which the commands use for runs over many partitions.

Dagster opens several connections for each event and waits for the disk after each. Here connections stay open, and a
commit waits for the disk only when SQLite moves its log into the database: after a power cut, the last events may be
missing from the UI. Files and tables are Dagster's own, so its standard event log reads them.

It overrides private methods of Dagster, so no process of Dagster loads it (webserver, daemon, code server) unless
``dagster.yaml`` names it. Measurements are in docs/decisions/0009-dagster-event-log.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._serdes import ConfigurableClassData
from sqlalchemy import Connection, Engine, StaticPool, create_engine, event

_MOST_ENGINES: Final = 16
"""Most database files that are open at once. Dagster has one file per run, and an index."""
_BUSY_SECONDS: Final = 60


class FastEventLogStorage(SqliteEventLogStorage):
    """Dagster's event log on SQLite with connections that stay open."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._engines: dict[str, Engine] = {}
        self._tables: set[str] = set()
        super().__init__(base_dir, inst_data)

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Any) -> FastEventLogStorage:
        return cls(inst_data=inst_data, **config_value)

    def has_table(self, table_name: str) -> bool:
        """Return whether the database has a table. Dagster calls this for each event, so the answer is cached."""
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
            engine = create_engine(self.conn_string_for_shard(shard), poolclass=StaticPool, connect_args=arguments)
            event.listen(engine, "connect", _commit_without_waiting)
            if len(self._engines) == _MOST_ENGINES:
                self._engines.pop(next(iter(self._engines))).dispose()  # the one that is unused for longest
            self._engines[shard] = engine
        self._engines[shard] = engine = self._engines.pop(shard)
        return engine


def _commit_without_waiting(connection: Any, record: Any) -> None:
    connection.execute("PRAGMA synchronous = NORMAL")
