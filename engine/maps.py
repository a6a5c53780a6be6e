"""A token's map as of any second: nodes, relationships, clusters and metrics, as the lake's five map tables.

The steps follow contract section "Classification and computation"; each is a function of another module, and this one
puts them in order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
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
from engine.clusters import Cluster, clusters_of
from engine.holders import holding_rows
from engine.records import Rules, TokenInfo
from engine.relationships import (
    Link,
    TimeNode,
    counted_tokens,
    link_rows,
    links_among,
    neighbours,
    time_nodes,
    without_supernode_pairs,
)
from engine.store import Store

MAP_TABLES = ("maps", "map_nodes", "grouped_transfers", "clusters", "cluster_members")


@dataclass(frozen=True)
class _Graph:
    """What surrounds the shown holders: magic nodes, links, time nodes and clusters."""

    magic: dict[str, AddressFacts]
    links: list[Link]
    time_nodes: list[TimeNode]
    clusters: list[Cluster]


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
    graph = _graph(store, token, balances, facts, as_of, options)
    rows = {
        "maps": [_map_row(store, balances, facts, graph, as_of, options, computed_at)],
        "map_nodes": _node_rows(store, token, balances, facts, graph, options.limit),
        "grouped_transfers": _relationship_rows(store, graph),
        "clusters": _cluster_rows(token, balances, graph),
        "cluster_members": _member_rows(graph),
    }
    common = {"chain": chain, "as_of": as_of, "token_address": token_address}
    return {name: build(TABLES[name], [common | row for row in rows[name]]) for name in MAP_TABLES}


def _graph(
    store: Store,
    token: TokenInfo,
    balances: Balances,
    facts: Mapping[str, AddressFacts],
    as_of: datetime,
    options: MapOptions,
) -> _Graph:
    rules = store.rules
    top = dict(balances.holders[: options.limit])
    shown = {address: balance for address, balance in top.items() if facts[address].is_shown(rules)}
    tokens = counted_tokens(store, (token.chain, token.address))
    met = neighbours(store, shown, tokens, as_of)
    fewest = min(rules.magic_links, rules.time_links)
    around = address_facts(store, [found.address for found in met if found.holders >= fewest], as_of, token.chain)
    facts = {**facts, **around}

    magic: dict[str, AddressFacts] = {}
    if options.use_magic_nodes:
        strongest = [found.address for found in met if found.holders >= rules.magic_links and found.address not in top]
        magic = _magic_nodes({address: around[address] for address in strongest}, rules)
    supernodes = {address for address, fact in facts.items() if fact.is_supernode(rules)}
    links = without_supernode_pairs(links_among(store, [*shown, *magic], tokens, as_of), supernodes)
    windows: list[TimeNode] = []
    if options.use_time_nodes:
        windows = time_nodes(store, shown, _exchanges(facts, rules.time_allowed), supernodes, tokens, as_of)
    pairs = [(link.from_address, link.to_address) for link in links]
    return _Graph(magic, links, windows, clusters_of(shown, list(magic), pairs))


def _magic_nodes(strongest: Mapping[str, AddressFacts], rules: Rules) -> dict[str, AddressFacts]:
    """The neighbours that are wallets of their own, as many as the rules allow; they come strongest first."""
    fit = {
        address: fact for address, fact in strongest.items() if fact.is_shown(rules) and not fact.is_supernode(rules)
    }
    return dict(list(fit.items())[: rules.magic_limit])


def _exchanges(facts: Mapping[str, AddressFacts], allowed: Collection[str]) -> list[str]:
    """Exchanges and allow-listed contracts: they are never nodes of their own, but in a time window they are."""
    return [address for address, fact in facts.items() if fact.label.is_cex or fact.label.is_dex or address in allowed]


def _map_row(
    store: Store,
    balances: Balances,
    facts: Mapping[str, AddressFacts],
    graph: _Graph,
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
    graph: _Graph,
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


def _relationship_rows(store: Store, graph: _Graph) -> list[dict[str, Any]]:
    rows = link_rows(store, graph.links)
    for number, node in enumerate(graph.time_nodes, start=1):
        rows += [{**row, "time_node": number} for row in link_rows(store, node.links)]
    return rows


def _cluster_rows(token: TokenInfo, balances: Balances, graph: _Graph) -> list[dict[str, Any]]:
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


def _member_rows(graph: _Graph) -> list[dict[str, Any]]:
    return [
        {"cluster_id": number, "address": address, "kind": kind}
        for number, cluster in enumerate(graph.clusters, start=1)
        for kind, members in (("holder", cluster.holders), ("magic", cluster.magic_nodes))
        for address in members
    ]
