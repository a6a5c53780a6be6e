"""Compute the lake's tables of one map, from the rows of the cluster's SQL, with the engine's own functions.

The functions run in this process or on a worker of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holderlake.contract.rules import Rules
from holderlake.engine.catalog.labels import UNLABELLED, AddressLabel
from holderlake.engine.files.adjacency import NEVER
from holderlake.engine.maps.graph import Graphs, Top, connected
from holderlake.engine.maps.links import Links
from holderlake.engine.maps.maps import MapData, map_tables
from holderlake.engine.numeric.bigint import Array, from_ints, width_for
from holderlake.engine.queries.addresses import CEX, CONTRACT, DEX, Activity, detail_columns
from holderlake.engine.queries.balance_rows import Rows
from holderlake.engine.queries.holders import RankedHolders, holders_table
from holderlake.engine.records import TokenInfo

PAID_LABEL: Final = 8
"""Kind of an address with a paid label, in addition to ``CEX``, ``DEX`` and ``CONTRACT``."""
_LIMB: Final = 10**26

MAP_ROWS: Final = pa.schema(
    [
        ("chain", pa.string()),
        ("as_of", pa.int64()),
        ("token_address", pa.string()),
        ("name", pa.string()),
        ("rows", pa.binary()),
    ]
)
"""Columns of a result: chain, unix second, token address, name of one of the map's tables, and the table as an Arrow
stream."""


@dataclass(frozen=True)
class TokenMetadata:
    """Metadata of tokens by (chain, address)."""

    infos: Mapping[tuple[str, str], TokenInfo]

    def tokens(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], TokenInfo]:
        """Return the metadata of the known tokens among ``keys``, by (chain, address)."""
        return {key: self.infos[key] for key in keys if key in self.infos}


@dataclass(frozen=True)
class MapJob:
    """Settings for the tables of all maps. An instance is sent to the workers.

    ``limit`` is the number of top holders of a map (None for no maps). ``scored`` is True if its service score is
    computed. ``holders`` is the length of a list of holders (None for no lists). ``details`` is True if the list has
    address details. ``computed_at`` is the time in the column ``dt_update``.
    """

    metadata: TokenMetadata
    rules: Rules
    limit: int | None
    scored: bool
    holders: int | None
    details: bool
    computed_at: datetime

    def rows(self, key: tuple[str, int, str], holders: pa.Table, parts: pa.Table) -> pa.Table:
        """Return all tables of one map as rows of ``MAP_ROWS``. There are no rows if the token has no holders.

        ``key`` is chain, unix second and token address. ``holders`` and ``parts`` have the rows of this map from the
        statements ``holders`` and ``map_parts``.
        """
        tables = self._tables(key, holders, parts)
        return pa.table(
            {
                "chain": pa.repeat(pa.scalar(key[0]), len(tables)),
                "as_of": pa.repeat(pa.scalar(key[1], pa.int64()), len(tables)),
                "token_address": pa.repeat(pa.scalar(key[2]), len(tables)),
                "name": pa.array(list(tables), pa.string()),
                "rows": pa.array([stream_of(rows) for rows in tables.values()], pa.binary()),
            }
        )

    def _tables(self, key: tuple[str, int, str], holders: pa.Table, parts: pa.Table) -> dict[str, pa.Table]:
        chain, second, address = key
        rows = _MapRows.of(holders, parts)
        if not rows.count:
            return {}
        token, seconds = self.metadata.infos[chain, address], np.array([second])
        tables: dict[str, pa.Table] = {}
        if self.limit is not None:
            tables |= map_tables(self._map_data(rows, token, seconds, self.limit), self.computed_at)
        if self.holders is not None:
            addresses = rows.texts[: self.holders]
            nodes = np.arange(len(addresses))
            details = None
            if self.details:
                details = detail_columns(rows.activity(addresses), rows.labels(addresses), nodes, self.rules)
            ranked = RankedHolders(np.zeros(len(nodes), np.int64), nodes + 1, nodes, rows.balances[: self.holders])
            texts = pa.array(addresses, pa.string())
            tables["holders"] = holders_table(token, seconds, [rows.supply], ranked, texts, details)
        return tables

    def _map_data(self, rows: _MapRows, token: TokenInfo, seconds: Array, limit: int) -> MapData:
        graphs, top, keys = rows.graphs(limit)
        texts = graphs.texts.to_pylist()
        magic = [texts[node] for node in graphs.magic[0].tolist()]
        return MapData(
            lookup=self.metadata,
            keys=keys,
            rules=self.rules,
            token=token,
            seconds=seconds,
            scored=self.scored,
            supplies=[rows.supply],
            marked=rows.holder_rows(),
            kinds=rows.kinds,
            free=rows.holder_rows(rows.is_free),
            fresh=rows.holder_rows(rows.is_free & rows.is_fresh),
            top=top,
            graphs=graphs,
            node_activity=rows.activity([*rows.texts[:limit], *magic]),
            labels=rows.labels(texts),
            negatives=[None],  # the statements keep only holders, so negative balances are not reported
        )


@dataclass(frozen=True)
class _MapRows:
    """The input rows of one map.

    ``texts`` (addresses), ``balances`` (limbs), ``kinds``, ``is_free`` (the map may show the holder) and ``is_fresh``
    (a fresh wallet by the rules) have one value for each holder, by rank. ``supply`` is raw. ``parts`` has the other
    rows by kind: ``fact`` (activity of addresses), ``magic`` (magic nodes), ``link`` and ``window`` (time nodes).
    """

    supply: int
    texts: list[str]
    balances: Array
    kinds: Array
    is_free: Array
    is_fresh: Array
    parts: Mapping[str, list[dict[str, Any]]]

    @staticmethod
    def of(holders: pa.Table, parts: pa.Table) -> _MapRows:
        rows = holders.take(pc.sort_indices(holders, sort_keys=[("rank", "ascending")])).combine_chunks()
        zero_address = rows.filter(pc.equal(rows["rank"], 0))
        rows = rows.filter(pc.greater(rows["rank"], 0))
        pieces: dict[str, list[dict[str, Any]]] = {"fact": [], "magic": [], "link": [], "window": []}
        for row in parts.to_pylist():
            pieces[row["piece"]].append(row)
        return _MapRows(
            -sum(_integers(zero_address)),
            [text or "" for text in rows["address"].to_pylist()],
            _limbs(rows),
            rows["kinds"].to_numpy().astype(np.uint8),
            rows["is_wallet"].to_numpy(),
            rows["is_fresh"].to_numpy(),
            pieces,
        )

    @property
    def count(self) -> int:
        return len(self.texts)

    def holder_rows(self, mask: Array | None = None) -> Rows:
        """Return the holders' balances, each valid at the map's one instant. ``mask`` (a boolean for each holder)
        selects holders; None selects all."""
        once = np.zeros(self.count, np.int32)
        rows = Rows(np.arange(self.count), self.balances, once, once + np.int32(1))
        return rows if mask is None else rows.at(mask)

    def activity(self, texts: Sequence[str]) -> Activity:
        """Return the numbers of counterparties and the first times of the addresses ``texts``, from the ``fact`` rows.

        The numbers of transfers are 0. They would only serve to find hypernodes, and the SQL has already found those.
        """
        facts = {row["one"]: row for row in self.parts["fact"]}
        rows = [facts[text] for text in texts]
        relations = np.array([(row["degree"], row["inward"], row["outward"]) for row in rows], np.int64)
        begun = [NEVER if row["begun"] is None else row["begun"] for row in rows]
        return Activity(relations.reshape(-1, 3), np.zeros(len(rows), np.int64), np.array(begun, np.int64))

    def labels(self, texts: Sequence[str]) -> list[AddressLabel]:
        """Return the label of each address; ``UNLABELLED`` if it has none."""
        facts = {row["one"]: row for row in self.parts["fact"]}
        return [_label(facts[text]) if text in facts else UNLABELLED for text in texts]

    def graphs(self, limit: int) -> tuple[Graphs, Top, dict[int, tuple[str, str]]]:
        """Return the graph of the map, its top holders (at most ``limit``), and the tokens that its links transfer.

        The tokens are pairs (chain, address). The graph's links refer to them by the keys of the dictionary."""
        addresses = self.texts[:limit]
        magic = [row["one"] for row in sorted(self.parts["magic"], key=lambda row: row["place"])]
        windows = [row["one"] for row in sorted(self.parts["window"], key=lambda row: row["place"])]
        rows = sorted(self.parts["link"], key=lambda row: (row["place"], *_ends(row)))
        texts = sorted({*addresses, *magic, *windows, *(row[end] for row in rows for end in ("one", "other"))})
        node_of = {text: node for node, text in enumerate(texts)}
        tokens = sorted({(row["moved_chain"], row["moved_token"]) for row in rows})
        number_of = {key: number for number, key in enumerate(tokens)}

        def column(values: Iterable[int]) -> Array:
            return np.array(list(values), np.int64)

        sums = [_integer(row) for row in rows]
        links = Links(
            np.zeros(len(rows), np.int64),
            column(row["place"] - 1 for row in rows),
            column(node_of[row["one"]] for row in rows),
            column(node_of[row["other"]] for row in rows),
            column(number_of[row["moved_chain"], row["moved_token"]] for row in rows),
            column(row["number"] for row in rows),
            column(row["begun"] for row in rows),
            column(row["ended"] for row in rows),
            from_ints(sums, width_for(max(sums, default=0))),
        )
        nodes, magic_nodes = (
            column(node_of[text] for text in addresses),
            column(node_of[text] for text in magic)[None, :],
        )
        top = Top(np.zeros(len(addresses), np.int64), nodes, self.balances[:limit], self.is_free[:limit])
        timed = column(node_of[text] for text in windows)[None, :]
        graphs = Graphs(
            np.arange(len(texts)),
            pa.array(texts, pa.string()),
            nodes,
            magic_nodes,
            timed,
            links,
            connected(len(texts), top, nodes, magic_nodes, timed, links),
        )
        return graphs, top, dict(enumerate(tokens))


def _label(row: Mapping[str, Any]) -> AddressLabel:
    kinds = row["kinds"]
    flags = (bool(kinds & kind) for kind in (CEX, DEX, CONTRACT, PAID_LABEL))
    return AddressLabel(row["name"], row["entity_id"], *flags)


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


def _limbs(rows: pa.Table) -> Array:
    """Return the raw balances of the rows as limbs (uint64, lowest first) in the shape (rows, limbs)."""
    if rows.num_rows and rows["middle"].null_count < rows.num_rows:
        plain = _integers(rows)
        return from_ints(plain, width_for(max(plain)))
    low = rows["low"].combine_chunks() if rows.num_rows else pa.array([], pa.decimal128(38, 0))
    if isinstance(low, pa.ChunkedArray):
        low = pa.concat_arrays(low.chunks)
    limbs = np.frombuffer(low.buffers()[1] or b"", np.uint64)
    return limbs[2 * low.offset : 2 * (low.offset + len(low))].reshape(-1, 2)


def stream_of(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def read_stream(stream: bytes) -> pa.Table:
    """Return the rows of an Arrow IPC stream."""
    with pa.ipc.open_stream(stream) as reader:
        return reader.read_all()
