"""From decoded answers to Arrow tables: pure functions, one for each kind of answer, no I/O.

The rows, and their order, are those that the engine gives for the same question, so that a lake filled through the
API and one filled by the engine directly are the same. They end without ``fetched_at``: whoever learnt them adds it
(``contract.tables.learnt``). Fetching belongs to the client, files to the lake.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from contract import wire
from contract.chains import normalise_address
from contract.models import (
    AddressDetails,
    AddressMetadata,
    Chain,
    Cluster,
    GroupedTransfer,
    GroupedTransferData,
    Holder,
    HolderData,
    Map,
    Nodes,
    Relationship,
    TimeNode,
    Token,
)
from contract.tables import DETAIL_COLUMNS, TABLES, amount_columns, build
from contract.times import from_unix

Row = dict[str, Any]


class BadAnswer(ValueError):
    """An answer of the right shape that contradicts itself; the message names what stands in it twice or too far."""


def chain_rows(answer: Sequence[Chain], as_of: datetime) -> pa.Table:
    """Table ``chains``: a row for each supported chain, each under its own chain id."""
    _refuse_twice("chain", (chain.id for chain in answer))
    return _built(
        "chains",
        [
            {
                "chain": chain.id,
                "as_of": as_of,
                "name": chain.name,
                "dexscreener_id": chain.dexscreener_id,
                "coingecko_id": chain.coingecko_id,
            }
            for chain in answer
        ],
    )


def token_rows(answer: Sequence[Token], as_of: datetime) -> pa.Table:
    """Table ``tokens``: the statistics are null where they were not asked for."""
    _refuse_twice("token", (f"{token.token_key.chain}/{token.token_key.address}" for token in answer))
    return _built("tokens", [_token_row(token, as_of) for token in answer])


def _token_row(token: Token, as_of: datetime) -> Row:
    stats = token.stats
    return {
        "chain": token.token_key.chain,
        "as_of": as_of,
        "token_address": token.token_key.address,
        "name": token.metadata.name,
        "symbol": token.metadata.symbol,
        "is_indexed": token.metadata.is_indexed,
        "img_url": token.metadata.img_url,
        "transfers_count": stats.transfers_count if stats else None,
        "min_date": stats.min_date if stats else None,
        "max_date": stats.max_date if stats else None,
    }


def holder_rows(answer: Sequence[Holder], chain: str, token_address: str, as_of: datetime) -> pa.Table:
    """Table ``holders``, by rank: amounts in token units, shares of the total supply from 0 to 1."""
    _refuse_twice("holder", (normalise_address(holder.address) for holder in answer))
    common = _common(chain, token_address, as_of)
    ranked = sorted(answer, key=lambda holder: holder.holder_data.rank)
    return _built(
        "holders",
        [
            {**common, **_holding(holder.holder_data), **_address(holder.address), **_details(holder.address_details)}
            for holder in ranked
        ],
    )


def map_tables(answer: Map, chain: str, token_address: str, as_of: datetime) -> dict[str, pa.Table]:
    """A map as its five tables. A block that the answer left out is a table without rows.

    A time node is numbered from 1 in the answer's order, and its own relationships carry that number; a cluster is
    numbered from 1, the largest first.
    """
    common = _common(chain, token_address, as_of)
    nodes = answer.nodes or Nodes(top_holders=[])
    clusters = sorted(answer.clusters or [], key=lambda cluster: -cluster.share)
    rows = {
        "maps": [common | _map_row(answer)],
        "map_nodes": [common | row for row in _node_rows(nodes)],
        "grouped_transfers": [
            common | row for row in _transfer_rows(answer.relationships or [], nodes.time_nodes or [])
        ],
        "clusters": [common | _cluster_row(number, cluster) for number, cluster in enumerate(clusters, 1)],
        "cluster_members": [common | row for row in _member_rows(clusters)],
    }
    return {name: _built(name, listed) for name, listed in rows.items()}


def subgraph_rows(address_set: str, answer: Sequence[Relationship], chain: str, as_of: datetime) -> pa.Table:
    """Table ``subgraph_transfers``: the relationships among the addresses of one named set, in the answer's order."""
    rows = [_relationship_row(relationship) for relationship in answer]
    _refuse_repeated_transfers(rows)
    common = {"chain": chain, "as_of": as_of, "address_set": address_set}
    return _built("subgraph_transfers", [common | row for row in rows])


def address_rows(answer: Sequence[AddressMetadata], chain: str, as_of: datetime) -> pa.Table:
    """Table ``addresses``: the details of each address, in the answer's order."""
    _refuse_twice("address", (normalise_address(item.address) for item in answer))
    common = {"chain": chain, "as_of": as_of}
    return _built(
        "addresses", [{**common, **_address(item.address), **_details(item.address_details)} for item in answer]
    )


def _common(chain: str, token_address: str, as_of: datetime) -> Row:
    return {"chain": chain, "as_of": as_of, "token_address": normalise_address(token_address)}


def _address(address: str) -> Row:
    return {"address": normalise_address(address)}


def _details(details: AddressDetails | None) -> Row:
    return {name: getattr(details, name) for name in DETAIL_COLUMNS} if details else {}


def _holding(held: HolderData) -> Row:
    return {"rank": held.rank, "share": held.share, **amount_columns("amount", held.amount)}


def _map_row(answer: Map) -> Row:
    supply, scores = answer.metrics.supply_stats, answer.metrics.scores
    return {
        "dt_update": answer.metadata.dt_update,
        "cexs": supply.cexs,
        "dexs": supply.dexs,
        "contracts": supply.contracts,
        "fresh_wallets": supply.fresh_wallets,
        "top_10_adjusted": supply.top_10_adjusted,
        "bundles": supply.bundles,
        "service_score": scores.service_score,
        "gini_index": scores.gini_index,
        "herfindahl_hirschman_index": scores.herfindahl_hirschman_index,
        "nakamoto_coefficient": scores.nakamoto_coefficient,
    }


def _node_rows(nodes: Nodes) -> list[Row]:
    top = sorted(nodes.top_holders, key=lambda node: node.holder_data.rank)
    magic = nodes.magic_nodes or []
    _refuse_twice("top holder", (normalise_address(node.address) for node in top))
    _refuse_twice("magic node", (normalise_address(node.address) for node in magic))
    shown = [("top_holder", node, _holding(node.holder_data)) for node in top]
    tying: list[tuple[str, Any, Row]] = [("magic", node, {}) for node in magic]
    rows = [
        {
            "kind": kind,
            "is_shown_on_map": node.is_shown_on_map,
            **_address(node.address),
            **holding,
            **_details(node.address_details),
        }
        for kind, node, holding in shown + tying
    ]
    windows = enumerate(nodes.time_nodes or [], 1)
    return rows + [{"kind": "time", "time_node": number, **_address(node.address)} for number, node in windows]


def _transfer_rows(relationships: Iterable[Relationship], time_nodes: Iterable[TimeNode]) -> list[Row]:
    """A relationship inside a time node stands apart from the same one outside: ``time_node`` tells them apart."""
    rows = [_relationship_row(relationship) | {"time_node": None} for relationship in relationships]
    for number, node in enumerate(time_nodes, 1):
        rows += [_relationship_row(relationship) | {"time_node": number} for relationship in node.relationships]
    _refuse_repeated_transfers(rows)
    return rows


def _relationship_row(relationship: Relationship) -> Row:
    row: Row = {
        "from_address": normalise_address(relationship.from_address),
        "to_address": normalise_address(relationship.to_address),
        "rel_type": relationship.rel_type,
    }
    if isinstance(relationship, GroupedTransfer):
        return row | _transfer_values(relationship.data)
    return row | {"unknown_data": wire.encode(relationship.data).decode()}


def _transfer_values(data: GroupedTransferData) -> Row:
    return {
        "transfer_chain": data.token_key.chain,
        "transfer_token": data.token_key.address,
        **amount_columns("total_value", data.total_value),
        "total_transfers": data.total_transfers,
        "first_date": _instant("first_date", data.first_date),
        "last_date": _instant("last_date", data.last_date),
    }


def _cluster_row(number: int, cluster: Cluster) -> Row:
    return {
        "cluster_id": number,
        "share": cluster.share,
        "holder_count": cluster.holder_count,
        "magic_node_count": cluster.magic_node_count,
        **amount_columns("amount", cluster.amount),
    }


def _member_rows(clusters: Sequence[Cluster]) -> list[Row]:
    rows = [
        {"cluster_id": number, "kind": kind, **_address(address)}
        for number, cluster in enumerate(clusters, 1)
        for kind, addresses in (("holder", cluster.holders), ("magic", cluster.magic_nodes))
        for address in addresses
    ]
    _refuse_twice("cluster member", (row["address"] for row in rows))
    return rows


def _instant(name: str, seconds: int) -> datetime:
    try:
        return from_unix(seconds)
    except (OverflowError, ValueError, OSError) as error:
        raise BadAnswer(f"{name} {seconds} is not a time in unix seconds") from error


def _refuse_repeated_transfers(rows: Iterable[Row]) -> None:
    """A grouped transfer is the only one of its key; what unknown relationship types repeat can't be known."""
    parts = ("from_address", "to_address", "transfer_chain", "transfer_token", "time_node")
    grouped = (row for row in rows if "unknown_data" not in row)
    _refuse_twice("grouped transfer", (tuple(row.get(part) for part in parts) for row in grouped))


def _refuse_twice(what: str, keys: Iterable[Hashable]) -> None:
    seen: set[Hashable] = set()
    for key in keys:
        if key in seen:
            named = " ".join(str(part) for part in key if part is not None) if isinstance(key, tuple) else key
            raise BadAnswer(f"the answer holds the {what} {named} twice")
        seen.add(key)


def _built(name: str, rows: Sequence[Row]) -> pa.Table:
    try:
        return build(TABLES[name], rows)
    except (pa.ArrowInvalid, OverflowError) as error:
        raise BadAnswer(f"the answer does not fit table {name}: {error}") from error
