"""A token's map as of any second: nodes, relationships, clusters and metrics, as the lake's five map tables.

What stands on a map and what connects it is the work of ``graph``, figures are that of ``metrics``; this module puts
them into rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa

from contract.models import HolderLimit
from contract.requests import MapOptions
from contract.tables import TABLES, amount_columns, build
from contract.times import dt_update_text, to_unix
from engine import metrics
from engine.addresses import AddressFacts, address_facts
from engine.balances import Balances, holdings_as_of, mappable_token, token_units
from engine.graph import Graph, graph_of
from engine.holders import holding_rows
from engine.records import TokenInfo
from engine.relationships import link_rows
from engine.store import Store

MAP_TABLES = ("maps", "map_nodes", "grouped_transfers", "clusters", "cluster_members")


def map_as_of(
    store: Store, chain: str, token_address: str, as_of: datetime, options: MapOptions, computed_at: datetime
) -> dict[str, pa.Table]:
    """The map as tables ``maps``, ``map_nodes``, ``grouped_transfers``, ``clusters`` and ``cluster_members``.

    All are filled whatever ``options.return_…`` say (cutting is the service's), but the score is null where it was not
    asked for. Raises ``UnknownToken``, ``UnsupportedToken`` or ``NoHolders``.
    """
    token = mappable_token(store, chain, token_address)
    balances = holdings_as_of(store, token, as_of)
    facts = address_facts(store, [address for address, _ in balances.holders], as_of, chain)
    graph = graph_of(store, token, balances, facts, as_of, options)
    rows = {
        "maps": [_map_row(store, balances, facts, graph, as_of, options, computed_at)],
        "map_nodes": _node_rows(store, token, balances, facts, graph, options.limit),
        "grouped_transfers": _relationship_rows(store, graph),
        "clusters": _cluster_rows(token, balances, graph),
        "cluster_members": _member_rows(graph),
    }
    common = {"chain": chain, "as_of": as_of, "token_address": token_address}
    return {name: build(TABLES[name], [common | row for row in rows[name]]) for name in MAP_TABLES}


def _map_row(
    store: Store,
    balances: Balances,
    facts: Mapping[str, AddressFacts],
    graph: Graph,
    as_of: datetime,
    options: MapOptions,
    computed_at: datetime,
) -> dict[str, Any]:
    rules = store.rules
    fresh_from = to_unix(as_of) - rules.fresh_wallet_seconds
    free = [(address, balance) for address, balance in balances.holders if facts[address].is_shown(rules)]
    sizes = metrics.entity_sizes(free, [cluster.holders for cluster in graph.clusters])

    def held_by(kind: str) -> float:
        return balances.share(
            sum(balance for address, balance in balances.holders if getattr(facts[address].label, kind))
        )

    fresh = sum(balance for address, balance in free if (facts[address].first_time or 0) > fresh_from)
    return {
        "dt_update": dt_update_text(computed_at),
        "cexs": held_by("is_cex"),
        "dexs": held_by("is_dex"),
        "contracts": held_by("is_contract"),
        "fresh_wallets": balances.share(fresh),
        "top_10_adjusted": balances.share(sum(sizes[:10])),
        "bundles": balances.share(sum(cluster.amount for cluster in graph.clusters[:10])),
        "service_score": metrics.service_score(sizes) if options.return_decentralization_score else None,
        "gini_index": metrics.gini_index(sizes),
        "herfindahl_hirschman_index": metrics.herfindahl_hirschman_index(sizes),
        "nakamoto_coefficient": metrics.nakamoto_coefficient(sizes),
    }


def _node_rows(
    store: Store,
    token: TokenInfo,
    balances: Balances,
    facts: Mapping[str, AddressFacts],
    graph: Graph,
    limit: HolderLimit,
) -> list[dict[str, Any]]:
    top = [
        {"kind": "top_holder", "is_shown_on_map": facts[row["address"]].is_shown(store.rules), **row}
        for row in holding_rows(store, token, balances, limit, facts)
    ]
    magic = [
        {"kind": "magic", "address": address, "is_shown_on_map": True, **fact.details(store.rules)}
        for address, fact in graph.magic.items()
    ]
    windows = [
        {"kind": "time", "address": node.address, "time_node": number}
        for number, node in enumerate(graph.time_nodes, start=1)
    ]
    return [*top, *magic, *windows]


def _relationship_rows(store: Store, graph: Graph) -> list[dict[str, Any]]:
    rows = link_rows(store, graph.links)
    for number, node in enumerate(graph.time_nodes, start=1):
        rows += [{**row, "time_node": number} for row in link_rows(store, node.links)]
    return rows


def _cluster_rows(token: TokenInfo, balances: Balances, graph: Graph) -> list[dict[str, Any]]:
    return [
        {
            "cluster_id": number,
            "share": balances.share(cluster.amount),
            **amount_columns("amount", token_units(cluster.amount, token.decimals)),
            "holder_count": len(cluster.holders),
            "magic_node_count": len(cluster.magic_nodes),
        }
        for number, cluster in enumerate(graph.clusters, start=1)
    ]


def _member_rows(graph: Graph) -> list[dict[str, Any]]:
    return [
        {"cluster_id": number, "address": address, "kind": kind}
        for number, cluster in enumerate(graph.clusters, start=1)
        for kind, members in (("holder", cluster.holders), ("magic", cluster.magic_nodes))
        for address in members
    ]
