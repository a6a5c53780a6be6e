"""The engine's store: whole transfer histories as Parquet, one file a token, and a small catalogue beside them.

A history file is written under a new name and only then named by the catalogue (SQLite), in one transaction for a
whole import: an import is there whole or not at all, and a reader that is under way keeps the file it began with.
What the rows mean (balances, relationships) is the other modules' work.
"""

from __future__ import annotations

import copy
import json
import os
import sqlite3
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from contract.chains import KNOWN_CHAINS, NATIVE
from engine import catalog as catalogue
from engine.catalog import INFO_COLUMNS, token_info
from engine.changelog import EVERY_PAST, ChangeLog, note_change
from engine.labels import AddressLabel, labels_of, merged_labels
from engine.records import TRANSFERS, ImportReport, Label, Rules, TokenInfo
from engine.search import search

_GRACE_SECONDS: Final = 3_600

_JUDGED: Final = """
-- The rows of an import by what they are to the stored history: new, known already, or another content for a known key.
-- The key is (tx_hash, log_index, token_id); a row without a transaction is keyed by its block and its two addresses.
WITH together AS (
    SELECT *, 0 AS origin FROM stored
    UNION ALL BY NAME
    SELECT *, 1 AS origin FROM imported
),
judged AS (
    SELECT
        *,
        row_number() OVER same_key AS place,
        first_value((from_address, to_address, value)) OVER same_key = (from_address, to_address, value) AS agrees
    FROM together
    WINDOW same_key AS (
        PARTITION BY coalesce(tx_hash, block_number || ':' || from_address || ':' || to_address), log_index, token_id
        -- a known row stays; of rows that come together the exact one is kept, and never one by the chance of its place
        ORDER BY
            origin, from_address, to_address, value,
            time_kind <> 'exact', log_index_kind <> 'exact', block_number, block_time, source
    )
)
SELECT
    * EXCLUDE (origin, place, agrees),
    CASE WHEN NOT agrees THEN 'conflict' WHEN place > 1 THEN 'duplicate' ELSE 'new' END AS verdict
FROM judged
WHERE origin = 1
"""

_CHAINS: Final = """
-- From one chain to the next through the key's index; DISTINCT would read all tokens.
WITH RECURSIVE known (chain) AS (
    SELECT min(chain) FROM tokens
    UNION ALL
    SELECT (SELECT min(chain) FROM tokens WHERE tokens.chain > known.chain) FROM known WHERE known.chain IS NOT NULL
)
SELECT chain FROM known WHERE chain IS NOT NULL
"""

_MERGED: Final = """
SELECT * FROM (FROM stored UNION ALL BY NAME FROM added)
ORDER BY block_number, log_index, tx_hash, token_id, from_address, to_address
"""


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

    ``rules`` are kept in the store when given, so that a world made with small thresholds keeps them.
    Raises ``BadSource`` when the folder holds a store of another format.
    """

    def __init__(self, root: Path, rules: Rules | None = None) -> None:
        self.root = root
        self._transfers = root / "transfers"
        self._transfers.mkdir(parents=True, exist_ok=True)
        self._duckdb = duckdb.connect()
        self._duckdb.execute("SET enable_progress_bar = false")
        self._duckdb.execute("SET parquet_metadata_cache = true")  # a history file never changes under its name
        self._duckdb.execute("SET threads = 1")  # many small queries side by side, rather than many threads for each
        self._pinned: tuple[int, list[str]] | None = None
        self._changes = ChangeLog(self._prepared_catalog(), self._transfers)
        with self._catalog() as catalog:
            if rules is not None:
                catalog.execute("INSERT OR REPLACE INTO settings VALUES ('rules', ?)", (_rules_text(rules),))
            stored = dict(catalog.execute("SELECT name, value FROM settings").fetchall())
        self.rules = _read_rules(stored["rules"]) if "rules" in stored else Rules()

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
            catalogue.prepare(connection, self.root)
        except BaseException:
            connection.close()
            raise
        return connection

    # ------------------------------------------------------------------ writing

    def add_transfers(self, transfers: pa.Table, source: str) -> ImportReport:
        """Merges transfers (schema ``records.TRANSFERS``) into the stored histories, all or nothing, idempotent.

        Tokens without metadata get an assumed one: 18 decimals for ERC-20, none for NFTs, the chain's own for native.
        """
        transfers = transfers.select(TRANSFERS.names).cast(TRANSFERS)
        counts = {"new": 0, "duplicate": 0, "conflict": 0}
        touched: list[str] = []
        first_times: list[int] = []
        with self._catalog() as catalog:
            catalog.execute("BEGIN IMMEDIATE")
            self._remove_abandoned_files(catalog)
            was_empty = catalog.execute("SELECT 1 FROM histories").fetchone() is None
            for chain, address, rows in _by_token(transfers):
                stored = self._stored(catalog, chain, address)
                added = self._new_rows(stored, rows, counts)
                touched.append(f"{chain}/{address}")
                if added.num_rows:
                    self._replace_history(catalog, chain, address, stored, added)
                    first_times.append(pc.min(added["block_time"]).as_py())
                is_new = catalogue.assume_token(
                    catalog, _assumed_token(chain, address, rows["token_standard"][0].as_py())
                )
                if is_new and address != NATIVE and not was_empty:
                    first_times.append(EVERY_PAST)  # its contract's address is a wallet on no map any more
            if first_times:
                note_change(catalog, min(first_times))
        return ImportReport(
            source, transfers.num_rows, counts["new"], counts["duplicate"], counts["conflict"], tuple(sorted(touched))
        )

    def add_tokens(self, tokens: Iterable[TokenInfo]) -> int:
        """Stores tokens' metadata, replacing what was known. Returns how many there were."""
        given = list(tokens)
        with self._catalog() as catalog:
            catalog.execute("BEGIN IMMEDIATE")
            if catalogue.save_tokens(catalog, given):
                note_change(catalog, EVERY_PAST)
        return len(given)

    def add_labels(self, labels: Iterable[Label]) -> int:
        """Stores labels, replacing those of the same address, chain and source. Returns how many there were."""
        given = list(labels)
        with self._catalog() as catalog:
            catalog.execute("BEGIN IMMEDIATE")
            if catalogue.save_labels(catalog, given):
                note_change(catalog, EVERY_PAST)
        return len(given)

    def roll_back(self, chain: str, after_block: int) -> int:
        """Removes all transfers of the chain's blocks after ``after_block``, of every token, all or nothing: what a
        reorganisation took back. Returns how many there were."""
        removed: list[int] = []
        with self._catalog() as catalog:
            catalog.execute("BEGIN IMMEDIATE")
            tokens = catalog.execute("SELECT token_address FROM histories WHERE chain = ?", (chain,)).fetchall()
            for (address,) in tokens:
                stored = self._stored(catalog, chain, address)
                is_kept = pc.less_equal(stored["block_number"], after_block)
                gone = stored.filter(pc.invert(is_kept))
                if gone.num_rows:
                    self._replace_history(catalog, chain, address, stored.filter(is_kept), TRANSFERS.empty_table())
                    note_change(catalog, pc.min(gone["block_time"]).as_py())
                    removed.append(gone.num_rows)
            catalog.execute("DELETE FROM histories WHERE chain = ? AND transfers = 0", (chain,))
        return sum(removed)

    def _stored(self, catalog: sqlite3.Connection, chain: str, address: str) -> pa.Table:
        found = catalog.execute(
            "SELECT file FROM histories WHERE chain = ? AND token_address = ?", (chain, address)
        ).fetchone()
        return pq.read_table(self._transfers / found[0]) if found else TRANSFERS.empty_table()

    def _new_rows(self, stored: pa.Table, rows: pa.Table, counts: dict[str, int]) -> pa.Table:
        judged = self.query(_JUDGED, tables={"stored": stored, "imported": rows})
        for verdict in judged["verdict"].to_pylist():
            counts[verdict] += 1
        is_new = pc.equal(judged["verdict"], "new")
        return judged.filter(is_new).select(TRANSFERS.names).cast(TRANSFERS)

    def _replace_history(
        self, catalog: sqlite3.Connection, chain: str, address: str, stored: pa.Table, added: pa.Table
    ) -> None:
        merged = self.query(_MERGED, tables={"stored": stored, "added": added}).cast(TRANSFERS)
        name = f"{uuid.uuid4().hex}.parquet"
        _write_whole(self._transfers / name, merged)
        times = pc.min_max(merged["block_time"]).as_py()
        self._begin_grace(catalog, chain, address)
        catalog.execute(
            "INSERT OR REPLACE INTO histories VALUES (?, ?, ?, ?, ?, ?)",
            (chain, address, name, merged.num_rows, times["min"] or 0, times["max"] or 0),
        )

    def _begin_grace(self, catalog: sqlite3.Connection, chain: str, address: str) -> None:
        """Counts the grace of the file that is being replaced from now on, however old it is."""
        for (name,) in catalog.execute(
            "SELECT file FROM histories WHERE chain = ? AND token_address = ?", (chain, address)
        ):
            os.utime(self._transfers / name)

    def _remove_abandoned_files(self, catalog: sqlite3.Connection) -> None:
        """Removes files that no history names: replaced ones, or a killed import's. Those written or replaced within
        the last hour stay, for a reader may still be in them."""
        named = {name for (name,) in catalog.execute("SELECT file FROM histories")}
        for path in self._transfers.glob("*.parquet"):
            if path.name not in named and time.time() - path.stat().st_mtime > _GRACE_SECONDS:
                path.unlink(missing_ok=True)

    # ------------------------------------------------------------------ reading

    def query(
        self, sql: str, parameters: Mapping[str, Any] | None = None, tables: Mapping[str, pa.Table] | None = None
    ) -> pa.Table:
        """Runs SQL in a cursor of its own, with Arrow tables under the names given.

        ``$files``, where the SQL names it, is bound to the Parquet files of all stored histories.
        """
        bound = dict(parameters or {})
        if "$files" in sql:
            bound["files"] = self._files()
        with self._duckdb.cursor() as cursor:
            for name, table in (tables or {}).items():
                cursor.register(name, table)
            return cursor.sql(sql, params=bound or None).to_arrow_table()

    def snapshot(self) -> Store:
        """The store with the histories and the generation of now, whatever is imported meanwhile: for an answer of
        several queries. Tokens and labels stay those of the store, so an answer may know newer ones than its
        generation, which a cache then judges as older than it is, and never as newer."""
        pinned = copy.copy(self)
        pinned._pinned = self._pinned or self._changes.files()
        return pinned

    def generation(self) -> int:
        """How often imports changed anything so far, 0 for never; of a snapshot, when it was taken.

        Every import that changes something raises it, in this process or another, and none that changes nothing. Costs
        microseconds.
        """
        return self._pinned[0] if self._pinned else self._changes.generation()

    def known_change_since(self, generation: int) -> int | None:
        """As ``first_change_since``, by what was there when the store was last asked anything of its changes."""
        return self._changes.known_change_since(generation)

    def first_change_since(self, generation: int) -> int | None:
        """The earliest second (unix) that imports after ``generation`` touched, None where there was none.

        An answer as of an earlier second that was computed at that generation still holds. 0 where metadata or labels
        changed, for they count in every past. A snapshot tells what was imported since, too. Costs microseconds.
        """
        return self._changes.first_change_since(generation)

    def _files(self) -> list[str]:
        _, paths = self._pinned or self._changes.files()
        return paths or [str(self._empty_file())]

    def _empty_file(self) -> Path:
        path = self._transfers / "none.parquet"
        if not path.exists():
            _write_whole(path, TRANSFERS.empty_table())
        return path

    def history(self, chain: str, token_address: str) -> History | None:
        """Size and period of a token's stored transfers, or None."""
        with self._catalog() as catalog:
            found = catalog.execute(
                "SELECT transfers, first_time, last_time FROM histories WHERE chain = ? AND token_address = ?",
                (chain, token_address),
            ).fetchone()
        return History(chain, token_address, *found) if found else None

    def histories(self) -> list[History]:
        """All stored histories, by chain and token."""
        sql = "SELECT chain, token_address, transfers, first_time, last_time FROM histories ORDER BY 1, 2"
        with self._catalog() as catalog:
            return [History(*row) for row in catalog.execute(sql)]

    def token(self, chain: str, token_address: str) -> TokenInfo | None:
        """A token's metadata, real or assumed, or None."""
        return self.tokens([(chain, token_address)]).get((chain, token_address))

    def tokens(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], TokenInfo]:
        """Metadata of the tokens that are known among the keys."""
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
        with self._catalog() as catalog:
            return merged_labels(catalog, addresses, chain)

    def labels_of(self, address: str) -> list[Label]:
        """What each source says of the address, as it was stored, by falling precedence, then chain and source."""
        with self._catalog() as catalog:
            return labels_of(catalog, address)


def _write_whole(path: Path, rows: pa.Table) -> None:
    """Writes a Parquet file that is there whole or not at all, and there to stay."""
    building = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with building.open("wb") as file:
        pq.write_table(rows, file, compression="zstd")
        file.flush()
        os.fsync(file.fileno())
    building.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _by_token(transfers: pa.Table) -> Iterator[tuple[str, str, pa.Table]]:
    keys = transfers.select(["chain", "token_address"]).group_by(["chain", "token_address"]).aggregate([])
    for key in sorted(keys.to_pylist(), key=lambda key: (key["chain"], key["token_address"])):
        chosen = pc.and_(
            pc.equal(transfers["chain"], key["chain"]),
            pc.equal(transfers["token_address"], key["token_address"]),
        )
        yield key["chain"], key["token_address"], transfers.filter(chosen)


def _assumed_token(chain: str, address: str, standard: str) -> TokenInfo:
    known = KNOWN_CHAINS.get(chain)
    name, symbol, decimals = address, address[:8], 18 if standard == "erc20" else 0
    if address == NATIVE:
        name = known.name if known else chain
        symbol, decimals = (known.native_symbol, known.native_decimals) if known else (chain.upper(), 18)
    return TokenInfo(chain, address, name, symbol, decimals, standard)


def _rules_text(rules: Rules) -> str:
    return json.dumps(asdict(rules), default=sorted)


def _read_rules(text: str) -> Rules:
    plain = json.loads(text)
    known = {field.name for field in fields(Rules)}
    kept = {name: value for name, value in plain.items() if name in known}
    return Rules(**(kept | {"time_allowed": frozenset(kept.get("time_allowed", ()))}))
