"""The engine's store: whole transfer histories, what is derived from them, and a small catalogue beside them.

Transfers are kept as they came, as Parquet, and as arrays that answers are computed from (``parts``, ``adjacency``,
``dictionary``). A file is written under a new name and only then named by the catalogue (SQLite), in one transaction
for a whole import: an import is there whole or not at all, and a reader that is under way keeps the files it began
with. How rows become files is ``importing``'s work, what they mean (balances, relationships) the other modules'.
"""

from __future__ import annotations

import copy
import json
import re
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import duckdb
import pyarrow as pa

from holderlake.contract.chains import KNOWN_CHAINS, NATIVE
from holderlake.engine.catalog import catalog as catalogue
from holderlake.engine.catalog import indexed_tokens
from holderlake.engine.catalog.catalog import EMPTY, INFO_COLUMNS, token_info
from holderlake.engine.catalog.changelog import EVERY_PAST, ChangeLog, note_change
from holderlake.engine.catalog.indexed_tokens import IndexedToken
from holderlake.engine.catalog.labels import AddressLabel, labels_of, marked_addresses, merged_labels
from holderlake.engine.catalog.opening_balances import new_openings, openings_by_token
from holderlake.engine.catalog.rules import open_rules
from holderlake.engine.catalog.search import search
from holderlake.engine.errors import DamagedFile, EngineError
from holderlake.engine.files.disk_errors import disk_failures
from holderlake.engine.files.integrity import FileChecks, read_sums
from holderlake.engine.files.manifest import OPENING, Manifest, Opened, PartFile, View
from holderlake.engine.importing.change import Change
from holderlake.engine.importing.free_space import refuse_if_too_large
from holderlake.engine.importing.paths import FOLDERS, Place, remove_killed_imports
from holderlake.engine.importing.rows import write_rows
from holderlake.engine.importing.sort import Incoming
from holderlake.engine.records import TRANSFERS, ImportReport, Label, Rules, TokenInfo
from holderlake.engine.store.unlisted import refuse_unlisted_transfers, tidy

K = TypeVar("K")
T = TypeVar("T")

_UNITS: Final = {"MB": 10**6, "GB": 10**9, "TB": 10**12}

_CHAINS: Final = """
-- From one chain to the next through the key's index; DISTINCT would read all tokens.
WITH RECURSIVE known (chain) AS (
    SELECT min(chain) FROM tokens
    UNION ALL
    SELECT (SELECT min(chain) FROM tokens WHERE tokens.chain > known.chain) FROM known WHERE known.chain IS NOT NULL
)
SELECT chain FROM known WHERE chain IS NOT NULL
"""


class Answers(Generic[K, T]):
    """Answers by what was asked, so that each is asked for once."""

    def __init__(self) -> None:
        self._known: dict[K, T | None] = {}

    def of(self, asked: Sequence[K], read: Callable[[Sequence[K]], Mapping[K, T]]) -> dict[K, T]:
        """The answers that there are; ``read`` is asked for those that are not known."""
        new = [one for one in asked if one not in self._known]
        if new:
            found = read(new)
            self._known.update((one, found.get(one)) for one in new)
        return {one: known for one in asked if (known := self._known[one]) is not None}


class Remembered:
    """What a store that remembers was told of tokens and labels."""

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.tokens: Answers[tuple[str, str], TokenInfo] = Answers()
        self._labels: dict[str | None, Answers[str, AddressLabel]] = {}

    def labels(self, chain: str | None) -> Answers[str, AddressLabel]:
        """Labels as they are on a chain's maps."""
        return self._labels.setdefault(chain, Answers())


_MOST_TOKENS: Final = 100_000
"""Tokens whose metadata is kept in memory."""


@dataclass(frozen=True)
class History:
    """A token's stored transfers: their number, and unix seconds of the first and the last."""

    chain: str
    token_address: str
    transfers: int
    first_time: int
    last_time: int


class Store:
    """A store's folder, opened or made. Reads are safe from many threads; imports queue.

    ``rules`` are kept in the store when given, so that a world made with small thresholds keeps them; ``changed_rules``
    are those that differ from the ones kept before (old and new value by name). ``index``: the tokens that the settings
    mark as indexed (chain, address); where it is None, those of the last opening stay marked.
    ``memory_limit`` (as ``"2GB"``) is what an import aims at, whatever its size; it spills to the store's folder.
    ``refuse_unlisted=False`` opens a store whose files of transfers the catalogue does not know, to repair it.
    Raises ``BadSource`` when the folder holds a store of another format; one of format 1 is brought up to date.
    Raises ``UnusableStore`` where it can't be read or written as it is on disk.
    """

    def __init__(
        self,
        root: Path,
        rules: Rules | None = None,
        memory_limit: str = "2GB",
        index: Collection[tuple[str, str]] | None = None,
        refuse_unlisted: bool = True,
    ) -> None:
        self.root = root
        self._refuses_unlisted = refuse_unlisted
        self._memory = memory_bytes(memory_limit)
        with disk_failures(root):
            for folder in FOLDERS:
                (root / folder).mkdir(parents=True, exist_ok=True)
        self._duckdb = duckdb.connect()
        self._duckdb.execute("SET enable_progress_bar = false")
        self._duckdb.execute("SET parquet_metadata_cache = true")  # a file of transfers never changes under its name
        self._duckdb.execute("SET threads = 1")  # many small queries side by side, rather than many threads for each
        self._duckdb.execute(f"SET memory_limit = '{self._memory // 4}B'")  # the rest is for rows and arrays
        self._duckdb.execute("SET temp_directory = $folder", {"folder": str(root / ".spill")})
        self._checks = FileChecks(root)
        self._opened = Opened(root, self._checks)
        self._pinned: tuple[int, View] | None = None
        self._latest: tuple[Manifest, View] | None = None
        self._remembered: Remembered | None = None
        self._derived: dict[str, tuple[object, Any]] = {}
        self._changes = ChangeLog(self._prepared_catalog(), root)
        with self._catalog() as catalog:
            opened = open_rules(catalog, rules)
            if index is not None:
                indexed_tokens.replace_marks(catalog, index, indexed_tokens.SETTINGS)
        self.rules, self.changed_rules = opened.rules, opened.changed

    def close(self) -> None:
        """Lets go of the query engine and the catalogue; nothing on disk changes."""
        self._changes.close()
        self._duckdb.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _catalog(self) -> AbstractContextManager[sqlite3.Connection]:
        return catalogue.opened(self.root)

    def _prepared_catalog(self) -> sqlite3.Connection:
        connection = catalogue.connect(self.root)
        try:
            catalogue.prepare(connection, self.root, self._take_over)
            self._refuse_unlisted(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    # ------------------------------------------------------------------ writing

    def add_transfers(self, transfers: pa.Table | pa.RecordBatchReader, source: str) -> ImportReport:
        """Merges transfers (schema ``records.TRANSFERS``) into the stored histories, all or nothing, idempotent.

        A reader's rows are never in memory all at once. Tokens without metadata get an assumed one: 18 decimals for
        ERC-20, none for NFTs, the chain's own for native.
        """
        missing = [name for name in TRANSFERS.names if name not in transfers.schema.names]
        if missing:
            raise KeyError(f"transfers have no column {', '.join(missing)}")
        if isinstance(transfers, pa.Table):
            refuse_if_too_large(self.root, transfers.num_rows, self._read_parts())
        with self.change() as (catalog, change):
            first_times: list[int] = []
            was_empty = not change.manifest.numbers

            def assume(incoming: Incoming) -> None:
                token = _assumed_token(incoming.chain, incoming.address, incoming.standard)
                if catalogue.assume_token(catalog, token) and incoming.address != NATIVE and not was_empty:
                    first_times.append(EVERY_PAST)  # its contract's address is a wallet on no map any more

            counts = change.add_transfers(transfers, assume)
            if first_times or counts.first_times:
                change.finish()
                note_change(catalog, min([*first_times, *counts.first_times]))
        return ImportReport(
            source, counts.rows, counts.new, counts.duplicate, counts.conflict, tuple(sorted(counts.touched))
        )

    def add_opening_balances(self, balances: pa.Table, source: str = "opening balances") -> ImportReport:
        """Stores what addresses hold where a windowed history begins (schema ``openings.OPENINGS``).

        They are balances and no transfers: holders and supply are exact from their ``block_time`` on although earlier
        transfers are not there, and no address gets a relationship, an age or a count from them. Idempotent by (chain,
        token, address, item). Raises ``BadSource`` for balances that contradict each other or the stored ones, and
        where transfers of the token are stored that are not after them.
        """
        with self.change() as (catalog, change):
            found = []
            for key, rows in openings_by_token(balances):
                one = new_openings(key, rows, change.opening_rows(key))
                found.append(one)
                if one.new.num_rows:
                    catalogue.assume_token(catalog, _assumed_token(*key, one.new["token_standard"][0].as_py()))
                    change.add_openings(key, one.new)
            if any(one.new.num_rows for one in found):
                change.finish()
                note_change(catalog, EVERY_PAST)
        return ImportReport(
            source,
            balances.num_rows,
            sum(one.new.num_rows for one in found),
            sum(one.duplicates for one in found),
            0,
            tuple(sorted(f"{one.key[0]}/{one.key[1]}" for one in found)),
        )

    def remove_opening_balances(self, chain: str, token_address: str) -> int:
        """Remove all opening balances of a token. Return how many there were."""
        with self.change() as (catalog, change):
            removed = change.remove_openings((chain, token_address))
            if removed:
                change.finish()
                note_change(catalog, EVERY_PAST)
        return removed

    def roll_back(self, chain: str, after_block: int) -> int:
        """Removes all transfers (and opening balances) of the chain's blocks after ``after_block``, all or nothing.

        For a chain that was reorganised: what its new blocks hold is imported again. Returns the rows removed.
        """
        with self.change() as (catalog, change):
            rows, first_time = change.roll_back(chain, after_block)
            if first_time is not None:
                change.finish()
                note_change(catalog, first_time)
        return rows

    def add_tokens(self, tokens: Iterable[TokenInfo]) -> int:
        """Stores tokens' metadata, replacing what was known. Returns how many there were."""
        given = list(tokens)
        with self._catalog() as catalog:
            catalog.execute("BEGIN IMMEDIATE")
            if catalogue.save_tokens(catalog, given):
                note_change(catalog, EVERY_PAST)
        return len(given)

    def index_tokens(self, keys: Iterable[tuple[str, str]], source: str, is_indexed: bool = True) -> None:
        """Mark tokens (chain, address) as indexed or not, for one of ``indexed.SOURCES``; transfers may come later."""
        with self._catalog() as catalog:
            catalog.execute("BEGIN IMMEDIATE")
            if indexed_tokens.mark(catalog, keys, source, is_indexed):
                note_change(catalog, EVERY_PAST)

    def index(self) -> list[IndexedToken]:
        """All tokens that are marked as indexed, with the source that decides; those without transfers too."""
        with self._catalog() as catalog:
            return indexed_tokens.indexed_tokens(catalog)

    def add_labels(self, labels: Iterable[Label]) -> int:
        """Stores labels, replacing those of the same address, chain and source. Returns how many there were."""
        given = list(labels)
        with self._catalog() as catalog:
            catalog.execute("BEGIN IMMEDIATE")
            if catalogue.save_labels(catalog, given):
                note_change(catalog, EVERY_PAST)
        return len(given)

    @contextmanager
    def change(self) -> Iterator[tuple[sqlite3.Connection, Change]]:
        """A transaction that changes the stored histories, all or nothing."""
        with disk_failures(self.root), Place(self.root).opened() as place:
            try:
                with self._catalog() as catalog:
                    catalog.execute("BEGIN IMMEDIATE")
                    self._refuse_unlisted(catalog)
                    with self._changing(place, catalog) as change:
                        remove_killed_imports(self.root, change.manifest.sums, place)
                        if self._refuses_unlisted:
                            tidy(catalog, self.root, change.manifest.sums)
                        yield catalog, change
            except BaseException:
                with suppress(EngineError, OSError), self._catalog() as catalog:  # else the next import removes them
                    place.remove_files(read_sums(catalog))
                raise

    def _refuse_unlisted(self, catalog: sqlite3.Connection) -> None:
        if self._refuses_unlisted:
            refuse_unlisted_transfers(catalog, self.root)

    def _changing(self, place: Place, catalog: sqlite3.Connection) -> Change:
        return Change(place, catalog, self._duckdb.cursor, self._checks, self._memory)

    def _take_over(self, catalog: sqlite3.Connection, files: Sequence[tuple[str, str, str]]) -> None:
        """Makes the arrays of a store of format 1: chain, address and file of each history."""
        with disk_failures(self.root), Place(self.root).opened() as place, self._changing(place, catalog) as change:
            for chain, address, file in files:
                change.take_over(chain, address, file.removesuffix(".parquet"))
            change.finish()

    # ------------------------------------------------------------------ reading

    def query(
        self, sql: str, parameters: Mapping[str, Any] | None = None, tables: Mapping[str, pa.Table] | None = None
    ) -> pa.Table:
        """Runs SQL in a cursor of its own, with Arrow tables under the names given.

        ``$files``, where the SQL names it, is bound to the Parquet files of all stored transfers, unless it is given.
        """
        bound = dict(parameters or {})
        if "$files" in sql and "files" not in bound:
            bound["files"] = self.files()
        with self._duckdb.cursor() as cursor:
            for name, table in (tables or {}).items():
                cursor.register(name, table)
            return cursor.sql(sql, params=bound or None).to_arrow_table()

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A cursor of the query engine, which the caller closes."""
        return self._duckdb.cursor()

    def snapshot(self) -> Store:
        """The store with the histories and the generation of now, whatever is imported meanwhile: for an answer of
        several queries. Tokens and labels stay those of the store, so an answer may know newer ones than its
        generation, which a cache then judges as older than it is, and never as newer."""
        pinned = copy.copy(self)
        pinned._pinned = self._pinned or self._now()
        return pinned

    def remembering(self) -> Store:
        """A snapshot that also keeps the tokens and labels that it was asked for: for very many answers at once."""
        pinned = self.snapshot()
        pinned._remembered = Remembered(self._changes.generation())
        return pinned

    def view(self) -> View:
        """The arrays of the store as they are now; of a snapshot, as they were when it was taken."""
        return (self._pinned or self._now())[1]

    def _now(self) -> tuple[int, View]:
        generation, manifest = self._changes.manifest()
        latest = self._latest
        if latest is None or latest[0] is not manifest:
            self._opened.keep_only(manifest.files)
            latest = self._latest = manifest, View(manifest, self._opened)
        return generation, latest[1]

    def derive(self, name: str, given: object, find: Callable[[], T]) -> T:
        """What ``find`` gives, kept under the name for as long as it is asked with the same given."""
        kept = self._derived.get(name)
        if kept is None or kept[0] != given:
            kept = self._derived[name] = given, find()
        found: T = kept[1]
        return found

    def generation(self) -> int:
        """How often imports changed anything so far, 0 for never; of a snapshot, when it was taken.

        Every import that changes something raises it, in this process or another, and none that changes nothing. Costs
        microseconds.
        """
        return self._pinned[0] if self._pinned else self._changes.generation()

    def metadata_generation(self) -> int:
        """As ``generation``, but of a snapshot, too, that of now, as its tokens and labels are; of a store that
        remembers these, when it began to."""
        return self._remembered.generation if self._remembered else self._changes.generation()

    def known_change_since(self, generation: int) -> int | None:
        """As ``first_change_since``, by what was there when the store was last asked anything of its changes."""
        return self._changes.known_change_since(generation)

    def first_change_since(self, generation: int) -> int | None:
        """The earliest second (unix) that imports after ``generation`` touched, None where there was none.

        An answer as of an earlier second that was computed at that generation still holds. 0 where metadata or labels
        changed, for they count in every past. A snapshot tells what was imported since, too. Costs microseconds.
        """
        return self._changes.first_change_since(generation)

    def files(self, keys: Iterable[tuple[str, str]] | None = None) -> list[str]:
        """The Parquet files of all stored transfers, or of those of the tokens; one of none where there are none."""
        manifest = self.view().manifest
        names = manifest.transfer_files()
        if keys is not None:
            parts = (part for key in sorted(set(keys)) for part in manifest.parts_of(key))
            names = [part.file for part in parts if part.kind != OPENING]
        found = [str(self._checks.path(f"transfers/{name}.parquet", manifest.sums)) for name in names]
        return found or [str(self._empty_file())]

    def read_all_files(self) -> list[DamagedFile]:
        """Compare all files with their checksums, and refuse those that differ from then on. Return the damage."""
        return self._checks.read_all(self.view().manifest.sums)

    def _empty_file(self) -> Path:
        path = self.root / "transfers" / EMPTY
        if not path.exists():
            write_rows(path, [TRANSFERS.empty_table()])
        return path

    def history(self, chain: str, token_address: str) -> History | None:
        """Size and period of a token's stored transfers, or None."""
        return _history((chain, token_address), self._read_parts().parts_of((chain, token_address)))

    def histories(self) -> list[History]:
        """All stored histories, by chain and token."""
        manifest = self._read_parts()
        found = (_history(key, manifest.parts_of(key)) for key in sorted(manifest.numbers))
        return [history for history in found if history]

    def _read_parts(self) -> Manifest:
        return self._now()[1].manifest

    def token(self, chain: str, token_address: str) -> TokenInfo | None:
        """A token's metadata, real or assumed, or None."""
        return self.tokens([(chain, token_address)]).get((chain, token_address))

    def tokens(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], TokenInfo]:
        """Metadata of the tokens that are known among the keys."""
        memory = self._remembered
        if memory:
            return memory.tokens.of(keys, self._read_tokens)
        known: dict[tuple[str, str], TokenInfo] = self.derive("tokens", self.metadata_generation(), dict)
        found = {key: known[key] for key in keys if key in known}
        missing = [key for key in keys if key not in found]
        if missing:
            read = self._read_tokens(missing)
            if len(known) < _MOST_TOKENS:
                known.update(read)
            found |= read
        return found

    def _read_tokens(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], TokenInfo]:
        sql = f"""
            SELECT {INFO_COLUMNS} FROM tokens
            JOIN json_each(?) AS wanted
                ON chain = json_extract(wanted.value, '$[0]') AND address = json_extract(wanted.value, '$[1]')
        """
        with self._catalog() as catalog:
            found = [token_info(row) for row in catalog.execute(sql, (json.dumps(list(keys)),))]
        return {(token.chain, token.address): token for token in found}

    def indexed_tokens(self) -> list[tuple[str, str]]:
        """Keys of the tokens whose transfers count on every map."""
        return self.derive("indexed tokens", self.metadata_generation(), self._read_indexed_tokens)

    def _read_indexed_tokens(self) -> list[tuple[str, str]]:
        with self._catalog() as catalog:
            return list(catalog.execute("SELECT chain, address FROM tokens WHERE is_indexed = 1 ORDER BY 1, 2"))

    def search(self, text: str, limit: int) -> list[TokenInfo]:
        """Tokens by address, symbol or name, the best first; see ``search.search``."""
        with self._catalog() as catalog:
            return search(catalog, text, limit)

    def chains(self) -> list[str]:
        """Chains that the store holds a token of."""
        with self._catalog() as catalog:
            return [chain for (chain,) in catalog.execute(_CHAINS)]

    def labels(self, addresses: Sequence[str], chain: str | None = None) -> dict[str, AddressLabel]:
        """One merged label for each address that has any; see ``labels.merged_labels``."""
        memory = self._remembered
        return (
            memory.labels(chain).of(addresses, partial(self._read_labels, chain))
            if memory
            else self._read_labels(chain, addresses)
        )

    def _read_labels(self, chain: str | None, addresses: Sequence[str]) -> dict[str, AddressLabel]:
        with self._catalog() as catalog:
            return merged_labels(catalog, addresses, chain)

    def marked_addresses(self) -> dict[str, AddressLabel]:
        """The kinds of all addresses that anything is known of; see ``labels.marked_addresses``."""
        with self._catalog() as catalog:
            return marked_addresses(catalog)

    def labels_of(self, address: str) -> list[Label]:
        """What each source says of the address, as it was stored, by falling precedence, then chain and source."""
        with self._catalog() as catalog:
            return labels_of(catalog, address)


def memory_bytes(text: str) -> int:
    """Bytes of a memory limit such as ``"512MB"`` or ``"2GB"``. Raises ``ValueError`` with a sentence."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([MGT]B)", text.strip().upper())
    size = int(float(found[1]) * _UNITS[found[2]]) if found else 0
    if size < 64 * _UNITS["MB"]:
        raise ValueError(f"{text!r} is no memory limit; write 64MB or more, such as 512MB or 2GB")
    return size


def _history(key: tuple[str, str], parts: Sequence[PartFile]) -> History | None:
    found = [part for part in parts if part.kind != OPENING]
    if not found:
        return None
    return History(
        *key,
        sum(part.transfers for part in found),
        min(part.first_time for part in found),
        max(part.last_time for part in found),
    )


def _assumed_token(chain: str, address: str, standard: str) -> TokenInfo:
    known = KNOWN_CHAINS.get(chain)
    name, symbol, decimals = address, address[:8], 18 if standard == "erc20" else 0
    if address == NATIVE:
        name = known.name if known else chain
        symbol, decimals = (known.native_symbol, known.native_decimals) if known else (chain.upper(), 18)
    return TokenInfo(chain, address, name, symbol, decimals, standard)
