"""An import or rollback, step by step: it writes new files, then lists them in the catalogue in one transaction.

If the process is killed, only unlisted files remain. All steps work on batches that fit into the memory budget.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from holderlake.core.storage.atomic_files import sync
from holderlake.engine.catalog.opening_balances import refuse_overlap
from holderlake.engine.files.arrays import read_arrays, temporary_arrays
from holderlake.engine.files.integrity import FileChecks, record_sums, signature_of
from holderlake.engine.files.listing import BASE, CORRECTION, OPENING, TAIL, OpenFiles, PartFile, read_listing
from holderlake.engine.files.transfer_arrays import MOVES, Moves, Part
from holderlake.engine.importing.address_ids import AddressIds
from holderlake.engine.importing.balance_files import write_balances
from holderlake.engine.importing.budget import Budget
from holderlake.engine.importing.built import BuiltFiles
from holderlake.engine.importing.deduplicate import Counts, Deduplicator
from holderlake.engine.importing.keys import SortedKeys
from holderlake.engine.importing.overlaps import overlap_of
from holderlake.engine.importing.paths import FOLDERS, ImportFolder
from holderlake.engine.importing.rows import (
    Coding,
    Period,
    joined_period,
    joined_rows,
    moves_of,
    period_of,
    read_rows,
    write_part,
    write_rows,
)
from holderlake.engine.importing.run_writer import (
    AdjacencyEntries,
    EntryBuffer,
    entries_of_run,
    merged_entries,
    write_run,
)
from holderlake.engine.importing.sort import Sorter, TokenRows
from holderlake.engine.numeric.bigint import Array
from holderlake.engine.records import TRANSFERS

_TAILS: Final = 8
"""Number of small parts of a token, or of small runs, at which these files are merged into one."""


class Change:
    """A change of the store's files in an open transaction of ``catalog``. ``memory`` is its memory budget in bytes.

    ``connect`` opens a DuckDB cursor. ``checks`` compares files with their checksums before they are read.
    """

    def __init__(
        self,
        folder: ImportFolder,
        catalog: sqlite3.Connection,
        connect: Callable[[], duckdb.DuckDBPyConnection],
        checks: FileChecks,
        memory: int,
    ) -> None:
        self.listing = read_listing(catalog)
        self._root = folder.root
        self._import = folder
        self._spool = folder.spool
        self._catalog = catalog
        self._budget = Budget(memory)
        self._opened = OpenFiles(folder.root, checks)
        self._numbers = dict(self.listing.numbers)
        self._parts = {number: list(parts) for number, parts in self.listing.parts.items()}
        self._connect = connect
        self._entries = EntryBuffer(self._spool, self._budget)
        self._has_removed = False
        self._coding = Coding()
        self._addresses = AddressIds(
            self.listing.volumes, self._opened, self.listing.sums, self._budget, self._import.new_name
        )
        self._sorter = Sorter(self._coding, self._addresses.numbered, self._spool, self._budget)
        self._deduplicator = Deduplicator(connect, self._coding, self._spool, self._budget)

    # ------------------------------------------------------------------ transfers

    def add_transfers(
        self, transfers: pa.Table | pa.RecordBatchReader, assume_token: Callable[[TokenRows], None]
    ) -> Counts:
        """Store the transfers that are new. Return the counts of new, duplicate and conflicting rows.

        ``assume_token`` is called with the rows of each token, to store assumed metadata.
        """
        counts = Counts()
        for incoming in self._sorter.by_token(transfers):
            counts.touched.append(f"{incoming.chain}/{incoming.address}")
            number = self._number((incoming.chain, incoming.address))
            stored_parts = [part for part in self._parts.get(number, ()) if part.has_transfers]
            stored_keys = [self._keys(part) for part in stored_parts]
            stored_files = list(zip(map(self._rows_path, stored_parts), stored_keys, strict=True))
            overlap = overlap_of(self._connect, self._coding, self._budget.batch, incoming, stored_files)
            counts.undecided.extend(overlap.undecided)
            new_rows = self._deduplicator.new_rows(incoming, stored_keys, map(self._rows_path, stored_parts), counts)
            if len(overlap.superseded):
                new_rows = self._without(new_rows, overlap.superseded, counts) if new_rows is not None else None
                stored_parts = self._remove_rows(stored_parts, overlap.superseded, counts)
            if new_rows is not None:
                key = (incoming.chain, incoming.address)
                period = self._add(number, new_rows, stored_parts)
                counts.first_times.append(period.first_time)
                self._refuse_overlap(key, number)
                if self.remove_corrections(key, period.first_block):
                    counts.undecided.append(_outdated(key, period.first_block))
            assume_token(incoming)
        return counts

    def had_addresses(self, addresses: Sequence[str]) -> bool:
        """Return whether the store had a transfer of one of the addresses before this change."""
        return self._addresses.had(addresses)

    @staticmethod
    def _without(new_rows: TokenRows, superseded: Array, counts: Counts) -> TokenRows | None:
        """Return the new rows whose keys are not in ``superseded``. The others count as duplicates."""
        remaining = new_rows.only(lambda _, piece: ~np.isin(piece["key"].to_numpy(), superseded))
        repeated = new_rows.rows - (remaining.rows if remaining is not None else 0)
        counts.new_count -= repeated
        counts.duplicate += repeated
        return remaining

    def _remove_rows(self, stored_parts: list[PartFile], superseded: Array, counts: Counts) -> list[PartFile]:
        """Remove the stored rows whose keys are in ``superseded``. Return the parts that are unchanged."""
        unchanged = []
        for part in stored_parts:
            if np.isin(self._keys(part), superseded).any():
                period = self._remove_from_part(part, lambda rows: np.isin(self._coding.keys(rows), superseded))
                counts.replaced += period.rows
                counts.first_times.append(period.first_time)
            else:
                unchanged.append(part)
        return unchanged

    def _add(self, number: int, new_rows: TokenRows, stored_parts: list[PartFile]) -> Period:
        """Write the new rows of a token, merged with the parts that ``_to_merge`` selects. Return the new rows'
        period."""
        merged_parts = _to_merge(stored_parts, new_rows.rows)
        kind = BASE if len(merged_parts) == len(stored_parts) else TAIL
        return self._write(number, kind, new_rows.tables(), lambda: new_rows.keys, merged_parts)

    def _write(
        self,
        number: int,
        kind: str,
        tables: Iterable[pa.Table],
        keys: Callable[[], Array],
        merged_parts: list[PartFile],
        rest_of: Sequence[PartFile] = (),
    ) -> Period:
        """Write rows of a token and all rows of the parts ``merged_parts`` as one new part, which replaces the parts.

        The rows in ``tables`` are sorted and have address numbers. ``keys`` returns the sorted hashes of their keys,
        after they were written. If the rows are what is left of the parts ``rest_of``, it replaces these too, and no
        transfer is new. Return the period of the rows in ``tables``.
        """
        are_new = kind not in (OPENING, CORRECTION) and not rest_of
        summary = RowSummary(number, self._spool, self._entries if are_new else None)
        name = self._import.new_name()
        folder = "openings" if kind in (OPENING, CORRECTION) else "transfers"
        old_paths = [self._rows_path(part) for part in merged_parts]
        rows = joined_rows((self._plain(table) for table in summary.observe(tables)), old_paths, self._budget.batch)
        write_rows(self._path(folder, name), rows)
        moves = [*(self._moves(part) for part in merged_parts), *summary.moves]
        self._write_part(name, kind, moves, [keys(), *(self._keys(part) for part in merged_parts)])
        period = joined_period(summary.periods)
        self._replace(number, [*merged_parts, *rest_of], _part_file(name, number, kind, period, merged_parts))
        return period

    def _plain(self, rows: pa.Table) -> pa.Table:
        """Return rows in the schema ``TRANSFERS``, without the columns that an import adds."""
        return self._coding.decoded(rows) if "kind" in rows.column_names else rows.select(TRANSFERS.names)

    def _keyed(self, tables: Iterable[pa.Table], keys: SortedKeys) -> Iterator[pa.Table]:
        """Yield stored rows with added address numbers, and add the hashes of the rows' keys to ``keys``."""
        for rows in tables:
            keys.add(self._coding.keys(rows))
            yield self._addresses.numbered(rows)

    # ------------------------------------------------------------------ repair

    def write_all_balances(self) -> None:
        """Write the balances of all parts, from their transfers."""
        for part in (part for parts in self._parts.values() for part in parts):
            self._write_balances(part.file, part.kind, self._moves(part))

    def record_files(self) -> None:
        """Force the new files to the disk. Record their checksums in the catalogue, and which files they replace."""
        for folder in FOLDERS:
            sync(self._root / folder)
        record_sums(self._catalog, self._root)

    # ------------------------------------------------------------------ files of other machines

    def add_built(self, built: BuiltFiles) -> None:
        """Move the files of ``built`` into the store, which lists no files yet, and list them with their checksums."""
        catalog, name_of = self._catalog, self._import.name_of
        for path, file_sum in built.sums.items():
            folder, _, name = path.partition("/")
            new_path = f"{folder}/{name_of(name)}"
            (built.root / path).rename(self._root / new_path)
            moved = file_sum._replace(signature=signature_of(str(self._root / new_path)))
            catalog.execute("INSERT INTO files (path, size, crc32, signature) VALUES (?, ?, ?, ?)", (new_path, *moved))
        catalog.execute("DELETE FROM histories")
        catalog.executemany("INSERT INTO histories VALUES (?, ?, ?)", ((n, *key) for key, n in built.numbers.items()))
        for part in built.parts:
            self._insert_part(replace(part, file=name_of(part.file)))
        if built.run:
            catalog.execute("INSERT INTO runs VALUES (?, ?)", (name_of(built.run.file), built.run.entries))
        catalog.execute("INSERT INTO volumes VALUES (?, ?, ?)", (name_of(built.volume.file), 0, built.volume.size))
        self.record_files()

    # ------------------------------------------------------------------ opening balances

    def add_openings(self, key: tuple[str, str], rows: pa.Table) -> None:
        """Add opening balances of a token as one part. The rows have the columns of ``TRANSFERS``; senders are the zero
        address."""
        number = self._number(key)
        self._write(number, OPENING, [self._addresses.numbered(rows)], _no_keys, [])
        self._refuse_overlap(key, number)
        self.remove_corrections(key, 0)

    def remove_openings(self, key: tuple[str, str]) -> int:
        """Remove all opening balances of a token. Return the number of balances."""
        number = self._numbers.get(key, -1)
        openings = [part for part in self._parts.get(number, ()) if part.kind == OPENING]
        if openings:
            self._replace(number, openings, None)
            self.remove_corrections(key, 0)
        return sum(part.transfers for part in openings)

    def _refuse_overlap(self, key: tuple[str, str], number: int) -> None:
        parts = self._parts.get(number, ())
        openings = [part for part in parts if part.kind == OPENING]
        refuse_overlap(key, openings, [part for part in parts if part.has_transfers and part.transfers])

    def opening_rows(self, key: tuple[str, str]) -> pa.Table:
        """Return the stored opening balances of a token."""
        return self._rows_of_kind(key, OPENING)

    def _rows_of_kind(self, key: tuple[str, str], kind: str) -> pa.Table:
        parts = [part for part in self.listing.parts_of(key) if part.kind == kind]
        tables = [pq.read_table(self._rows_path(part)).cast(TRANSFERS) for part in parts]
        return pa.concat_tables([TRANSFERS.empty_table(), *tables])

    # ------------------------------------------------------------------ corrections

    def replace_corrections(self, key: tuple[str, str], block: int, rows: pa.Table) -> None:
        """Replace the corrections of a token from a block on by ``rows``, which have the columns of ``TRANSFERS``. All
        corrections of the token become one part."""
        stored_rows = self._rows_of_kind(key, CORRECTION)
        earlier_rows = stored_rows.filter(pc.less(stored_rows["block_number"], block))
        self.remove_corrections(key, 0)
        all_rows = self._addresses.numbered(pa.concat_tables([earlier_rows, rows]))
        self._write(self._number(key), CORRECTION, [all_rows], _no_keys, [])

    def remove_corrections(self, key: tuple[str, str], block: int) -> int:
        """Remove the corrections of a token from a block on. Return the number of removed rows.

        Corrections are differences from all that was stored before them, so an earlier row makes them wrong.
        """
        number = self._numbers.get(key, -1)
        parts = [part for part in self._parts.get(number, ()) if part.kind == CORRECTION and part.last_block >= block]
        removed = [
            self._remove_from_part(part, lambda rows: rows["block_number"].to_numpy() >= block) for part in parts
        ]
        return sum(period.rows for period in removed)

    # ------------------------------------------------------------------ roll back

    def roll_back(self, chain: str, after_block: int) -> tuple[int, int | None]:
        """Remove the chain's rows of blocks after ``after_block``.

        Return the number of removed rows, and the earliest of their unix seconds (None if no row was removed).
        """
        rows, first_times = 0, []
        for key, number in sorted(self._numbers.items()):
            for part in list(self._parts.get(number, ())) if key[0] == chain else []:
                if part.last_block > after_block:
                    period = self._remove_from_part(part, lambda rows: rows["block_number"].to_numpy() > after_block)
                    rows += period.rows
                    first_times.append(period.first_time)
        return rows, min(first_times, default=None)

    def _remove_from_part(self, part: PartFile, is_removed: Callable[[pa.Table], Array]) -> Period:
        """Remove rows of a part. ``is_removed`` returns a mask of these rows. Return the period of the removed rows."""
        path = self._rows_path(part)
        removed = (rows.filter(pa.array(is_removed(rows))) for rows in read_rows(path, self._budget.batch))
        period = joined_period([period_of(rows) for rows in removed if rows.num_rows])
        self._has_removed |= part.has_transfers
        if period.rows == part.transfers:
            self._replace(part.token, [part], None)
        else:
            keys = SortedKeys(part.transfers, self._spool, self._budget)
            remaining = (rows.filter(pa.array(~is_removed(rows))) for rows in read_rows(path, self._budget.batch))
            tables = self._keyed((rows for rows in remaining if rows.num_rows), keys)
            self._write(part.token, part.kind, tables, keys.array if part.has_transfers else _no_keys, [], [part])
        return period

    # ------------------------------------------------------------------ files

    def finish(self) -> None:
        """Write the adjacency and the new addresses, and list all new files in the catalogue."""
        if self._has_removed:
            self.remake_runs()
        elif self._entries.count:
            self._add_run()
        self._addresses.save(self._catalog)
        self.record_files()

    def _number(self, key: tuple[str, str]) -> int:
        if key not in self._numbers:
            self._catalog.execute("INSERT INTO histories (chain, token_address) VALUES (?, ?)", key)
            sql = "SELECT number FROM histories WHERE chain = ? AND token_address = ?"
            (self._numbers[key],) = self._catalog.execute(sql, key).fetchone()
        return self._numbers[key]

    def _path(self, folder: str, name: str) -> Path:
        return self._root / folder / f"{name}.parquet"

    def _rows_path(self, part: PartFile) -> Path:
        """Return the path of a part's rows. Raises ``DamagedFile`` if the file has changed since it was written."""
        return self._opened.checks.path(part.paths[0], self.listing.sums)

    def _moves(self, part: PartFile) -> Moves:
        return self._opened.part(part.file, self.listing.sums).moves

    def _keys(self, part: PartFile) -> Array:
        return self._opened.part(part.file, self.listing.sums).keys

    def _write_part(self, name: str, kind: str, pieces: list[Moves], keys: list[Array]) -> None:
        """Write the arrays of a part, and the balances that follow from them."""
        path = self._opened.path(name, "part")
        write_part(path, pieces, keys, self._budget)
        self._write_balances(name, kind, Part.of(read_arrays(path)).moves)

    def _write_balances(self, name: str, kind: str, moves: Moves) -> None:
        path, dictionary = self._root / "balances" / f"{name}.parquet", self._addresses.dictionary
        write_balances(path, moves, dictionary, self._spool, self._budget, is_base=kind == BASE)

    def _replace(self, number: int, replaced: list[PartFile], part: PartFile | None) -> None:
        for old_part in replaced:
            self._catalog.execute("DELETE FROM parts WHERE file = ?", (old_part.file,))
        parts = [listed_part for listed_part in self._parts.get(number, ()) if listed_part not in replaced]
        if part is not None:
            parts.append(part)
            self._insert_part(part)
        self._parts[number] = parts

    def _insert_part(self, part: PartFile) -> None:
        self._catalog.execute("INSERT INTO parts VALUES (?, ?, ?, ?, ?, ?, ?, ?)", astuple(part))

    def _add_run(self) -> None:
        """Write the new entries as one run.

        If the new entries and the small runs together exceed a tenth of the large run, all runs are merged into the new
        one. Otherwise, the small runs are merged into it if there are ``_TAILS`` or more.
        """
        runs, count = list(self.listing.runs), self._entries.count
        tails = runs[1:]
        if not runs or 10 * (count + sum(run.entries for run in tails)) > runs[0].entries:
            merged_runs = runs
        else:
            merged_runs = tails if len(tails) >= _TAILS else []
        opened = [self._opened.run(run.file, self.listing.sums) for run in merged_runs]
        for run in merged_runs:
            self._drop_run(run.file)
        rows = max(self._budget.chunk // (len(merged_runs) + 1), 16)
        sources = [*(entries_of_run(run, rows) for run in opened), self._entries.entries()]
        is_wide = self._entries.is_wide or any(run.times.dtype.itemsize > 4 for run in opened)
        self._write_run(merged_entries(sources), count + sum(run.entries for run in merged_runs), is_wide)

    def remake_runs(self) -> None:
        """Write the adjacency again, as one run, from the parts of all tokens."""
        for run in self.listing.runs:
            self._drop_run(run.file)
        entries = EntryBuffer(self._spool, self._budget)
        for number, parts in self._parts.items():
            for part in parts:
                if part.has_transfers:
                    entries.add(number, self._moves(part))
        self._write_run(entries.entries(), entries.count, entries.is_wide)

    def _drop_run(self, file: str) -> None:
        self._catalog.execute("DELETE FROM runs WHERE file = ?", (file,))

    def _write_run(self, entries: Iterator[AdjacencyEntries], count: int, is_wide: bool) -> None:
        if count:
            name = self._import.new_name()
            write_run(self._opened.path(name, "run"), entries, count, is_wide, self._spool, self._budget)
            self._catalog.execute("INSERT INTO runs VALUES (?, ?)", (name, count))


class RowSummary:
    """Collects data about a token's rows while these rows are written.

    The data are the rows' transfers, their period and their adjacency entries. ``number`` is the token's number. The
    entries are added to ``buffer``; if it is None, no entries are collected.
    """

    def __init__(self, number: int, spool: Path, buffer: EntryBuffer | None) -> None:
        self.moves: list[Moves] = []
        self.periods: list[Period] = []
        self._number = number
        self._spool = spool
        self._entries = buffer

    def observe(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yield the tables unchanged, and collect their transfers, period and entries. With more than one table, the
        collected transfers are kept on disk."""
        for rows in tables:
            self.periods.append(period_of(rows))
            moves = moves_of(rows)
            if self._entries is not None:
                self._entries.add(self._number, moves)
            if len(self.moves) == 1 and len(self.periods) == 2:
                self.moves = [self._spooled(self.moves[0])]
            self.moves.append(self._spooled(moves) if len(self.periods) > 1 else moves)
            yield rows

    def _spooled(self, moves: Moves) -> Moves:
        return Moves(**temporary_arrays(self._spool, {name: getattr(moves, name) for name in MOVES}))


def _no_keys() -> Array:
    return np.empty(0, np.uint64)


def _outdated(key: tuple[str, str], block: int) -> str:
    return (
        f"The balances of {key[1]} on {key[0]} that --balances-at had read from block {block} on were removed, because "
        "transfers before them are new; read them again with 'holderlake import node --balances-at'"
    )


def _to_merge(stored_parts: list[PartFile], new_count: int) -> list[PartFile]:
    """Return the parts of ``stored_parts`` to merge with ``new_count`` new rows.

    If the new rows and the tails (small parts) together exceed a tenth of the base (large part), return all parts.
    Otherwise, return the tails if there are ``_TAILS`` or more, else no part.
    """
    tails = [part for part in stored_parts if part.kind == TAIL]
    base = sum(part.transfers for part in stored_parts if part.kind == BASE)
    if 10 * (new_count + sum(part.transfers for part in tails)) > base:
        return stored_parts
    return tails if len(tails) >= _TAILS else []


def _part_file(name: str, number: int, kind: str, period: Period, merged_parts: list[PartFile]) -> PartFile:
    olds = [Period(p.transfers, p.first_time, p.last_time, p.first_block, p.last_block) for p in merged_parts]
    total = joined_period([period, *olds])
    return PartFile(
        name, number, kind, total.rows, total.first_time, total.last_time, total.first_block, total.last_block
    )
