"""What surrounds a token's shown holders: magic nodes, links, time nodes, and the clusters that links make.

The steps follow contract section "Classification and computation"; each is a function of another module, and this one
puts them in order. Maps, evidence and changes all take their clusters from here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from contract.requests import MapOptions
from engine.addresses import AddressFacts, address_facts
from engine.balances import Balances
from engine.clusters import Cluster, clusters_of
from engine.records import Rules, TokenInfo
from engine.relationships import (
    Link,
    TimeNode,
    counted_tokens,
    links_among,
    neighbours,
    time_nodes,
    without_supernode_pairs,
)
from engine.store import Store


@dataclass(frozen=True)
class Graph:
    """Magic nodes with their facts, the links among them and the shown holders, time nodes and clusters."""

    magic: dict[str, AddressFacts]
    links: list[Link]
    time_nodes: list[TimeNode]
    clusters: list[Cluster]


def clusters_as_of(store: Store, token: TokenInfo, largest: Balances, as_of: datetime, options: MapOptions) -> Graph:
    """The graph of a map without its time nodes, which make no cluster. ``largest`` are the map's top holders."""
    facts = address_facts(store, [address for address, _ in largest.holders], as_of, token.chain)
    return graph_of(store, token, largest, facts, as_of, options.model_copy(update={"use_time_nodes": False}))


def graph_of(
    store: Store,
    token: TokenInfo,
    balances: Balances,
    facts: Mapping[str, AddressFacts],
    as_of: datetime,
    options: MapOptions,
) -> Graph:
    """The graph of a map. ``facts`` are those of all holders, among whom the exchanges of time nodes are found."""
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
    return Graph(magic, links, windows, clusters_of(shown, list(magic), pairs))


def _magic_nodes(strongest: Mapping[str, AddressFacts], rules: Rules) -> dict[str, AddressFacts]:
    """The neighbours that are wallets of their own, as many as the rules allow; they come strongest first."""
    fit = {
        address: fact for address, fact in strongest.items() if fact.is_shown(rules) and not fact.is_supernode(rules)
    }
    return dict(list(fit.items())[: rules.magic_limit])


def _exchanges(facts: Mapping[str, AddressFacts], allowed: Collection[str]) -> list[str]:
    """Exchanges and allow-listed contracts: they are never nodes of their own, but in a time window they are."""
    return [address for address, fact in facts.items() if fact.label.is_cex or fact.label.is_dex or address in allowed]
