"""Find links: the evidence that wallets have one owner, and join the wallets to entities.

The transfers may be those of a store, or bare pairs of addresses without times. All work is SQL over numbers of
addresses, on DuckDB or on a cluster. On DuckDB it is in a temporary file, so that memory stays within the limit.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from holderlake.analysis.entities.duckdb_engine import DuckDbEngine
from holderlake.analysis.entities.files import errors_of, read_transfers
from holderlake.analysis.entities.kinds import (
    CERTAIN,
    DISPERSE_TOOLS,
    EVIDENCE_KINDS,
    LEAST_CONFIDENCE,
    LEVELS,
    MAX_COUNTERPARTIES,
    MAX_WALLETS,
    EvidenceKind,
    Level,
    statement,
)
from holderlake.analysis.entities.statements import SqlEngine, Statement, Value
from holderlake.core.storage.atomic_files import SPILL_LOCK, remove_leftovers, whole_file
from holderlake.core.storage.locks import locked
from holderlake.engine.numeric.graph_kernels import components

_MEMORY: Final = "1500MB"
LINKS: Final = "cluster_links.parquet"
"""The file of links: a row for each wallet and piece of evidence, sorted by address.

Wallets with the same ``kind`` and ``link`` (int64) are linked to each other. ``address`` is the wallet, and ``through``
the address whose transfers with the wallet are the evidence: the other wallet, the funder, the deposit address, or
null. ``confidence`` is from 0 to 1, ``transfers`` the number of transfers behind the row (of wallets that act in step,
those with the wallet that this one acts with most often), and ``first_time`` and ``last_time`` are the times of the
first and last one (UTC; null without times). ``as_of`` is as in ``SEARCHES``, and numbers of links are those of one
instant.
"""
ENTITIES: Final = "entities.parquet"
"""The file of entities: a row for each wallet that evidence joins to another one, sorted by entity.

``entity`` is the least address of the entity, ``wallets`` (int64) the number of its wallets, ``confidence`` that of the
wallet's strongest join, from 0 to 1, and ``kinds`` (list of text) the kinds of evidence that the wallet has.
``certain_entity`` is the least address that joins of ``CERTAIN`` confidence connect, null without such a join.
``as_of`` is the instant as in ``SEARCHES``.
"""
JOINS: Final = "entity_joins.parquet"
"""The file of joins: pairs of wallets (``address``, ``other``), their ``confidence``, and ``as_of``.

Wallets that pairs of at least a confidence connect are the entities at that confidence.
"""
SEARCHES: Final = "entity_searches.parquet"
"""The file of searches: a row for each instant, in order.

``as_of`` is the instant (UTC) after which transfers do not count: the last one's if none was given, null without times.
``confidence`` is the least one of a join; ``transfers``, ``entities`` and ``joined`` (wallets of entities) are numbers.
"""
MARKED: Final = pa.schema([("address", pa.string()), ("is_exchange", pa.bool_())])
"""Columns of a table of addresses that join no wallets: exchanges, contracts and others with a label."""
AnyArray: TypeAlias = npt.NDArray[Any]
Advance: TypeAlias = Callable[[str], None]
_TEXT, _NUMBER, _TIME = pa.string(), pa.int64(), pa.timestamp("us")
_FILES: Final = {
    LINKS: (
        "cluster_links",
        pa.schema(
            [
                ("kind", _TEXT),
                ("link", _NUMBER),
                ("address", _TEXT),
                ("through", _TEXT),
                ("confidence", pa.float64()),
                ("transfers", _NUMBER),
                ("first_time", _TIME),
                ("last_time", _TIME),
                ("as_of", _TIME),
            ]
        ),
    ),
    JOINS: (
        "entity_joins",
        pa.schema([("address", _TEXT), ("other", _TEXT), ("confidence", pa.float64()), ("as_of", _TIME)]),
    ),
    ENTITIES: (
        "entities",
        pa.schema(
            [
                ("entity", _TEXT),
                ("address", _TEXT),
                ("wallets", _NUMBER),
                ("confidence", pa.float64()),
                ("kinds", pa.list_(_TEXT)),
                ("certain_entity", _TEXT),
                ("as_of", _TIME),
            ]
        ),
    ),
    SEARCHES: (
        "entity_searches",
        pa.schema(
            [
                ("as_of", _TIME),
                ("confidence", pa.float64()),
                ("transfers", _NUMBER),
                ("entities", _NUMBER),
                ("joined", _NUMBER),
            ]
        ),
    ),
}
"""The files, each with the name of its statement and its schema."""
_FACTS: Final = (
    "ties",
    "payments",
    "passed",
    "degrees",
    "exchanges",
    "hubs",
    "batches",
    "distributors",
    "uncovered",
    "funded",
)
"""The statements whose tables all kinds of evidence read. A statement comes after all statements that it uses."""
_BATCH_ROWS: Final = 122_880
_GROUP_ROWS: Final = 512
"""Rows of a row group. Groups are small, as a reader of few addresses needs few of them."""
_SPILL: Final = ".entities-"
_LINK: Final = """
SELECT
    levels.kind,
    CAST(link AS BIGINT) AS link,
    CAST(id AS INTEGER) AS id,
    CAST(through AS INTEGER) AS through,
    levels.confidence,
    CAST(transfers AS BIGINT) AS transfers,
    CAST(first_time AS BIGINT) AS first_time,
    CAST(last_time AS BIGINT) AS last_time
FROM {0} AS evidence
JOIN levels ON levels.kind = '{0}' AND levels.level = evidence.level
"""


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
    folder: Path,
    instants: Collection[int] = (),
    confidence: float = LEAST_CONFIDENCE,
    advance: Advance = lambda _: None,
    confidences: Mapping[Level, float] = LEVELS,
) -> Found:
    """Write the evidence in the transfers (``LINKS``) and the entities that it joins (``ENTITIES``).

    The work is done in this process, and ``_MEMORY`` is DuckDB's limit. The rest is as in ``find_on``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    remove_leftovers(folder, _SPILL)
    with (
        tempfile.TemporaryDirectory(prefix=_SPILL, dir=folder) as spilled,
        locked(Path(spilled, SPILL_LOCK)),
        DuckDbEngine(_MEMORY, Path(spilled)) as engine,
    ):
        return find_on(engine, transfers, marked, folder, instants, confidence, advance, confidences)


def find_on(
    engine: SqlEngine,
    transfers: Sequence[str],
    marked: pa.Table,
    folder: Path,
    instants: Collection[int] = (),
    confidence: float = LEAST_CONFIDENCE,
    advance: Advance = lambda _: None,
    confidences: Mapping[Level, float] = LEVELS,
) -> Found:
    """Write the evidence in the transfers (``LINKS``) and the entities that it joins (``ENTITIES``), by an engine.

    The transfers are read once for all ``instants`` (unix seconds). Transfers after an instant do not count for it;
    without instants, all count. The result is that of the last instant.

    ``transfers`` are files that the engine reads, with ``from_address`` and ``to_address``, and other columns of
    ``engine.records.TRANSFERS`` if they are known. ``marked`` (columns ``MARKED``) are addresses that join no wallets.
    ``confidence`` is the least one of evidence that joins wallets, 0 to 1. ``confidences`` are those of all levels of
    evidence. ``advance`` is called once, and for each
    instant after each kind and once more, with what is done. Raises ``BadSource`` if a file can't be read, or lacks the
    addresses, or the times that ``instants`` need.
    """
    read_transfers(engine, transfers, max(instants, default=None))
    engine.register("marked", marked.cast(MARKED))
    engine.register("tools", pa.table({"address": list(DISPERSE_TOOLS)}))
    levels = [(kind, level, p) for (kind, level), p in confidences.items()]
    engine.register("levels", pa.table(list(zip(*levels, strict=True)), ["kind", "level", "confidence"]))
    with errors_of(transfers):
        for name in ("wallets", "tokens", "every_move"):
            engine.run(statement(f"transfers/{name}"), {}, keep=True)
    advance("transfers")
    folder.mkdir(parents=True, exist_ok=True)
    moves = _only(
        engine, "SELECT count(*) AS rows, count(block_time) AS timed, max(block_time) AS last FROM every_move"
    )
    # without times, all kinds see the same transfers, so they do not confirm each other
    bases = [kind.basis if moves["timed"] else "" for kind in EVIDENCE_KINDS.values()]
    engine.register("kinds", pa.table({"kind": list(EVIDENCE_KINDS), "basis": bases}))
    with _replaced(folder) as writers:
        for instant in sorted(set(instants)) or (None,):
            values: dict[str, Value] = {
                "until": instant,
                "as_of": moves["last"] if instant is None else instant,
                "counterparties": MAX_COUNTERPARTIES,
                "confidence": confidence,
            }
            _search(engine, values, bool(moves["timed"]), advance)
            for name, (query, schema) in _FILES.items():
                for rows in _batches(engine.rows(statement(f"results/{query}"), values)):
                    writers[name].write_table(_exact(rows, schema), _GROUP_ROWS)
            advance("entities")
        link_counts = engine.rows(statement("results/counts"), {})
        return Found(
            _only(engine, "SELECT count(*) AS wallets FROM wallets")["wallets"],
            _only(engine, "SELECT count(*) AS transfers FROM moves")["transfers"],
            {row["kind"]: row["links"] for rows in link_counts for row in rows.to_pylist()},
            **_only(engine, "SELECT count(DISTINCT root) AS entities, count(*) AS joined FROM members"),
        )


@contextmanager
def _replaced(folder: Path) -> Iterator[dict[str, pq.ParquetWriter]]:
    """Yield a writer of each file. If the block raises no error, the files then replace the folder's.

    While they are replaced, the folder has no file ``SEARCHES``, so that no reader takes a mixture for a search.
    """
    with ExitStack() as parts:
        paths = {name: parts.enter_context(whole_file(folder / name)) for name in reversed(_FILES)}
        with ExitStack() as opened:
            yield {
                name: opened.enter_context(
                    pq.ParquetWriter(paths[name], schema, compression="lz4", use_dictionary=["kind"])
                )
                for name, (_, schema) in _FILES.items()
            }
        (folder / SEARCHES).unlink(missing_ok=True)


def _search(engine: SqlEngine, values: Mapping[str, Value], timed: bool, advance: Advance) -> None:
    """Make the views ``links``, ``joins`` and ``members`` of the transfers up to an instant."""
    engine.run(statement("facts/moves"), values)
    for name in _FACTS:
        engine.run(statement(f"facts/{name}"), values, keep=True)
    selects = []
    for kind in EVIDENCE_KINDS.values():
        if timed or not kind.needs_times:
            _find(engine, kind, values)
            selects.append(_LINK.format(kind.name))
        advance(kind.name)
    engine.run(Statement("links", "UNION ALL".join(selects)), {})
    engine.run(statement("results/possible_joins"), values, keep=True)
    engine.register("joins", without_crowds(engine.table("possible_joins")))
    engine.register("members", _components(engine, "joins"))
    engine.run(Statement("certain_joins", "SELECT a, b FROM joins WHERE confidence >= $certain"), {"certain": CERTAIN})
    engine.register("certain_members", _components(engine, "certain_joins"))


def _find(engine: SqlEngine, kind: EvidenceKind, values: Mapping[str, Value]) -> None:
    """Make the view of the links of one kind."""
    if not kind.in_pairs:
        engine.run(kind.statement, values, keep=True)
        return
    engine.run(Statement("pairs", kind.statement.text), values, keep=True)
    engine.register("groups", _components(engine, "pairs"))
    engine.run(Statement(kind.name, statement("facts/groups").text), {}, keep=True)


def without_crowds(joins: pa.Table, largest: int = MAX_WALLETS) -> pa.Table:
    """Return joins (``a``, ``b``, ``confidence``) without those that connect a crowd of more than ``largest`` wallets.

    All joins of a confidence that connect a crowd are dropped, from the highest confidence down: so the result does not
    depend on the order of rows, and joins of at least any confidence connect no crowd.
    """
    wallets_a, wallets_b, confidence = (joins[name].to_numpy() for name in ("a", "b", "confidence"))
    is_kept = np.zeros(len(confidence), np.bool_)
    for level in np.unique(confidence)[::-1]:
        is_kept |= confidence == level
        wallets, roots = connected(wallets_a[is_kept], wallets_b[is_kept])
        _, entity, sizes = np.unique(roots, return_inverse=True, return_counts=True)
        places = np.searchsorted(wallets, wallets_a[is_kept])
        is_kept[is_kept] = (sizes[entity[places]] <= largest) | (confidence[is_kept] > level)
    return joins.filter(pa.array(is_kept))


def _components(engine: SqlEngine, pairs: str) -> pa.Table:
    """Return the connected components of a view of pairs (a, b): ``id``, and ``root``, the component's least id."""
    engine.run(Statement("ends", f"SELECT a, b FROM {pairs}"), {})
    ends = engine.table("ends")
    ids, roots = connected(ends["a"].to_numpy(), ends["b"].to_numpy())
    return pa.table({"id": ids, "root": roots})


def connected(wallets_a: AnyArray, wallets_b: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return the values of pairs, sorted, and the least value of each one's connected component."""
    values, places = np.unique(np.concatenate([wallets_a, wallets_b]), return_inverse=True)
    places_a, places_b = np.split(places.astype(np.int32), 2)
    (roots,) = components(np.array([0, len(places_a)]), places_a, places_b, len(values))
    return values, values[roots]


def _only(engine: SqlEngine, query: str) -> dict[str, Any]:
    """Return the only row of a query."""
    engine.run(Statement("one_row", query), {})
    (row,) = engine.table("one_row").to_pylist()
    return dict(row)


def _batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the rows in tables of about ``_BATCH_ROWS`` rows."""
    buffer: list[pa.RecordBatch] = []
    for batch in batches:
        buffer.append(batch)
        if sum(batch.num_rows for batch in buffer) >= _BATCH_ROWS:
            yield pa.Table.from_batches(buffer)
            buffer = []
    if buffer:
        yield pa.Table.from_batches(buffer)


def _exact(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows in a schema. Unix seconds become times."""
    columns = [
        rows[field.name].cast(pa.timestamp("s")).cast(field.type)
        if pa.types.is_timestamp(field.type)
        else rows[field.name].cast(field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)
