"""One map drawn from its rows, by the engine's own functions: what SQL found about it becomes the lake's tables.

It runs wherever the rows are: in this process, or on a worker of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holderlake.engine.catalog.labels import UNLABELLED, AddressLabel
from holderlake.engine.files.adjacency import NEVER
from holderlake.engine.maps.graph import Graphs, Top, connected
from holderlake.engine.maps.links import Links
from holderlake.engine.maps.maps import Drawing, drawn_tables
from holderlake.engine.numeric.bigint import Array, from_ints, lane_of
from holderlake.engine.queries.addresses import Activity, detail_columns
from holderlake.engine.queries.balances import Rows
from holderlake.engine.queries.holders import Listed, listed_table
from holderlake.engine.records import Rules, TokenInfo

CEX: Final = 1
DEX: Final = 2
CONTRACT: Final = 4
PAID: Final = 8
_LIMB: Final = 10**26

DRAWN: Final = pa.schema(
    [
        ("chain", pa.string()),
        ("as_of", pa.int64()),
        ("token_address", pa.string()),
        ("name", pa.string()),
        ("rows", pa.binary()),
    ]
)
"""A table of a map a row: the chain, the second, the token, the table's name and its rows as an Arrow stream."""


@dataclass(frozen=True)
class Book:
    """The tokens of a world."""

    known: Mapping[tuple[str, str], TokenInfo]

    def tokens(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], TokenInfo]:
        """Metadata of the tokens that are known among the keys."""
        return {key: self.known[key] for key in keys if key in self.known}


@dataclass(frozen=True)
class Task:
    """What is to be made of each map: ``limit`` top holders of a map (None: no maps), ``holders`` of a list (None: no
    lists) and whether with details."""

    book: Book
    rules: Rules
    limit: int | None
    scored: bool
    holders: int | None
    details: bool
    computed_at: datetime

    def draw(self, key: tuple[str, int, str], holders: pa.Table, parts: pa.Table) -> pa.Table:
        """The tables of one map (chain, second, token), see ``DRAWN``. None where nobody holds the token."""
        found = self.tables(key, holders, parts)
        return pa.table(
            {
                "chain": pa.repeat(pa.scalar(key[0]), len(found)),
                "as_of": pa.repeat(pa.scalar(key[1], pa.int64()), len(found)),
                "token_address": pa.repeat(pa.scalar(key[2]), len(found)),
                "name": pa.array(list(found), pa.string()),
                "rows": pa.array([_stream(rows) for rows in found.values()], pa.binary()),
            }
        )

    def tables(self, key: tuple[str, int, str], holders: pa.Table, parts: pa.Table) -> dict[str, pa.Table]:
        """The lake's tables of one map by name."""
        chain, second, address = key
        scene = _Scene.of(holders, parts)
        if not scene.count:
            return {}
        token, seconds = self.book.known[chain, address], np.array([second])
        tables: dict[str, pa.Table] = {}
        if self.limit is not None:
            tables |= drawn_tables(self._drawing(scene, token, seconds, self.limit), self.computed_at)
        if self.holders is not None:
            mine = scene.texts[: self.holders]
            nodes = np.arange(len(mine))
            told = None
            if self.details:
                known, labels = scene.told(mine), scene.labels(mine)
                told = detail_columns(known, labels, nodes, self.rules)
            listed = Listed(np.zeros(len(mine), np.int64), nodes + 1, nodes, scene.balances[: self.holders])
            texts = pa.array(mine, pa.string())
            tables["holders"] = listed_table(token, seconds, [scene.supply], listed, texts, told)
        return tables

    def _drawing(self, scene: _Scene, token: TokenInfo, seconds: Array, limit: int) -> Drawing:
        graphs, top, keys = scene.graphs(limit)
        texts = graphs.texts.to_pylist()
        magic = [texts[node] for node in graphs.magic[0].tolist()]
        return Drawing(
            self.book, keys, self.rules, token, seconds, self.scored, [scene.supply], scene.held(), scene.kinds,
            scene.held(scene.is_free), scene.held(scene.is_free & scene.is_fresh), top, graphs,
            scene.told([*scene.texts[:limit], *magic]), scene.labels(texts),
            [None],  # the statements keep holders only, so addresses below zero are not reported
        )  # fmt: skip


@dataclass(frozen=True)
class _Scene:
    """The rows of a map: of its holders by rank, and of all else."""

    supply: int
    texts: list[str]
    balances: Array
    kinds: Array
    is_free: Array
    is_fresh: Array
    parts: Mapping[str, list[dict[str, Any]]]

    @staticmethod
    def of(holders: pa.Table, parts: pa.Table) -> _Scene:
        rows = holders.take(pc.sort_indices(holders, sort_keys=[("rank", "ascending")])).combine_chunks()
        owed = rows.filter(pc.equal(rows["rank"], 0))
        rows = rows.filter(pc.greater(rows["rank"], 0))
        pieces: dict[str, list[dict[str, Any]]] = {"fact": [], "magic": [], "link": [], "window": []}
        for row in parts.to_pylist():
            pieces[row["piece"]].append(row)
        return _Scene(
            -sum(_integers(owed)),
            [text or "" for text in rows["address"].to_pylist()],
            _words(rows),
            rows["kinds"].to_numpy().astype(np.uint8),
            rows["is_wallet"].to_numpy(),
            rows["is_fresh"].to_numpy(),
            pieces,
        )

    @property
    def count(self) -> int:
        return len(self.texts)

    def held(self, mask: Array | None = None) -> Rows:
        """The holders, or some of them, as rows of one instant."""
        once = np.zeros(self.count, np.int32)
        rows = Rows(np.arange(self.count), self.balances, once, once + np.int32(1))
        return rows if mask is None else rows.at(mask)

    def told(self, texts: Sequence[str]) -> Activity:
        """What is known of the transfers of addresses."""
        facts = {row["one"]: row for row in self.parts["fact"]}
        rows = [facts[text] for text in texts]
        relations = np.array([(row["degree"], row["inward"], row["outward"]) for row in rows], np.int64)
        begun = [NEVER if row["begun"] is None else row["begun"] for row in rows]
        # their number was judged already, where it was counted
        return Activity(relations.reshape(-1, 3), np.zeros(len(rows), np.int64), np.array(begun, np.int64))

    def labels(self, texts: Sequence[str]) -> list[AddressLabel]:
        """What is known of addresses by name."""
        facts = {row["one"]: row for row in self.parts["fact"]}
        return [_label(facts[text]) if text in facts else UNLABELLED for text in texts]

    def graphs(self, limit: int) -> tuple[Graphs, Top, dict[int, tuple[str, str]]]:
        """Magic nodes, links, time nodes and clusters; the top holders; and the keys of the links' tokens."""
        mine = self.texts[:limit]
        magic = [row["one"] for row in sorted(self.parts["magic"], key=lambda row: row["place"])]
        windows = [row["one"] for row in sorted(self.parts["window"], key=lambda row: row["place"])]
        found = sorted(self.parts["link"], key=lambda row: (row["place"], *_ends(row)))
        texts = sorted({*mine, *magic, *windows, *(row[end] for row in found for end in ("one", "other"))})
        node_of = {text: node for node, text in enumerate(texts)}
        tokens = sorted({(row["moved_chain"], row["moved_token"]) for row in found})
        number_of = {key: number for number, key in enumerate(tokens)}

        def column(values: Iterable[int]) -> Array:
            return np.array(list(values), np.int64)

        sums = [_integer(row) for row in found]
        links = Links(
            np.zeros(len(found), np.int64),
            column(row["place"] - 1 for row in found),
            column(node_of[row["one"]] for row in found),
            column(node_of[row["other"]] for row in found),
            column(number_of[row["moved_chain"], row["moved_token"]] for row in found),
            column(row["number"] for row in found),
            column(row["begun"] for row in found),
            column(row["ended"] for row in found),
            from_ints(sums, lane_of(max(sums, default=0))),
        )
        nodes, helpers = column(node_of[text] for text in mine), column(node_of[text] for text in magic)[None, :]
        top = Top(np.zeros(len(mine), np.int64), nodes, self.balances[:limit], self.is_free[:limit])
        timed = column(node_of[text] for text in windows)[None, :]
        graphs = Graphs(
            np.arange(len(texts)),
            pa.array(texts, pa.string()),
            nodes,
            helpers,
            timed,
            links,
            connected(len(texts), top, nodes, helpers, timed, links),
        )
        return graphs, top, dict(enumerate(tokens))


def _label(row: Mapping[str, Any]) -> AddressLabel:
    kinds = row["kinds"]
    told = (bool(kinds & kind) for kind in (CEX, DEX, CONTRACT, PAID))
    return AddressLabel(row["name"], row["entity_id"], *told)


def _ends(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    return row["one"], row["other"], row["moved_chain"], row["moved_token"]


def _integer(row: Mapping[str, Any]) -> int:
    return int(row["low"]) + _LIMB * int(row["middle"] or 0) + _LIMB**2 * int(row["high"] or 0)


def _integers(rows: pa.Table) -> list[int]:
    columns = (rows[name].to_pylist() for name in ("low", "middle", "high"))
    return [
        int(low) + _LIMB * int(middle or 0) + _LIMB**2 * int(high or 0)
        for low, middle, high in zip(*columns, strict=True)
    ]


def _words(rows: pa.Table) -> Array:
    """The balances as the engine's words."""
    if rows.num_rows and rows["middle"].null_count < rows.num_rows:
        plain = _integers(rows)
        return from_ints(plain, lane_of(max(plain)))
    low = rows["low"].combine_chunks() if rows.num_rows else pa.array([], pa.decimal128(38, 0))
    if isinstance(low, pa.ChunkedArray):
        low = pa.concat_arrays(low.chunks)
    whole = np.frombuffer(low.buffers()[1] or b"", np.uint64)
    return whole[2 * low.offset : 2 * (low.offset + len(low))].reshape(-1, 2)


def _stream(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def rows_of(stream: bytes) -> pa.Table:
    """The rows of such a stream."""
    with pa.ipc.open_stream(stream) as reader:
        return reader.read_all()
