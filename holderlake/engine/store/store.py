"""The store: complete transfers on disk, the arrays derived from them, and a SQLite catalogue.

Transfers are stored unchanged as Parquet, and as arrays from which results are computed. A new file belongs to the
store once the catalogue lists it. An import is one transaction, so a reader sees all of it or nothing. A reader keeps
the files that were listed when it started. ``importing`` turns rows into files; ``queries`` and ``maps`` compute
balances and relationships.
"""

from __future__ import annotations

import copy
import sqlite3
import threading
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from holderlake.core.contract.chains import NATIVE
from holderlake.core.contract.rules import Rules
from holderlake.core.units import parse_memory_limit
from holderlake.engine.catalog import catalog as catalogue
from holderlake.engine.catalog import indexed_tokens, tokens
from holderlake.engine.catalog.catalog import EMPTY
from holderlake.engine.catalog.changelog import EVERY_PAST, ChangeLog, note_change
from holderlake.engine.catalog.opening_balances import balances_by_token, new_balances
from holderlake.engine.catalog.rules import open_rules
from holderlake.engine.errors import BadSource, DamagedFile, EngineError
from holderlake.engine.files.disk_errors import disk_failures
from holderlake.engine.files.integrity import FileChecks, read_sums
from holderlake.engine.files.listing import CORRECTION, History, Listing, OpenFiles, PartFile, View, history_of
from holderlake.engine.importing.built import BuiltFiles
from holderlake.engine.importing.change import Change
from holderlake.engine.importing.paths import FOLDERS, ImportFolder, remove_killed_imports
from holderlake.engine.importing.rows import write_rows
from holderlake.engine.importing.sort import TokenRows
from holderlake.engine.numeric.bigint import Array
from holderlake.engine.records import TRANSFERS, ImportReport, Key
from holderlake.engine.store.metadata import Metadata
from holderlake.engine.store.unlisted import refuse_unlisted_transfers, tidy

T = TypeVar("T")


class Store(Metadata):
    """The store in a folder, which is made if it is missing. Many threads can read at once. An import waits until
    another one ends.

    - ``rules``: thresholds of classification, which are then stored; None uses the stored ones. ``changed_rules`` has
      the rules that differ from the stored ones: (old value, new value) by name.
    - ``memory_limit`` (for example ``2GB``): the memory that an import should use. Larger data are written to temporary
      files in the folder.
    - ``index``: the tokens (chain, address) that the settings mark as indexed; None keeps those of the last opening.
    - ``refuse_unlisted``: pass False to repair a store with files of transfers that the catalogue does not list.

    Raises ``BadSource`` for a store of another format, and ``UnusableStore`` if the store can't be read or written.
    """

    def __init__(
        self,
        root: Path,
        rules: Rules | None = None,
        memory_limit: str = "2GB",
        index: Collection[Key] | None = None,
        refuse_unlisted: bool = True,
    ) -> None:
        self.root = root
        self._refuses_unlisted = refuse_unlisted
        self._memory = parse_memory_limit(memory_limit)
        with disk_failures(root):
            for folder in FOLDERS:
                (root / folder).mkdir(parents=True, exist_ok=True)
        self._duckdb = DuckDB(root, self._memory)
        self._checks = FileChecks(root)
        self._files = OpenFiles(root, self._checks)
        self._pinned: tuple[int, View] | None = None
        self._latest: tuple[Listing, View] | None = None
        super().__init__(root, ChangeLog(self._prepared_catalog(), root))
        with self._catalog() as catalog:
            opened = open_rules(catalog, rules)
            if index is not None:
                indexed_tokens.replace_marks(catalog, index, indexed_tokens.SETTINGS)
        self.rules, self.changed_rules = opened.rules, opened.changed

    def close(self) -> None:
        """Close the connections to DuckDB and to the catalogue."""
        self._changes.close()
        self._duckdb.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _prepared_catalog(self) -> sqlite3.Connection:
        connection = catalogue.connect(self.root)
        try:
            catalogue.prepare(connection, self.root)
            self._refuse_unlisted(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    # ------------------------------------------------------------------ writing

    def add_transfers(self, transfers: pa.Table | pa.RecordBatchReader, source: str) -> ImportReport:
        """Import transfers (schema ``records.TRANSFERS``), all or none. Stored transfers are skipped.

        ``source`` is the name in the report. If ``transfers`` is a reader, its rows are never all in memory. A token
        without metadata gets assumed metadata: 18 decimals for ERC-20, 0 for NFTs, and the chain's decimals for its own
        coin.
        """
        missing = [name for name in TRANSFERS.names if name not in transfers.schema.names]
        if missing:
            raise KeyError(f"transfers have no column {', '.join(missing)}; give all columns of records.TRANSFERS")
        with self.change() as (catalog, change):
            new_contracts: list[str] = []

            def assume(rows: TokenRows) -> None:
                is_new = tokens.assume_token(catalog, rows.chain, rows.address, rows.standard)
                if is_new and rows.address != NATIVE:
                    new_contracts.append(rows.address)

            counts = change.add_transfers(transfers, assume)
            # the address of a contract is no longer a wallet on any map
            first_times = [EVERY_PAST] if change.had_addresses(new_contracts) else []
            if first_times or counts.first_times:
                change.finish()
                note_change(catalog, min([*first_times, *counts.first_times]))
        return ImportReport(
            source,
            counts.rows,
            counts.new_count,
            counts.duplicate,
            counts.conflict,
            tuple(sorted(counts.touched)),
            counts.replaced,
            tuple(counts.undecided),
        )

    def add_built(self, built: BuiltFiles) -> None:
        """Add the files that several machines have built (``importing.built``), all or none, to a store without
        transfers.

        Raises ``BadSource`` if the store has transfers.
        """
        with self.change() as (catalog, change):
            self.refuse_transfers(change.listing)
            try:
                change.add_built(built)
                for key, standard in built.standards.items():
                    tokens.assume_token(catalog, *key, standard)
                note_change(catalog, EVERY_PAST)
            except BaseException:  # else they are removed, like the files of other imports that fail
                built.take_back(self.root)
                raise

    def refuse_transfers(self, listing: Listing | None = None) -> None:
        """Raise ``BadSource`` if the store has files of transfers, or ``listing`` lists some."""
        if (listing or self._listing()).volumes:
            raise BadSource(
                f"{self.root} has transfers already; set engine.store to a new folder, or add the files with "
                "'holderlake import files'"
            )

    def add_opening_balances(self, balances: pa.Table) -> ImportReport:
        """Store opening balances: what addresses hold before the first stored transfer of a token.

        The schema is ``opening_balances.OPENING_BALANCES``. With opening balances, holders and supply are exact from
        their ``block_time`` on, although earlier transfers are missing. Opening balances are not transfers: they add no
        relationships, no age and no counts. Stored balances (same chain, token, address and token id) are skipped.

        Raises ``BadSource`` if balances contradict each other or stored ones. Raises ``BadSource`` if the store has
        transfers of the token at or before the time of the balances.
        """
        with self.change() as (catalog, change):
            additions = []
            for key, rows in balances_by_token(balances):
                addition = new_balances(key, rows, change.opening_rows(key))
                additions.append(addition)
                if addition.balances.num_rows:
                    tokens.assume_token(catalog, *key, addition.balances["token_standard"][0].as_py())
                    change.add_openings(key, addition.balances)
            added_rows = sum(addition.balances.num_rows for addition in additions)
            if added_rows:
                change.finish()
                note_change(catalog, EVERY_PAST)
        names = sorted(f"{chain}/{address}" for chain, address in (addition.key for addition in additions))
        return ImportReport(
            "opening balances",
            balances.num_rows,
            added_rows,
            sum(addition.duplicates for addition in additions),
            0,
            tuple(names),
        )

    def remove_opening_balances(self, chain: str, token_address: str) -> int:
        """Remove all opening balances of a token. Return the number of removed balances."""
        with self.change() as (catalog, change):
            removed = change.remove_openings((chain, token_address))
            if removed:
                change.finish()
                note_change(catalog, EVERY_PAST)
        return removed

    def corrections(self, chain: str, token_address: str) -> pa.Table:
        """Return the corrections of a token (``catalog.corrections``) in the schema ``TRANSFERS``, by time."""
        listing = self.view().listing
        paths = [part.paths[0] for part in listing.parts_of((chain, token_address)) if part.kind == CORRECTION]
        tables = [pq.read_table(self._checks.path(path, listing.sums)).cast(TRANSFERS) for path in paths]
        return pa.concat_tables([TRANSFERS.empty_table(), *tables])

    def replace_corrections(self, key: Key, block: int, rows: pa.Table, basis: Sequence[PartFile]) -> None:
        """Replace the corrections of a token from a block on by ``rows`` (schema ``TRANSFERS``, by time).

        ``basis`` are the token's parts from which the corrections were computed. Raises ``BadSource`` if they changed
        meanwhile.
        """
        with self.change() as (catalog, change):
            if list(change.listing.parts_of(key)) != list(basis):
                raise BadSource(f"{key[1]} on {key[0]} was changed while its balances were read; read them again")
            change.replace_corrections(key, block, rows)
            change.finish()
            note_change(catalog, rows["block_time"][0].as_py())

    def roll_back(self, chain: str, after_block: int) -> int:
        """Remove the chain's transfers, opening balances and corrections of blocks after ``after_block``, all or none.

        Return the number of removed rows. Call this method after a reorganisation, before you import the chain's new
        blocks.
        """
        with self.change() as (catalog, change):
            rows, first_time = change.roll_back(chain, after_block)
            if first_time is not None:
                change.finish()
                note_change(catalog, first_time)
        return rows

    @contextmanager
    def change(self) -> Iterator[tuple[sqlite3.Connection, Change]]:
        """Context manager of a transaction that changes the stored files, all or none.

        Yield the catalogue's connection and the ``Change``.
        """
        with disk_failures(self.root), ImportFolder(self.root).opened() as folder:
            try:
                with self._catalog() as catalog:
                    catalog.execute("BEGIN IMMEDIATE")
                    self._refuse_unlisted(catalog)
                    change = Change(folder, catalog, self._duckdb.cursor, self._checks, self._memory)
                    remove_killed_imports(self.root, change.listing.sums, folder)
                    if self._refuses_unlisted:
                        tidy(catalog, self.root, change.listing.sums)
                    yield catalog, change
            except BaseException:
                with suppress(EngineError, OSError), self._catalog() as catalog:  # else the next import removes them
                    folder.remove_files(read_sums(catalog))
                raise

    def _refuse_unlisted(self, catalog: sqlite3.Connection) -> None:
        if self._refuses_unlisted:
            refuse_unlisted_transfers(catalog, self.root)

    # ------------------------------------------------------------------ reading

    def query(
        self, sql: str, parameters: Mapping[str, Any] | None = None, tables: Mapping[str, pa.Table] | None = None
    ) -> pa.Table:
        """Run SQL in a new cursor. ``tables`` are Arrow tables by the name that the SQL uses.

        ``$files`` in the SQL means the Parquet files of all stored transfers, unless ``parameters`` has ``files``.
        """
        bound = dict(parameters or {})
        if "$files" in sql and "files" not in bound:
            bound["files"] = self.files()
        with self._duckdb.cursor() as cursor:
            for name, table in (tables or {}).items():
                cursor.register(name, table)
            return cursor.sql(sql, params=bound or None).to_arrow_table()

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Return a DuckDB cursor, which the caller must close."""
        return self._duckdb.cursor()

    def snapshot(self) -> Store:
        """Return a store that stays at the present transfers and generation, for a result that needs several queries.

        Tokens and labels are not frozen: a result may contain newer ones than those of its generation. A cache then
        treats the result as older than it is, which is safe.
        """
        pinned = copy.copy(self)
        pinned._pinned = self._pinned or self._current()
        return pinned

    def label_time(self, second: int) -> int | None:
        """Return the unix second that represents all seconds with the labels of ``second``.

        It is 0 before the first period of a label, and None if maps use the last labels of each source.
        """
        if self.rules.labels == "latest":
            return None
        starts = self.period_starts()
        return starts[place - 1] if (place := bisect_right(starts, second)) else 0

    def label_spans(self, seconds: Array) -> list[Array]:
        """Split ascending unix seconds so that each part has one ``label_time``."""
        if self.rules.labels == "latest" or not (starts := self.period_starts()):
            return [seconds]
        return [part for part in np.split(seconds, np.searchsorted(seconds, starts)) if len(part)]

    def view(self) -> View:
        """Return the arrays of the store. A snapshot returns the arrays at the time of the snapshot."""
        return (self._pinned or self._current())[1]

    def _current(self) -> tuple[int, View]:
        generation, listing = self._changes.listing()
        latest = self._latest
        if latest is None or latest[0] is not listing:
            self._files.keep_only(listing.sums)
            latest = self._latest = listing, View(listing, self._files)
        return generation, latest[1]

    def _listing(self) -> Listing:
        return self._current()[1].listing

    def generation(self) -> int:
        """Return the number of the latest change by any process. A snapshot returns that at the time of the snapshot.

        This takes microseconds.
        """
        return self._pinned[0] if self._pinned else self._changes.generation()

    def known_change_since(self, generation: int) -> int | None:
        """Return the earliest unix second whose answers changed after the change number ``generation``.

        Only changes that this process knows of are searched; new ones are not read. None if no known change is later.
        """
        return self._changes.known_change_since(generation)

    def first_change_since(self, generation: int) -> int | None:
        """Return the earliest unix second whose answers changed after ``generation``; None if nothing changed.

        A cached answer of that generation is still right if it is as of an earlier second. The result is 0 if metadata
        or labels changed, because they count at every instant. For a snapshot, changes after the snapshot are included.
        This takes microseconds.
        """
        return self._changes.first_change_since(generation)

    def first_changes(self) -> tuple[list[int], list[int]]:
        """Return the numbers of changes, and the earliest unix second whose answers each changed, both ascending.

        Changes are left out if a later one goes as far back, so the first change after a number is the earliest.
        """
        return self._changes.first_changes()

    def files(self, keys: Iterable[Key] | None = None) -> list[str]:
        """Return the Parquet files of the transfers of the tokens ``keys``, or of all tokens if None.

        If there are none, return a file without rows.
        """
        listing = self.view().listing
        names = listing.transfer_files()
        if keys is not None:
            parts = (part for key in sorted(set(keys)) for part in listing.parts_of(key))
            names = [part.file for part in parts if part.has_transfers]
        paths = [str(self._checks.path(f"transfers/{name}.parquet", listing.sums)) for name in names]
        return paths or [str(self._empty_file())]

    def balance_files(self, key: Key) -> list[Path]:
        """Return the files of a token's balances (``files.balances``). Raises ``DamagedFile``."""
        listing = self.view().listing
        return [self._checks.path(part.paths[2], listing.sums) for part in listing.parts_of(key)]

    def read_all_files(self) -> list[DamagedFile]:
        """Compare all files with their checksums, and return an error for each damaged file.

        Afterwards, reads of a damaged file raise its error.
        """
        return self._checks.read_all(self.view().listing.sums)

    def _empty_file(self) -> Path:
        path = self.root / "transfers" / EMPTY
        if not path.exists():
            write_rows(path, [TRANSFERS.empty_table()])
        return path

    def history(self, chain: str, token_address: str) -> History | None:
        """Return the number and period of a token's stored transfers; None if there are none."""
        return history_of((chain, token_address), self._listing().parts_of((chain, token_address)))

    def histories(self) -> list[History]:
        """Return the number and period of every token's transfers, sorted by chain and token."""
        listing = self._listing()
        histories = (history_of(key, listing.parts_of(key)) for key in sorted(listing.numbers))
        return [history for history in histories if history]


class DuckDB:
    """An in-memory database of DuckDB for a store's queries, opened by the first cursor.

    Opening takes 20 ms, and many uses of a store send no SQL. ``memory`` is the memory budget in bytes of the store's
    imports. Threads can share it.
    """

    def __init__(self, root: Path, memory: int) -> None:
        self._root = root
        self._memory = memory
        self._lock = threading.Lock()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._is_closed = False

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Return a new cursor, which the caller must close. Raises ``duckdb.ConnectionException`` after ``close``."""
        with self._lock:
            if self._is_closed:
                raise duckdb.ConnectionException("the store is closed; open it again")
            if self._connection is None:
                self._connection = _connect(self._root, self._memory)
            return self._connection.cursor()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            if self._connection is not None:
                self._connection.close()


def _connect(root: Path, memory: int) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET parquet_metadata_cache = true")  # a file of transfers never changes under its name
    connection.execute("SET threads = 1")  # many small queries in parallel need no threads each
    connection.execute(f"SET memory_limit = '{memory // 4}B'")  # the rest is for rows and arrays
    connection.execute("SET temp_directory = $folder", {"folder": str(root / ".spill")})
    return connection
