"""A faster event log for Dagster on SQLite, which the commands use for runs over many partitions.

Dagster opens several connections for each event and waits for the disk after each. Here connections stay open, and a
commit waits for the disk only when SQLite moves its log into the database: after a power cut, the last events may be
missing from the UI. Files and tables are Dagster's own, so its standard event log reads them.

Dagster writes each event of an asset twice: to the run's file and to the index of all runs. Here a run's file gets only
the first materialisation of each table, and only the first partition of each table is logged as planned. The UI's pages
of assets and partitions read the index, which has each materialisation. A repeated event is stored without the fields
that are the same for the complete step, and together with others in one transaction.

The class overrides private methods of Dagster. So Dagster's own processes (webserver, daemon, code server) load it only
if ``dagster.yaml`` names it. Measurements are in docs/decisions/0009-dagster-event-log.md.
"""

from __future__ import annotations

import json
import sqlite3
from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from dagster import DagsterEventType, EventLogEntry
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._serdes import ConfigurableClassData, serialize_value
from sqlalchemy import Connection, Engine, StaticPool, create_engine, event

_MOST_ENGINES: Final = 16
"""Most database files that are open at a time. Dagster has one file for each run, and an index."""
_MOST_WAITING: Final = 256
"""Most materialisations that wait to be stored together. A kill loses them; the next run of a command logs them."""
_PAGE_BYTES: Final = 16_384
"""Size of a page of a new index. With SQLite's 4,096, most pages would hold one event, and be half empty."""
_INDEX: Final = "index.db"
_BY_PARTITION: Final = (DagsterEventType.ASSET_MATERIALIZATION, DagsterEventType.ASSET_MATERIALIZATION_PLANNED)
_BUSY_SECONDS: Final = 60
_OF_STEP: Final = {"step_handle", "solid_handle", "step_kind_value", "logging_tags", "message", "pid"}
"""Fields of an event, as JSON names them, that are the same in all events of a table and step."""
_DESCRIBED: Final = "AssetMaterialization", "EventMetadataEntry"


class FastEventLogStorage(SqliteEventLogStorage):
    """Dagster's event log on SQLite with connections that stay open."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._engines: dict[str, Engine] = {}
        self._tables: set[str] = set()
        self._logged: set[tuple[str, str, str]] = set()
        self._waiting: deque[EventLogEntry] = deque()
        self._has_index_columns: bool | None = None
        index = Path(base_dir, _INDEX)
        is_new = not index.exists()
        super().__init__(base_dir, inst_data)
        if is_new:
            self.dispose()
            _enlarge_pages(index)

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Any) -> FastEventLogStorage:
        return cls(inst_data=inst_data, **config_value)

    def has_table(self, table_name: str) -> bool:
        """Return whether the database has a table. Dagster calls this for each event, so the answer is cached."""
        if table_name not in self._tables and super().has_table(table_name):
            self._tables.add(table_name)
        return table_name in self._tables

    def _has_asset_key_index_cols_on_connection(self, conn: Connection) -> bool:
        """Return whether the table of assets has all columns. Dagster reads its columns for each event."""
        if self._has_index_columns is None:
            self._has_index_columns = super()._has_asset_key_index_cols_on_connection(conn)
        return self._has_index_columns

    def store_event(self, event: EventLogEntry) -> None:
        """Store an event of a run.

        If the run stores events of one type for several partitions of a table, the first is stored completely. Of the
        next ones, materialisations are stored only in the index of all runs, and other events are dropped. They are
        stored together, at the latest before this process reads or stores anything else.
        """
        if not self._is_repeated(event):
            super().store_event(event)
        elif event.dagster_event_type == DagsterEventType.ASSET_MATERIALIZATION:
            self._waiting.append(event)
            if len(self._waiting) >= _MOST_WAITING:
                self._store_waiting()

    def _store_waiting(self) -> None:
        """Store the materialisations that wait, in one transaction of the index."""
        events = [self._waiting.popleft() for _ in range(len(self._waiting))]
        if not events:
            return
        with self.index_transaction() as connection:
            ids = [self._insert(connection, event) for event in events]
            self._store_asset_event_tags(connection, events, ids)
            newest = {event.get_dagster_event().asset_key: place for place, event in enumerate(events)}
            for place in newest.values():
                self._store_asset_event(connection, events[place], ids[place])

    def _insert(self, connection: Connection, event: EventLogEntry) -> int:
        """Insert an event into the index, and return its id."""
        inserted: Any = connection.execute(self.prepare_insert_event(event).values(event=_compact(event)))
        return int(inserted.inserted_primary_key[0])

    def _is_repeated(self, event: EventLogEntry) -> bool:
        """Return whether the run has stored an event of the same type and table before, for another partition."""
        content = event.dagster_event
        if content is None or content.event_type not in _BY_PARTITION or not (content.asset_key and content.partition):
            return False
        event_key = (event.run_id, content.event_type_value, content.asset_key.to_string())
        is_repeated = event_key in self._logged
        self._logged.add(event_key)
        return is_repeated

    def dispose(self) -> None:
        self._store_waiting()
        super().dispose()
        with self._db_lock:
            while self._engines:
                self._engines.popitem()[1].dispose()

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        self._store_waiting()
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


def _compact(event: EventLogEntry) -> str:
    """Return an event as Dagster's JSON, without spaces, empty descriptions and the fields that describe its step.

    The omitted text is a third of the JSON, and the step's first event has the omitted fields.
    """
    return json.dumps(json.loads(serialize_value(event), object_hook=_shorten), separators=(",", ":"))


def _shorten(packed: dict[str, Any]) -> dict[str, Any]:
    """Return a decoded JSON object of Dagster without its description, if that is empty.

    If the object is an event, the fields that describe its step are left out too.
    """
    kind = packed.get("__class__")
    if kind == "DagsterEvent":
        return {name: value for name, value in packed.items() if name not in _OF_STEP}
    if kind in _DESCRIBED and packed["description"] is None:
        del packed["description"]
    return packed


def _enlarge_pages(path: Path) -> None:
    """Set the page size of a new, empty index. Do nothing if another process has the index open."""
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"PRAGMA journal_mode = DELETE; PRAGMA page_size = {_PAGE_BYTES}; VACUUM")
        connection.execute("PRAGMA journal_mode = WAL")
