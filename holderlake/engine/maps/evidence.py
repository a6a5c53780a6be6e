"""Evidence of clusters: every link between members, directly or through a time node, and single transfers of each.

Which links there are, and what they connect, is decided in ``graph``, for a map and its evidence alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from holderlake.contract.requests import MapOptions
from holderlake.contract.tables import AMOUNT_TYPE, INSTANT_TYPE, amount_columns
from holderlake.contract.times import from_unix
from holderlake.engine.errors import UnknownCluster
from holderlake.engine.maps.clusters import Cluster
from holderlake.engine.maps.graph import Graph, graph_as_of
from holderlake.engine.maps.relationships import Link
from holderlake.engine.queries.balances import largest_balances, mappable_token, nobody_holds
from holderlake.engine.queries.tables import built, column, token_units
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
        column("total_value_exact", pa.string(), "The exact sum where total_value can't hold it", required=False),
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
        column("tx_hash", pa.string(), "Transaction, where the source knew it", required=False),
        column("block_number", pa.int64(), "Block"),
        column("block_time", INSTANT_TYPE, "Time of the block, UTC"),
        column("log_index", pa.int64(), "Place in the block"),
        column("token_id", pa.string(), "The item of an NFT", required=False),
        column("value_raw", pa.string(), "What was sent as a raw integer, exact"),
    ]
)

_WANTED: Final = pa.schema(
    [
        *_LINK,
        column("strength", pa.int64(), "Place in the answer"),
        column("first_time", pa.int64(), "First of the transfers, unix seconds"),
        column("last_time", pa.int64(), "Last of the transfers, unix seconds"),
    ]
)

_EARLIEST: Final = """
WITH made AS (
    SELECT
        wanted.*, tx_hash, block_number, block_time, log_index, token_id, value,
        row_number() OVER (
            PARTITION BY cluster_id, strength
            ORDER BY block_time, block_number, log_index, tx_hash NULLS FIRST, token_id NULLS FIRST, value
        ) AS place
    FROM read_parquet($files) AS transfer
    JOIN wanted
        ON transfer.from_address = wanted.from_address
        AND transfer.to_address = wanted.to_address
        AND transfer.chain = wanted.transfer_chain
        AND transfer.token_address = wanted.transfer_token
    WHERE block_time BETWEEN first_time AND last_time AND value <> '0'
)
SELECT * EXCLUDE (strength, first_time, last_time, place)
FROM made
WHERE place <= $most
ORDER BY cluster_id, strength, place
"""


@dataclass(frozen=True)
class _Tie:
    """A link of a cluster, with its place among the cluster's links from the strongest on."""

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
    """The tables ``links`` (``LINKS``) and ``transfers`` (``TRANSFERS_OF_LINKS``) of one cluster of the map, or of all.

    A link is a relationship of the map: all transfers of a token from one address to another, or those in the window of
    a time node. The answer has the links between members of a cluster, and between members and the time nodes that
    connect them, by cluster, then the strongest first: most transfers, then the longest period between first and last,
    then the earliest first transfer, then addresses, token and time node.

    Of each link the answer has the ``transfers_per_link`` earliest transfers (0 for none), in the links' order. They
    stay the evidence when later ones come.

    Raises ``UnknownToken``, ``UnsupportedToken``, ``NoHolders``, or ``UnknownCluster`` where the map has none of that
    number.
    """
    token = mappable_token(store, chain, token_address)
    largest = largest_balances(store, chain, token_address, as_of, options.limit)
    if not largest.holders:
        raise nobody_holds(token, as_of)
    graph = graph_as_of(store, token, largest, as_of, options)
    if cluster_id is not None and not 1 <= cluster_id <= len(graph.clusters):
        raise _unknown_cluster(token, as_of, cluster_id, len(graph.clusters))
    ties = [tie for tie in _ties(graph.clusters, graph.links) if cluster_id in (None, tie.cluster_id)]
    return {
        "links": built(LINKS, _link_rows(store, ties, graph)),
        "transfers": _transfers(store, ties, transfers_per_link),
    }


def _unknown_cluster(token: TokenInfo, as_of: datetime, cluster_id: int, clusters: int) -> UnknownCluster:
    return UnknownCluster(
        f"the map of {token.name} ({token.address} on {token.chain}) has {clusters} clusters at "
        f"{as_of.isoformat()}Z, and none of number {cluster_id}"
    )


def _ties(clusters: Sequence[Cluster], links: Iterable[Link]) -> list[_Tie]:
    """Each cluster's links, the strongest first."""
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
        _Tie(number, strength, link)
        for number, found in of_cluster.items()
        for strength, link in enumerate(sorted(found, key=_weakness), start=1)
    ]


def _weakness(link: Link) -> tuple[Any, ...]:
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


def _link_rows(store: Store, ties: Sequence[_Tie], graph: Graph) -> list[dict[str, Any]]:
    links = [tie.link for tie in ties]
    tokens = store.tokens(sorted({(link.chain, link.token_address) for link in links}))

    def kind(address: str, link: Link) -> str:
        if link.time_node and address == graph.time_nodes[link.time_node - 1]:
            return "time"
        return "magic" if address in graph.magic else "holder"

    return [
        {
            "cluster_id": tie.cluster_id,
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
            "strength": tie.strength,
        }
        for tie, link in zip(ties, links, strict=True)
    ]


def _transfers(store: Store, ties: Sequence[_Tie], most: int) -> pa.Table:
    if not ties or most < 1:
        return built(TRANSFERS_OF_LINKS, [])
    wanted = [
        {
            "cluster_id": tie.cluster_id,
            "from_address": tie.link.from_address,
            "to_address": tie.link.to_address,
            "transfer_chain": tie.link.chain,
            "transfer_token": tie.link.token_address,
            "time_node": tie.link.time_node,
            "strength": tie.strength,
            "first_time": tie.link.first_time,
            "last_time": tie.link.last_time,
        }
        for tie in ties
    ]
    files = store.files({(tie.link.chain, tie.link.token_address) for tie in ties})
    rows = store.query(_EARLIEST, {"most": most, "files": files}, {"wanted": built(_WANTED, wanted)}).to_pylist()
    for row in rows:
        row["block_time"] = from_unix(row["block_time"])
        row["value_raw"] = row.pop("value")
    return built(TRANSFERS_OF_LINKS, rows)
