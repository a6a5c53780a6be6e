"""One map drawn from its rows, by the engine's own functions: what SQL found about it becomes the lake's tables.

It runs wherever the rows are: in this process, or on a worker of the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from contract.tables import TABLES
from engine.addresses import AddressFacts
from engine.balances import Balances, Held
from engine.clusters import clusters_of
from engine.graph import Graph
from engine.holders import largest_columns
from engine.labels import AddressLabel
from engine.maps import Drawing, drawn_columns, map_tables
from engine.records import Rules, TokenInfo
from engine.relationships import Link, TimeNode
from engine.tables import table_of
from engine.words import Array, from_ints, lane_of, to_ints

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
        token = self.book.known[chain, address]
        facts = scene.facts(self.rules)
        tables: dict[str, pa.Table] = {}
        if self.limit is not None:
            drawing = self._drawing(scene, token, second, facts, self.limit)
            tables |= map_tables([drawn_columns(drawing, self.computed_at)])
        if self.holders is not None:
            largest = scene.largest(self.holders)
            told = {one: facts[one] for one, _ in largest.holders} if self.details else None
            columns = largest_columns(self.rules, token, second, largest, told)
            tables["holders"] = table_of(TABLES["holders"], columns)
        return tables

    def _drawing(
        self, scene: _Scene, token: TokenInfo, second: int, facts: Mapping[str, AddressFacts], limit: int
    ) -> Drawing:
        top = scene.largest(limit)
        nobody, nothing = np.empty(0, np.int32), np.empty((0, scene.balances.shape[1]), np.uint64)
        held = Held(scene.supply, np.arange(scene.count, dtype=np.int32), scene.balances, nobody, nothing)
        graph = scene.graph(top, facts)
        known = {address: facts[address] for address, _ in top.holders}
        return Drawing(
            self.book, self.rules, token, second, self.scored, held, scene.kinds, scene.is_free,
            scene.is_free & scene.is_fresh, top, known, graph,
        )  # fmt: skip


@dataclass(frozen=True)
class _Scene:
    """The rows of a map: of its holders by rank, and of all else."""

    supply: int
    texts: list[str | None]
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
            rows["address"].to_pylist(),
            _words(rows),
            rows["kinds"].to_numpy().astype(np.uint8),
            rows["is_wallet"].to_numpy(),
            rows["is_fresh"].to_numpy(),
            pieces,
        )

    @property
    def count(self) -> int:
        return len(self.texts)

    def largest(self, most: int) -> Balances:
        """The first holders."""
        texts = [text or "" for text in self.texts[:most]]
        return Balances(self.supply, list(zip(texts, to_ints(self.balances[:most]), strict=True)), [])

    def facts(self, rules: Rules) -> dict[str, AddressFacts]:
        """What is known of the top holders and the magic nodes."""
        shown = dict(zip(self.texts, self.is_free.tolist(), strict=True))
        return {row["one"]: _fact(row, rules, shown.get(row["one"], True)) for row in self.parts["fact"]}

    def graph(self, top: Balances, facts: Mapping[str, AddressFacts]) -> Graph:
        """Magic nodes, links, time nodes and clusters."""
        magic = [row["one"] for row in sorted(self.parts["magic"], key=lambda row: row["place"])]
        windows = [TimeNode(row["one"], []) for row in sorted(self.parts["window"], key=lambda row: row["place"])]
        links: list[Link] = []
        of_links = [(row["place"], _link(row)) for row in self.parts["link"]]
        for place, link in sorted(of_links, key=lambda one: (one[0], one[1][:4])):
            (windows[place - 1].links if place else links).append(link)
        sizes = {
            address: balance
            for (address, balance), is_shown in zip(top.holders, self.is_free.tolist(), strict=False)
            if is_shown
        }
        clusters = clusters_of(sizes, magic, [(link.from_address, link.to_address) for link in links])
        return Graph({address: facts[address] for address in magic}, links, windows, clusters)


def _fact(row: Mapping[str, Any], rules: Rules, is_wallet: bool) -> AddressFacts:
    kinds = row["kinds"]
    label = AddressLabel(
        row["name"],
        row["entity_id"],
        bool(kinds & CEX),
        bool(kinds & DEX),
        bool(kinds & CONTRACT),
        bool(kinds & PAID),
    )
    # only whether it has too many transfers for a map is told of their number
    transfers = 0 if is_wallet else rules.hypernode_transfers + 1
    return AddressFacts(row["degree"], row["inward"], row["outward"], transfers, row["begun"], label)


def _link(row: Mapping[str, Any]) -> Link:
    value = int(row["low"]) + _LIMB * int(row["middle"] or 0) + _LIMB**2 * int(row["high"] or 0)
    ends = (row["one"], row["other"], row["moved_chain"], row["moved_token"])
    return Link(*ends, value, row["number"], row["begun"], row["ended"])


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
