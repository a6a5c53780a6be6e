"""What surrounds a token's shown holders: magic nodes, links, time nodes, and the clusters that links make.

The steps follow contract section "Classification and computation"; each is a function of another module, and this one
puts them in order. Maps, evidence and changes all take their clusters from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from contract.requests import MapOptions
from contract.times import to_unix
from engine.addresses import (
    CEX,
    DEX,
    Activity,
    AddressFacts,
    activity,
    are_wallets,
    facts_of,
    kinds_of_addresses,
    labelled_ones,
)
from engine.balances import Balances
from engine.clusters import Cluster, clusters_of
from engine.manifest import View
from engine.records import TokenInfo
from engine.relationships import (
    Link,
    Met,
    TimeNode,
    among,
    counted_tokens,
    counting,
    entries_of,
    joined_entries,
    links_of,
    met_by,
    windows_of,
    within,
)
from engine.store import Store
from engine.words import Array


@dataclass(frozen=True)
class Graph:
    """Magic nodes with their facts, the links among them and the shown holders, time nodes and clusters."""

    magic: dict[str, AddressFacts]
    links: list[Link]
    time_nodes: list[TimeNode]
    clusters: list[Cluster]


@dataclass(frozen=True)
class Scene:
    """Where a graph is drawn: the store and its arrays, the kinds of all addresses, the token, the second, the
    options."""

    store: Store
    view: View
    kinds: Array
    token: TokenInfo
    second: int
    options: MapOptions

    def is_wallet(self, addresses: Array) -> Array:
        """For each of the addresses, whether it belongs on a map: no exchange, contract or hypernode."""
        return are_wallets(self.store, self.view, self.kinds, addresses, self.second)


def clusters_as_of(store: Store, token: TokenInfo, largest: Balances, as_of: datetime, options: MapOptions) -> Graph:
    """The graph of a map without its time nodes, which make no cluster. ``largest`` are the map's top holders."""
    view = store.view()
    plain = options.model_copy(update={"use_time_nodes": False})
    scene = Scene(store, view, kinds_of_addresses(store, view), token, to_unix(as_of), plain)
    addresses = view.dictionary.find([address for address, _ in largest.holders])
    return graph_of(scene, largest.holders, addresses, activity(view, addresses, scene.second), addresses)


def graph_of(
    scene: Scene, holders: Sequence[tuple[str, int]], addresses: Array, known: Activity, everybody: Array
) -> Graph:
    """The graph of a map: its top ``holders``, their numbers and what is known of them; among ``everybody`` who holds
    the token, too, the exchanges of time nodes are found."""
    store, view, rules = scene.store, scene.view, scene.store.rules
    is_shown = scene.is_wallet(addresses)
    shown = addresses[is_shown].astype(np.int32)
    counts = counting(view, counted_tokens(store, (scene.token.chain, scene.token.address)))
    around = entries_of(view, shown, counts, scene.second)
    met = met_by(around)
    magic, known_magic = _magic_nodes(scene, met, addresses)
    exchanges = _exchanges(scene, met, everybody)
    supernodes = np.concatenate(
        [
            shown[known.relations[is_shown, 0] >= rules.supernode_degree],
            exchanges[activity(view, exchanges, scene.second).relations[:, 0] >= rules.supernode_degree],
        ]
    )
    among_nodes = within(joined_entries([around, entries_of(view, magic, counts, scene.second)]), supernodes)
    used, in_windows = windows_of(view, rules, around, exchanges, supernodes)
    windows = [TimeNode(exchange, []) for exchange in used]
    links: list[Link] = []
    for number, link in links_of(view, [among_nodes, in_windows]):
        (links if number < 0 else windows[number].links).append(link)
    texts = view.dictionary.texts(magic)
    labelled = labelled_ones(scene.kinds, magic, texts)
    facts = facts_of(store, texts, known_magic, labelled, scene.token.chain)
    sizes = dict(holder for holder, is_one in zip(holders, is_shown.tolist(), strict=True) if is_one)
    pairs = [(link.from_address, link.to_address) for link in links]
    return Graph(facts, links, windows, clusters_of(sizes, texts, pairs))


def _magic_nodes(scene: Scene, met: Met, top: Array) -> tuple[Array, Activity]:
    """The neighbours that are wallets of their own, the most connected first, as many as the rules allow; and what is
    known of them."""
    rules, view = scene.store.rules, scene.view
    strong = np.flatnonzero((met.holders >= rules.magic_links) & ~among(met.addresses, top))
    fit = strong[scene.is_wallet(met.addresses[strong])] if scene.options.use_magic_nodes else strong[:0]
    fit = fit[np.lexsort((-met.transfers[fit], -met.holders[fit]))]
    asked = 2 * rules.magic_limit
    while True:
        some = fit[: _with_equals(met, fit, asked)]
        known = activity(view, met.addresses[some], scene.second)
        kept = np.flatnonzero(known.relations[:, 0] < rules.supernode_degree)
        if len(kept) >= rules.magic_limit or len(some) == len(fit):
            break
        asked *= 4
    mine = some[kept]
    order = np.lexsort((view.dictionary.ranks(met.addresses[mine]), -met.transfers[mine], -met.holders[mine]))
    chosen = order[: rules.magic_limit]
    return met.addresses[mine[chosen]], known.at(kept[chosen])


def _with_equals(met: Met, ordered: Array, most: int) -> int:
    """How many of the ordered ones are the first so many, with all that are as connected as the last of these."""
    if len(ordered) <= most:
        return len(ordered)
    last = ordered[most - 1]
    equal = (met.holders[ordered] == met.holders[last]) & (met.transfers[ordered] == met.transfers[last])
    return int(np.flatnonzero(equal)[-1]) + 1


def _exchanges(scene: Scene, met: Met, everybody: Array) -> Array:
    """Exchanges and allow-listed contracts: they are never nodes of their own, but in a time window they are."""
    if not scene.options.use_time_nodes:
        return np.empty(0, np.int32)
    rules, view = scene.store.rules, scene.view
    fewest = min(rules.magic_links, rules.time_links)
    allowed = view.dictionary.find(sorted(rules.time_allowed))
    found = [np.empty(0, np.int32)]
    for known in (met.addresses[met.holders >= fewest], everybody):
        marked = (scene.kinds[known] & (CEX | DEX)) != 0
        found.append(known[marked | np.isin(known, allowed) if len(allowed) else marked])
    return np.unique(np.concatenate(found))
