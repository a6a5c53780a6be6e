"""The floor of ``benchmarks.ingest``: a backfill of maps as one would write it by hand, for speed and nothing else.

It trusts the provider, pays again after a crash, and knows one shape of one answer. Amounts are exact all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

AMOUNT = pa.decimal128(38, 18)
INSTANT = pa.timestamp("us")
DETAILS = (
    "degree",
    "inward_relations",
    "outward_relations",
    "is_supernode",
    "is_contract",
    "is_cex",
    "is_dex",
    "label",
    "entity_id",
    "first_activity_date",
    "is_paid_label",
)
SUPPLY = ("cexs", "dexs", "contracts", "fresh_wallets", "top_10_adjusted", "bundles")
SCORES = ("service_score", "gini_index", "herfindahl_hirschman_index", "nakamoto_coefficient")


class Fast(msgspec.Struct, gc=False):
    pass


class Details(Fast):
    degree: int
    inward_relations: int
    outward_relations: int
    is_supernode: bool
    is_contract: bool
    is_cex: bool
    is_dex: bool
    label: str | None
    entity_id: str | None
    first_activity_date: str | None
    is_paid_label: bool


class Held(Fast):
    amount: msgspec.Raw
    rank: int
    share: float


class Node(Fast):
    address: str
    address_details: Details
    is_shown_on_map: bool
    holder_data: Held | None = None


class Key(Fast):
    chain: str
    address: str


class Moved(Fast):
    total_value: msgspec.Raw
    total_transfers: int
    first_date: int
    last_date: int
    token_key: Key


class Relationship(Fast):
    from_address: str
    to_address: str
    rel_type: str
    data: Moved


class Window(Fast):
    address: str
    relationships: list[Relationship]


class Nodes(Fast):
    top_holders: list[Node]
    magic_nodes: list[Node]
    time_nodes: list[Window]


class Cluster(Fast):
    share: float
    amount: msgspec.Raw
    holder_count: int
    holders: list[str]
    magic_node_count: int
    magic_nodes: list[str]


class Metadata(Fast):
    dt_update: str


class Metrics(Fast):
    supply_stats: dict[str, float | None]
    scores: dict[str, float | None]


class Answer(Fast):
    metadata: Metadata
    metrics: Metrics
    nodes: Nodes
    relationships: list[Relationship]
    clusters: list[Cluster]


def backfill(url: str, tokens: Sequence[str], days: Sequence[datetime], home: Path, concurrency: int) -> None:
    """Fetch the maps of all tokens and days, write one Parquet file per table and day, and load them into DuckDB."""
    asyncio.run(_fetch_all(url, tokens, days, home, concurrency))
    with duckdb.connect(str(home / "warehouse.duckdb")) as connection:
        for table in ("maps", "map_nodes", "grouped_transfers", "clusters", "cluster_members"):
            connection.execute(f"CREATE TABLE {table} AS FROM read_parquet('{home}/{table}/*.parquet')")


async def _fetch_all(url: str, tokens: Sequence[str], days: Sequence[datetime], home: Path, concurrency: int) -> None:
    gate = asyncio.Semaphore(max(1, concurrency // len(tokens)) + 1)
    decoder = msgspec.json.Decoder(Answer)
    connector = aiohttp.TCPConnector(limit=concurrency)
    async with aiohttp.ClientSession(url, connector=connector, auto_decompress=False) as session:

        async def one(token: str, at: int) -> tuple[str, Answer]:
            query = {"timestamp": str(at), "return_nodes": "true", "return_relationships": "true"}
            async with session.get(f"/v0/tokens/map/eth/{token}", params=query) as answer:
                return token, decoder.decode(await answer.read())

        async def day(when: datetime) -> None:
            async with gate:
                at = int(when.replace(tzinfo=UTC).timestamp())
                maps = await asyncio.gather(*(one(token, at) for token in tokens))
                await asyncio.to_thread(_write, maps, when, home)

        await asyncio.gather(*map(day, days))


def _write(maps: Sequence[tuple[str, Answer]], when: datetime, home: Path) -> None:
    for table, columns in _columns(maps).items():
        rows = len(columns["token_address"])
        common = {"chain": pa.repeat("eth", rows), "as_of": pa.repeat(pa.scalar(when, INSTANT), rows)}
        folder = home / table
        folder.mkdir(exist_ok=True)
        rows = pa.table({**common, **columns})
        pq.write_table(rows, folder / f"{when:%Y%m%d}.parquet", compression="zstd")


def _columns(maps: Sequence[tuple[str, Answer]]) -> dict[str, dict[str, Any]]:
    nodes = [(t, "top_holder", n) for t, m in maps for n in m.nodes.top_holders]
    nodes += [(t, "magic", n) for t, m in maps for n in m.nodes.magic_nodes]
    links = [(t, None, r) for t, m in maps for r in m.relationships]
    links += [(t, w, r) for t, m in maps for w, n in enumerate(m.nodes.time_nodes, 1) for r in n.relationships]
    clusters = [(t, n, c) for t, m in maps for n, c in enumerate(m.clusters, 1)]
    members = [(t, n, "holder", a) for t, n, c in clusters for a in c.holders]
    members += [(t, n, "magic", a) for t, n, c in clusters for a in c.magic_nodes]
    return {
        "maps": {
            "token_address": [t for t, _ in maps],
            "dt_update": [m.metadata.dt_update for _, m in maps],
            **{name: [m.metrics.supply_stats[name] for _, m in maps] for name in SUPPLY},
            **{name: [m.metrics.scores[name] for _, m in maps] for name in SCORES},
        },
        "map_nodes": {
            "token_address": [t for t, _, _ in nodes],
            "kind": [kind for _, kind, _ in nodes],
            "address": [n.address for _, _, n in nodes],
            "is_shown_on_map": [n.is_shown_on_map for _, _, n in nodes],
            "rank": [n.holder_data.rank if n.holder_data else None for _, _, n in nodes],
            "share": [n.holder_data.share if n.holder_data else None for _, _, n in nodes],
            "amount": _amounts([n.holder_data.amount if n.holder_data else None for _, _, n in nodes]),
            **{name: [getattr(n.address_details, name) for _, _, n in nodes] for name in DETAILS},
        },
        "grouped_transfers": {
            "token_address": [t for t, _, _ in links],
            "time_node": pa.array([w for _, w, _ in links], pa.int32()),
            "from_address": [r.from_address for _, _, r in links],
            "to_address": [r.to_address for _, _, r in links],
            "rel_type": [r.rel_type for _, _, r in links],
            "transfer_chain": [r.data.token_key.chain for _, _, r in links],
            "transfer_token": [r.data.token_key.address for _, _, r in links],
            "total_value": _amounts([r.data.total_value for _, _, r in links]),
            "total_transfers": [r.data.total_transfers for _, _, r in links],
            "first_date": pa.array([r.data.first_date for _, _, r in links]).cast(pa.timestamp("s")),
            "last_date": pa.array([r.data.last_date for _, _, r in links]).cast(pa.timestamp("s")),
        },
        "clusters": {
            "token_address": [t for t, _, _ in clusters],
            "cluster_id": [n for _, n, _ in clusters],
            "share": [c.share for _, _, c in clusters],
            "amount": _amounts([c.amount for _, _, c in clusters]),
            "holder_count": [c.holder_count for _, _, c in clusters],
            "magic_node_count": [c.magic_node_count for _, _, c in clusters],
        },
        "cluster_members": {
            "token_address": [t for t, _, _, _ in members],
            "cluster_id": [n for _, n, _, _ in members],
            "kind": [kind for _, _, kind, _ in members],
            "address": [a for _, _, _, a in members],
        },
    }


def _amounts(raws: Sequence[msgspec.Raw | None]) -> pa.Array:
    return pa.array([None if raw is None else bytes(raw) for raw in raws], pa.string()).cast(AMOUNT)
