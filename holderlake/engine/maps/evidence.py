"""Evidence of clusters: the links that connect the members of each cluster, and single transfers of each link.

A link connects two members directly, or a member and a time node. ``graph`` computes the links, for maps and for
evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from holderlake.core.contract.requests import MapOptions
from holderlake.core.contract.tables import AMOUNT_TYPE, INSTANT_TYPE, amount_columns, column
from holderlake.core.contract.times import from_unix
from holderlake.engine.errors import UnknownCluster
from holderlake.engine.maps.clusters import Cluster
from holderlake.engine.maps.graph import Graph, graph_as_of
from holderlake.engine.maps.relationships import Link
from holderlake.engine.queries.balances import largest_balances, no_holders, supported_token
from holderlake.engine.queries.tables import built, token_units
from holderlake.engine.records import TokenInfo
from holderlake.engine.store.store import Store

_LINK: Final = (
    column("cluster_id", pa.int64(), "The cluster, 1 is the largest of the map"),
    column("from_address", pa.string(), "Sender"),
    column("to_address", pa.string(), "Receiver"),
    column("transfer_chain", pa.string(), "Chain of the token that was sent"),
    column("transfer_token", pa.string(), "Address of the token that was sent, or native"),
    column("time_node", pa.int64(), "Number of the time node on the map; null between wallets", required=False),
)

LINKS: Final = pa.schema(
    [
        _LINK[0],
        _LINK[1],
        column("from_kind", pa.string(), "holder, magic or time"),
        _LINK[2],
        column("to_kind", pa.string(), "holder, magic or time"),
        *_LINK[3:],
        column("token_symbol", pa.string(), "Symbol of the token that was sent"),
        column("total_value", AMOUNT_TYPE, "Sum of the transfers, in token units; null from 10^20 on", required=False),
        column("total_value_exact", pa.string(), "The exact sum if total_value can't hold it", required=False),
        column("total_value_raw", pa.string(), "Sum of the transfers as a raw integer, exact"),
        column("total_transfers", pa.int64(), "Number of transfers"),
        column("first_date", INSTANT_TYPE, "First of the transfers, UTC"),
        column("last_date", INSTANT_TYPE, "Last of the transfers, UTC"),
        column("strength", pa.int64(), "1 is the strongest link of its cluster"),
    ]
)

TRANSFERS_OF_LINKS: Final = pa.schema(
    [
        *_LINK,
        column("tx_hash", pa.string(), "Transaction, if the source has it", required=False),
        column("block_number", pa.int64(), "Block"),
        column("block_time", INSTANT_TYPE, "Time of the block, UTC"),
        column("log_index", pa.int64(), "Place in the block"),
        column("token_id", pa.string(), "The item of an NFT", required=False),
        column("value_raw", pa.string(), "Value of the transfer as a raw integer, exact"),
    ]
)

_REQUESTED: Final = pa.schema(
    [
        *_LINK,
        column("strength", pa.int64(), "Place in the answer"),
        column("first_time", pa.int64(), "First of the transfers, unix seconds"),
        column("last_time", pa.int64(), "Last of the transfers, unix seconds"),
    ]
)

_EARLIEST: Final = """
WITH matching AS (
    SELECT
        requested.*, tx_hash, block_number, block_time, log_index, token_id, value,
        row_number() OVER (
            PARTITION BY cluster_id, strength
            ORDER BY block_time, block_number, log_index, tx_hash NULLS FIRST, token_id NULLS FIRST, value
        ) AS place
    FROM read_parquet($files) AS transfer
    JOIN requested
        ON transfer.from_address = requested.from_address
        AND transfer.to_address = requested.to_address
        AND transfer.chain = requested.transfer_chain
        AND transfer.token_address = requested.transfer_token
    WHERE block_time BETWEEN first_time AND last_time AND value <> '0'
)
SELECT * EXCLUDE (strength, first_time, last_time, place)
FROM matching
WHERE place <= $most
ORDER BY cluster_id, strength, place
"""


@dataclass(frozen=True)
class _RankedLink:
    """A link of a cluster and its rank ``strength`` among the cluster's links; 1 is the link with the most
    transfers."""

    cluster_id: int
    strength: int
    link: Link


def cluster_evidence(
    store: Store,
    chain: str,
    token_address: str,
    as_of: datetime,
    options: MapOptions,
    cluster_id: int | None,
    transfers_per_link: int,
) -> dict[str, pa.Table]:
    """Return the tables ``links`` and ``transfers`` of the cluster ``cluster_id``, or of all clusters if it is None.

    A link is a relationship of the map. It groups all transfers of a token from one address to another, or those in the
    window of a time node.

    ``links`` (schema ``LINKS``) has the links between members of a cluster, and between members and the time nodes that
    connect them. It is sorted by cluster, then by strength. The strongest link has the most transfers. Further criteria
    are the longest time between first and last transfer, the earliest first transfer, addresses, token and time node.

    ``transfers`` (schema ``TRANSFERS_OF_LINKS``) has the ``transfers_per_link`` earliest transfers of each link, in the
    order of the links. Later transfers do not change this table.

    Raises ``UnknownToken``, ``UnsupportedToken`` or ``NoHolders``. Raises ``UnknownCluster`` if the map has no cluster
    with this number.
    """
    token = supported_token(store, chain, token_address)
    largest = largest_balances(store, chain, token_address, as_of, options.limit)
    if not largest.holders:
        raise no_holders(token, as_of)
    graph = graph_as_of(store, token, largest, as_of, options)
    if cluster_id is not None and not 1 <= cluster_id <= len(graph.clusters):
        raise _unknown_cluster(token, as_of, cluster_id, len(graph.clusters))
    ranked = [
        ranked_link
        for ranked_link in _ranked_links(graph.clusters, graph.links)
        if cluster_id in (None, ranked_link.cluster_id)
    ]
    return {
        "links": built(LINKS, _link_rows(store, ranked, graph)),
        "transfers": _transfers(store, ranked, transfers_per_link),
    }


def _unknown_cluster(token: TokenInfo, as_of: datetime, cluster_id: int, clusters: int) -> UnknownCluster:
    remedy = f"name a cluster from 1 to {clusters}" if clusters else "it has no clusters at this time"
    return UnknownCluster(
        f"the map of {token.name} ({token.address} on {token.chain}) has no cluster {cluster_id} at "
        f"{as_of.isoformat()}Z; {remedy}"
    )


def _ranked_links(clusters: Sequence[Cluster], links: Iterable[Link]) -> list[_RankedLink]:
    """Return the links of each cluster with their ranks, the strongest first."""
    cluster_of = {
        address: number
        for number, cluster in enumerate(clusters, start=1)
        for address in (*cluster.holders, *cluster.magic_nodes)
    }
    of_cluster: dict[int, list[Link]] = {number: [] for number in range(1, len(clusters) + 1)}
    for link in links:
        # both ends are in one cluster, or one of them is a time node
        number = cluster_of.get(link.from_address) or cluster_of.get(link.to_address)
        if number:
            of_cluster[number].append(link)
    return [
        _RankedLink(number, strength, link)
        for number, cluster_links in of_cluster.items()
        for strength, link in enumerate(sorted(cluster_links, key=_order), start=1)
    ]


def _order(link: Link) -> tuple[Any, ...]:
    return (
        -link.total_transfers,
        link.first_time - link.last_time,
        link.first_time,
        link.from_address,
        link.to_address,
        link.chain,
        link.token_address,
        link.time_node or 0,
    )


def _link_rows(store: Store, ranked: Sequence[_RankedLink], graph: Graph) -> list[dict[str, Any]]:
    links = [ranked_link.link for ranked_link in ranked]
    tokens = store.tokens(sorted({(link.chain, link.token_address) for link in links}))

    def kind(address: str, link: Link) -> str:
        if link.time_node and address == graph.time_nodes[link.time_node - 1]:
            return "time"
        return "magic" if address in graph.magic else "holder"

    return [
        {
            "cluster_id": ranked_link.cluster_id,
            "from_address": link.from_address,
            "from_kind": kind(link.from_address, link),
            "to_address": link.to_address,
            "to_kind": kind(link.to_address, link),
            "transfer_chain": link.chain,
            "transfer_token": link.token_address,
            "time_node": link.time_node,
            "token_symbol": tokens[link.chain, link.token_address].symbol,
            **amount_columns(
                "total_value", token_units(link.total_value, tokens[link.chain, link.token_address].decimals)
            ),
            "total_value_raw": str(link.total_value),
            "total_transfers": link.total_transfers,
            "first_date": from_unix(link.first_time),
            "last_date": from_unix(link.last_time),
            "strength": ranked_link.strength,
        }
        for ranked_link, link in zip(ranked, links, strict=True)
    ]


def _transfers(store: Store, ranked: Sequence[_RankedLink], transfers_per_link: int) -> pa.Table:
    if not ranked or transfers_per_link < 1:
        return built(TRANSFERS_OF_LINKS, [])
    requested = [
        {
            "cluster_id": ranked_link.cluster_id,
            "from_address": ranked_link.link.from_address,
            "to_address": ranked_link.link.to_address,
            "transfer_chain": ranked_link.link.chain,
            "transfer_token": ranked_link.link.token_address,
            "time_node": ranked_link.link.time_node,
            "strength": ranked_link.strength,
            "first_time": ranked_link.link.first_time,
            "last_time": ranked_link.link.last_time,
        }
        for ranked_link in ranked
    ]
    files = store.files({(ranked_link.link.chain, ranked_link.link.token_address) for ranked_link in ranked})
    rows = store.query(
        _EARLIEST, {"most": transfers_per_link, "files": files}, {"requested": built(_REQUESTED, requested)}
    ).to_pylist()
    for row in rows:
        row["block_time"] = from_unix(row["block_time"])
        row["value_raw"] = row.pop("value")
    return built(TRANSFERS_OF_LINKS, rows)
