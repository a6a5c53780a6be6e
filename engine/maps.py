"""A token's map as of any second: nodes, relationships, clusters and metrics, as the lake's five map tables.

What stands on a map and what connects it is the work of ``graph``, figures are that of ``metrics``; this module puts
them into rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from contract.requests import MapOptions
from contract.tables import TABLES
from contract.times import dt_update_text, to_unix
from engine import metrics
from engine.addresses import (
    CEX,
    CONTRACT,
    DEX,
    AddressFacts,
    activity,
    detail_columns,
    facts_of,
    first_times,
    kinds_of_addresses,
    labelled_ones,
)
from engine.balances import Balances, Held, held_as_of, listed, mappable_token, nobody_holds
from engine.graph import Graph, Scene, graph_of
from engine.manifest import View
from engine.records import Rules, TokenInfo
from engine.relationships import TokenBook, link_columns
from engine.store import Store
from engine.tables import Columns, joined_columns, repeated, table_of
from engine.words import Array, falling_keys, from_ints, lane_of, places_among, to_ints, total, widened

MAP_TABLES = ("maps", "map_nodes", "grouped_transfers", "clusters", "cluster_members")


@dataclass(frozen=True)
class Drawing:
    """All that a map's tables tell, wherever it was found.

    ``book`` knows the tokens of its links; ``kinds``, ``is_free`` (of exchanges and the like) and ``is_fresh`` are told
    of each holder, facts of the top ones.
    """

    book: TokenBook
    rules: Rules
    token: TokenInfo
    second: int
    scored: bool
    held: Held
    kinds: Array
    is_free: Array
    is_fresh: Array
    top: Balances
    facts: Mapping[str, AddressFacts]
    graph: Graph


def map_as_of(
    store: Store, chain: str, token_address: str, as_of: datetime, options: MapOptions, computed_at: datetime
) -> dict[str, pa.Table]:
    """The map as tables ``maps``, ``map_nodes``, ``grouped_transfers``, ``clusters`` and ``cluster_members``.

    All are filled whatever ``options.return_…`` say (cutting is the service's), but the score is null where it was not
    asked for. Raises ``UnknownToken``, ``UnsupportedToken`` or ``NoHolders``.
    """
    token = mappable_token(store, chain, token_address)
    return map_tables([map_columns(store, store.view(), token, as_of, options, computed_at)])


def map_columns(
    store: Store, view: View, token: TokenInfo, as_of: datetime, options: MapOptions, computed_at: datetime
) -> dict[str, Columns]:
    """The columns of the map's tables. Raises ``NoHolders``."""
    held = held_as_of(view, (token.chain, token.address), to_unix(as_of))
    if not len(held.addresses):
        raise nobody_holds(token, as_of)
    scene = Scene(store, view, kinds_of_addresses(store, view), token, to_unix(as_of), options)
    return drawn_columns(_drawing(scene, held), computed_at)


def drawn_columns(drawing: Drawing, computed_at: datetime) -> dict[str, Columns]:
    """The columns of a map's tables from all that they tell."""
    tables = {
        "maps": {name: [figure] for name, figure in _map_row(drawing, computed_at).items()},
        "map_nodes": _node_columns(drawing),
        "grouped_transfers": _relationship_columns(drawing.book, drawing.graph),
        "clusters": _cluster_columns(drawing),
        "cluster_members": _member_columns(drawing.graph),
    }
    token = drawing.token
    common = {"chain": token.chain, "as_of": drawing.second * 1_000_000, "token_address": token.address}
    return {name: repeated(common, columns) | columns for name, columns in tables.items()}


def map_tables(maps: Sequence[dict[str, Columns]]) -> dict[str, pa.Table]:
    """The maps' tables, one map after another."""
    return {name: table_of(TABLES[name], joined_columns([columns[name] for columns in maps])) for name in MAP_TABLES}


def _drawing(scene: Scene, held: Held) -> Drawing:
    limit, store, view = scene.options.limit, scene.store, scene.view
    top = Balances(held.supply, listed(view, held, limit), [])
    addresses = held.addresses[:limit]
    texts = [address for address, _ in top.holders]
    known = activity(view, addresses, scene.second)
    labelled = labelled_ones(scene.kinds, addresses, texts)
    facts = facts_of(store, texts, known, labelled, scene.token.chain)
    is_free = scene.is_wallet(held.addresses)
    begun = first_times(store, view)[held.addresses]
    fresh_from = scene.second - store.rules.fresh_wallet_seconds
    return Drawing(
        store,
        store.rules,
        scene.token,
        scene.second,
        scene.options.return_decentralization_score,
        held,
        scene.kinds[held.addresses],
        is_free,
        is_free & (begun > fresh_from) & (begun <= scene.second),
        top,
        facts,
        graph_of(scene, top.holders, addresses, known, held.addresses),
    )


def _map_row(drawing: Drawing, computed_at: datetime) -> dict[str, Any]:
    held, kinds, top, clusters = drawing.held, drawing.kinds, drawing.top, drawing.graph.clusters
    marked = np.flatnonzero(kinds & (CEX | DEX | CONTRACT))
    sizes = _entity_sizes(drawing, drawing.is_free)
    figures = metrics.figures_of(sizes)

    def held_by(kind: int) -> float:
        return top.share(total(held.balances[marked[(kinds[marked] & kind) != 0]]))

    return {
        "dt_update": dt_update_text(computed_at),
        "cexs": held_by(CEX),
        "dexs": held_by(DEX),
        "contracts": held_by(CONTRACT),
        "fresh_wallets": top.share(total(held.balances[drawing.is_fresh])),
        "top_10_adjusted": top.share(sum(to_ints(sizes[:10]))),
        "bundles": top.share(sum(cluster.amount for cluster in clusters[:10])),
        "service_score": figures.service_score if drawing.scored else None,
        "gini_index": figures.gini_index,
        "herfindahl_hirschman_index": figures.herfindahl_hirschman_index,
        "nakamoto_coefficient": figures.nakamoto_coefficient,
    }


def _entity_sizes(drawing: Drawing, is_free: Array) -> Array:
    """Sizes of the entities, the largest first: clusters, and every free holder that is in none."""
    held, clusters = drawing.held, drawing.graph.clusters
    members = {holder for cluster in clusters for holder in cluster.holders}
    alone = is_free.copy()
    alone[[place for place, (address, _) in enumerate(drawing.top.holders) if address in members]] = False
    sizes = held.balances if alone.all() else held.balances[np.flatnonzero(alone)]
    if not clusters:
        return sizes
    amounts = [cluster.amount for cluster in clusters]
    lane = max(lane_of(max(amounts)), sizes.shape[1])
    sizes, whole = widened(sizes, lane), from_ints(sorted(amounts, reverse=True), lane)
    nowhere = np.zeros(len(whole), np.int64)
    places = places_among(falling_keys(whole), lambda some: falling_keys(sizes[some]), nowhere, nowhere + len(sizes))
    return np.insert(sizes, places, whole, axis=0)


def _node_columns(drawing: Drawing) -> Columns:
    rules, top, magic = drawing.rules, drawing.top, drawing.graph.magic
    windows = drawing.graph.time_nodes
    facts = [drawing.facts[address] for address, _ in top.holders]
    alike: Columns = {
        "kind": ["top_holder"] * len(facts) + ["magic"] * len(magic) + ["time"] * len(windows),
        "address": [address for address, _ in top.holders] + list(magic) + [node.address for node in windows],
        "is_shown_on_map": [fact.is_shown(rules) for fact in facts] + [True] * len(magic) + [None] * len(windows),
        "time_node": [None] * (len(facts) + len(magic)) + list(range(1, len(windows) + 1)),
    }
    further: list[None] = [None] * (len(magic) + len(windows))
    holding: Columns = {
        "rank": list(range(1, len(facts) + 1)) + further,
        "amount": [(balance, drawing.token.decimals) for _, balance in top.holders] + further,
        "share": [top.share(balance) for _, balance in top.holders] + further,
    }
    details = detail_columns([*facts, *magic.values()], rules)
    return alike | holding | {name: column + [None] * len(windows) for name, column in details.items()}


def _relationship_columns(book: TokenBook, graph: Graph) -> Columns:
    timed = [(number, link) for number, node in enumerate(graph.time_nodes, start=1) for link in node.links]
    columns = link_columns(book, [*graph.links, *(link for _, link in timed)])
    return columns | {"time_node": [None] * len(graph.links) + [number for number, _ in timed]}


def _cluster_columns(drawing: Drawing) -> Columns:
    clusters, decimals = drawing.graph.clusters, drawing.token.decimals
    return {
        "cluster_id": list(range(1, len(clusters) + 1)),
        "share": [drawing.top.share(cluster.amount) for cluster in clusters],
        "amount": [(cluster.amount, decimals) for cluster in clusters],
        "holder_count": [len(cluster.holders) for cluster in clusters],
        "magic_node_count": [len(cluster.magic_nodes) for cluster in clusters],
    }


def _member_columns(graph: Graph) -> Columns:
    members = [
        (number, address, kind)
        for number, cluster in enumerate(graph.clusters, start=1)
        for kind, found in (("holder", cluster.holders), ("magic", cluster.magic_nodes))
        for address in found
    ]
    names = ("cluster_id", "address", "kind")
    return {name: [member[place] for member in members] for place, name in enumerate(names)}
