"""Find links: the evidence that wallets have one owner, and join the wallets to entities.

The transfers may be those of a store, or bare pairs of addresses without times. All work is SQL in a temporary DuckDB
file, over numbers of addresses, so that memory stays within the limit.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holderlake.engine.errors import BadSource
from holderlake.engine.numeric.graph_kernels import components
from holderlake.entities.kinds import KINDS, Kind, sql
from holderlake.entities.presets import Preset
from holderlake.storage.atomic_files import remove_leftovers, whole_file
from holderlake.storage.locks import locked

LINKS: Final = "cluster_links.parquet"
"""The file of links: a row for each wallet and piece of evidence, sorted by address.

Wallets with the same ``kind`` and ``link`` (int64) are linked to each other. ``address`` is the wallet, and ``through``
the address whose transfers with the wallet are the evidence: the other wallet, the funder, the deposit address, or
null. ``confidence`` is from 0 to 1, ``transfers`` the number of transfers behind the row, and ``first_time`` and
``last_time`` are the times of the first and last one (UTC; null without times). ``as_of`` is as in ``SEARCHES``, and
numbers of links are those of one instant.
"""
ENTITIES: Final = "entities.parquet"
"""The file of entities: a row for each wallet that the preset joins to another one, sorted by entity.

``entity`` is the least address of the entity, ``wallets`` (int64) the number of its wallets, ``confidence`` that of the
wallet's strongest join, from 0 to 1, and ``kinds`` (list of text) the kinds of evidence that the wallet has. ``preset``
is the rule, and ``as_of`` the instant as in ``SEARCHES``.
"""
JOINS: Final = "entity_joins.parquet"
"""The file of joins: pairs of wallets (``address``, ``other``), their ``confidence``, and ``as_of``.

Wallets that pairs of at least a confidence connect are the entities at that confidence.
"""
SEARCHES: Final = "entity_searches.parquet"
"""The file of searches: a row for each instant, in order.

``as_of`` is the instant (UTC) after which transfers do not count: the last one's if none was given, null without times.
``preset`` is the rule; ``transfers``, ``entities`` and ``joined`` (wallets of entities) are numbers.
"""
MARKED: Final = pa.schema([("address", pa.string()), ("is_exchange", pa.bool_())])
"""Columns of a table of addresses that join no wallets: exchanges, contracts and others with a label."""
AnyArray: TypeAlias = npt.NDArray[Any]
_FILES: Final = {LINKS: "links", JOINS: "entity_joins", ENTITIES: "entities", SEARCHES: "searches"}
_SPILL: Final = ".entities-"
_SPILL_LOCK: Final = "lock"
_ADDRESS: Final = "CASE WHEN {0} ILIKE '0x%' THEN lower({0}) ELSE {0} END"
_COLUMNS: Final = {
    "chain": "''",
    "token_address": "''",
    "tx_hash": "NULL::VARCHAR",
    "block_time": "NULL::BIGINT",
    "value": "NULL::DOUBLE",
    "transfers": "1",
}
"""Columns of transfers that a file may lack, each with the SQL of its value then."""


@dataclass(frozen=True)
class Found:
    """The numbers of wallets and transfers read, of links by kind, of entities, and of their wallets."""

    wallets: int
    transfers: int
    links: dict[str, int]
    entities: int
    joined: int


def find_entities(
    transfers: Sequence[str],
    marked: pa.Table,
    preset: Preset,
    folder: Path,
    instants: Collection[int] = (),
    memory: str = "1500MB",
    advance: Callable[[str], None] = lambda _: None,
) -> Found:
    """Write the evidence in the transfers (``LINKS``) and the entities that the preset makes of it (``ENTITIES``).

    The transfers are read once for all ``instants`` (unix seconds). Transfers after an instant do not count for it;
    without instants, all count. The result is that of the last instant.

    ``transfers`` are Parquet or CSV files with ``from_address`` and ``to_address``, and other columns of
    ``engine.records.TRANSFERS`` if they are known. ``marked`` (columns ``MARKED``) are addresses that join no wallets.
    ``memory`` is DuckDB's limit. ``advance`` is called once, and for each instant after each kind and once more, with
    what is done. Raises ``BadSource`` if a file can't be read, or lacks the addresses, or the times that ``instants``
    and two families of evidence need.
    """
    with _database(folder, memory) as (database, spilled):
        database.register("marked", marked.cast(MARKED))
        _read(database, transfers, max(instants, default=None))
        for name in ("counterparties", "families", "confidence"):
            database.execute(f"SET VARIABLE {name} = {getattr(preset, name)}")
        database.execute("SET VARIABLE preset = ?", [preset.name])
        database.execute(sql("moves"))
        database.register("kinds", pa.table({"kind": list(KINDS), "family": [one.family for one in KINDS.values()]}))
        advance("transfers")
        timed, last = database.execute("SELECT count(block_time) > 0, max(block_time) FROM every_move").fetchall()[0]
        if not timed and preset.families > 1:
            raise BadSource(f"{transfers[0]} has no times (block_time), so only the preset bare-edges applies")
        chosen = sorted(set(instants)) or [last]
        for instant in chosen:
            _search(database, preset, instant, timed, advance)
            for name, query in _FILES.items():
                part = spilled / f"{instant}-{name}"
                database.execute(f"COPY ({sql(query)}) TO '{_quoted(part)}' (FORMAT parquet, COMPRESSION zstd)")
            advance("entities")
        for name in _FILES:
            _join([spilled / f"{instant}-{name}" for instant in chosen], folder / name, database)
        return Found(
            _count(database, "wallets"),
            _count(database, "moves"),
            dict(
                database.execute("SELECT kind, count(DISTINCT link) FROM links GROUP BY kind ORDER BY kind").fetchall()
            ),
            database.execute("SELECT count(DISTINCT root) FROM members").fetchall()[0][0],
            _count(database, "members"),
        )


def _search(
    database: duckdb.DuckDBPyConnection,
    preset: Preset,
    instant: int | None,
    timed: bool,
    advance: Callable[[str], None],
) -> None:
    """Make the tables ``links``, ``joins`` and ``members`` of the transfers up to an instant."""
    until = "" if instant is None else f"WHERE block_time <= {instant}"
    database.execute(f"CREATE OR REPLACE VIEW moves AS FROM every_move {until}")
    database.execute("SET VARIABLE as_of = make_timestamp(CAST(? AS BIGINT) * 1000000)", [instant])
    database.execute(sql("facts"))
    for kind in map(KINDS.__getitem__, preset.kinds):
        if timed or not kind.needs_times:
            _find(database, kind)
        advance(kind.name)
    database.execute(sql("joins"))
    database.register("members", _components(database, "joins"))


def _join(parts: Sequence[Path], target: Path, database: duckdb.DuckDBPyConnection) -> None:
    """Write the rows of Parquet files, in order, to one file."""
    with whole_file(target) as path:
        if len(parts) == 1:
            parts[0].replace(path)
            return
        listed = ", ".join(f"'{_quoted(part)}'" for part in parts)
        database.execute("SET preserve_insertion_order = true")
        database.execute(
            f"COPY (FROM read_parquet([{listed}])) TO '{_quoted(path)}' (FORMAT parquet, COMPRESSION zstd)"
        )


@contextmanager
def _database(folder: Path, memory: str) -> Iterator[tuple[duckdb.DuckDBPyConnection, Path]]:
    """Open a database in a new folder within ``folder``. Both are removed at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    remove_leftovers(folder, _SPILL)
    with (
        tempfile.TemporaryDirectory(prefix=_SPILL, dir=folder) as spilled,
        locked(Path(spilled, _SPILL_LOCK)),
        duckdb.connect(str(Path(spilled, "entities.duckdb"))) as database,
    ):
        database.execute(f"SET memory_limit = '{memory}'")
        database.execute("SET enable_progress_bar = false")
        database.execute("SET preserve_insertion_order = false")
        yield database, Path(spilled)


def _read(database: duckdb.DuckDBPyConnection, paths: Sequence[str], until: int | None) -> None:
    """Make the view ``given`` of the transfers. Columns that the files lack are null, or one transfer a row."""
    listed = ", ".join(f"'{_quoted(path)}'" for path in paths)
    read = "read_csv" if all(path.endswith((".csv", ".csv.gz")) for path in paths) else "read_parquet"
    try:
        files = database.sql(f"FROM {read}([{listed}], union_by_name = true)")
    except duckdb.Error as error:
        raise BadSource(f"{paths[0]} can't be read as transfers: {str(error).splitlines()[0]}") from error
    kinds = dict(zip(files.columns, map(str, files.types), strict=True))
    needed = ["from_address", "to_address", *(["block_time"] if until is not None else [])]
    if missing := [name for name in needed if name not in kinds]:
        raise BadSource(f"{paths[0]} has no column {' and no column '.join(missing)}")
    columns = [name if name in kinds else f"{default} AS {name}" for name, default in _COLUMNS.items()]
    if "value" in kinds:
        columns[list(_COLUMNS).index("value")] = "TRY_CAST(value AS DOUBLE) AS value"
    if kinds.get("block_time", "").startswith("TIMESTAMP"):
        columns[list(_COLUMNS).index("block_time")] = "CAST(epoch(block_time) AS BIGINT) AS block_time"
    ends = ", ".join(f"{_ADDRESS.format(name)} AS {name}" for name in ("from_address", "to_address"))
    condition = "" if until is None else f" AND block_time <= {until}"
    database.execute(
        f"CREATE VIEW given AS FROM (SELECT {ends}, {', '.join(columns)} "
        f"FROM {read}([{listed}], union_by_name = true)) "
        f"WHERE from_address IS NOT NULL AND to_address IS NOT NULL{condition}"
    )


def _find(database: duckdb.DuckDBPyConnection, kind: Kind) -> None:
    """Add the links of one kind to the table ``links``."""
    database.execute(kind.sql)
    if kind.in_pairs:
        database.register("groups", _components(database, "pairs"))
        database.execute(f"SET VARIABLE kind = '{kind.name}'")
        database.execute(sql("groups"))
        database.execute("DROP TABLE pairs")


def _components(database: duckdb.DuckDBPyConnection, pairs: str) -> pa.Table:
    """Return the connected components of a table of pairs (a, b): ``id``, and ``root``, the component's least id."""
    ends = database.sql(f"SELECT a, b FROM {pairs}").to_arrow_table()
    ids, roots = connected(ends["a"].to_numpy(), ends["b"].to_numpy())
    return pa.table({"id": ids, "root": roots})


def connected(ones: AnyArray, others: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return the values of pairs, sorted, and the least value of each one's connected component."""
    values, places = np.unique(np.concatenate([ones, others]), return_inverse=True)
    first, second = np.split(places.astype(np.int32), 2)
    (roots,) = components(np.array([0, len(first)]), first, second, len(values))
    return values, values[roots]


def _count(database: duckdb.DuckDBPyConnection, table: str) -> int:
    return int(database.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0])


def _quoted(path: Path | str) -> str:
    return str(path).replace("'", "''")
