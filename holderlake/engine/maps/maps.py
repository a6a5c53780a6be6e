"""A token's maps as of any seconds: nodes, relationships, clusters and metrics, as the lake's five map tables.

What stands on a map and what connects it is the work of ``graph``, figures are that of ``metrics``; this module puts
them into rows. One map or those of a year are drawn alike: what the instants share is worked out once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from holderlake.contract.requests import MapOptions
from holderlake.contract.tables import TABLES
from holderlake.contract.times import dt_update_text, to_unix
from holderlake.engine.catalog.labels import AddressLabel
from holderlake.engine.files.manifest import View
from holderlake.engine.maps.graph import Graphs, Top, graphs_of
from holderlake.engine.maps.relationships import TokenBook, link_columns
from holderlake.engine.maps.scene import Scene
from holderlake.engine.numeric import graph_kernels
from holderlake.engine.numeric.bigint import Array, to_ints
from holderlake.engine.queries import metrics
from holderlake.engine.queries.addresses import (
    CEX,
    CONTRACT,
    DEX,
    MARKED,
    Activity,
    activity,
    detail_columns,
    first_times,
    labels_of_kinds,
)
from holderlake.engine.queries.balances import Rows, held_at, largest, mappable_token, nobody_holds, shares_of, sums_at
from holderlake.engine.queries.negative_balances import summaries_of
from holderlake.engine.queries.tables import Amounts, Columns, amount_arrays, in_order, instants_of, spread, table_of
from holderlake.engine.records import Rules, TokenInfo
from holderlake.engine.store.store import Store

MAP_TABLES: Final = ("maps", "map_nodes", "grouped_transfers", "clusters", "cluster_members")
_KINDS: Final = pa.array(["top_holder", "magic", "time"])
_MEMBERS: Final = pa.array(["holder", "magic"])


@dataclass(frozen=True)
class Drawing:
    """All that the tables of some instants (rising ``seconds``) tell, wherever it was found.

    ``book`` knows the tokens of links and ``keys`` their numbers; ``marked`` are holders with ``kinds`` that matter,
    ``free`` and ``fresh`` all those that belong on a map, and the fresh wallets among them, while they do. ``known`` is
    what transfers say of the top holders, then of the magic nodes, each as of its instant, and ``labels`` what labels
    say of each node.
    """

    book: TokenBook
    keys: Mapping[int, tuple[str, str]]
    rules: Rules
    token: TokenInfo
    seconds: Array
    scored: bool
    supplies: list[int]
    marked: Rows
    kinds: Array
    free: Rows
    fresh: Rows
    top: Top
    graphs: Graphs
    known: Activity
    labels: list[AddressLabel]
    negatives: list[str | None]

    @property
    def drawn(self) -> Array:
        """The instants at which anybody holds the token: those that have a map."""
        return np.unique(self.top.instants)

    @cached_property
    def balances(self) -> list[int]:
        """Raw balances of the top holders."""
        return to_ints(self.top.balances)

    def shares(self, amounts: Sequence[int], instants: Array) -> list[float]:
        """Amounts as parts of their instants' supplies."""
        return shares_of(amounts, instants, self.supplies)


def map_as_of(
    store: Store, chain: str, token_address: str, as_of: datetime, options: MapOptions, computed_at: datetime
) -> dict[str, pa.Table]:
    """The map as tables ``maps``, ``map_nodes``, ``grouped_transfers``, ``clusters`` and ``cluster_members``.

    All are filled whatever ``options.return_…`` say (cutting is the service's), but the score is null where it was not
    asked for. Raises ``UnknownToken``, ``UnsupportedToken`` or ``NoHolders``.
    """
    token = mappable_token(store, chain, token_address)
    tables = maps_of(store, store.view(), token, [as_of], options, computed_at)
    if not tables["maps"].num_rows:
        raise nobody_holds(token, as_of)
    return tables


def maps_of(
    store: Store,
    view: View,
    token: TokenInfo,
    asked: Sequence[datetime],
    options: MapOptions,
    computed_at: datetime,
) -> dict[str, pa.Table]:
    """The map tables of a token at the instants asked for, one after another; an instant at which nobody holds it has
    no rows."""
    seconds, which = np.unique([to_unix(instant) for instant in asked], return_inverse=True)
    tables = drawn_tables(_drawing(Scene.of(store, view, token, seconds, options)), computed_at)
    return {name: in_order(table, seconds, which) for name, table in tables.items()}


def drawn_tables(drawing: Drawing, computed_at: datetime) -> dict[str, pa.Table]:
    """The map tables of all that they tell, one instant after another."""
    common = {"chain": drawing.token.chain, "token_address": drawing.token.address}
    updated = common | {"dt_update": dt_update_text(computed_at)}
    told: dict[str, tuple[Array, Columns]] = {
        "maps": (drawing.drawn, _map_columns(drawing)),
        "map_nodes": _node_columns(drawing),
        "grouped_transfers": _relationship_columns(drawing),
        **_cluster_columns(drawing),
    }
    return {
        name: table_of(
            TABLES[name],
            columns | {"as_of": instants_of(drawing.seconds[instants])},
            updated if name == "maps" else common,
        )
        for name, (instants, columns) in told.items()
    }


def _drawing(scene: Scene) -> Drawing:
    store, view, token, seconds = scene.store, scene.view, scene.token, scene.seconds
    held = held_at(view, (token.chain, token.address), seconds)
    rows, marked = held.rows, graph_kernels.places_of_kinds(held.rows.addresses, scene.kinds, scene.sieve, MARKED)
    instants, places = largest(rows, len(seconds), scene.options.limit)
    addresses = rows.addresses[places]
    top = Top(instants, addresses, rows.balances[places], scene.wallets_until(addresses) > instants)
    graphs = graphs_of(scene, top)
    some, lasts = rows.at(marked), rows.lasts.copy()
    lasts[marked] = np.maximum(some.firsts, np.minimum(some.lasts, scene.wallets_until(some.addresses)))
    free = rows._replace(lasts=lasts)
    of_magic, ranks = np.nonzero(graphs.magic >= 0)
    wallets = np.concatenate([graphs.holders, graphs.magic[of_magic, ranks]])
    known = activity(view, graphs.numbers[wallets], seconds[np.concatenate([instants, of_magic])])
    return Drawing(
        store,
        view.manifest.keys,
        store.rules,
        token,
        seconds,
        scene.options.return_decentralization_score,
        held.supplies,
        some,
        scene.kinds[some.addresses],
        free,
        _fresh(scene, free),
        top,
        graphs,
        known,
        labels_of_kinds(store, scene.kinds, graphs.numbers, graphs.texts.to_pylist(), token.chain),
        summaries_of(view, held.owing, len(seconds)),
    )


def _fresh(scene: Scene, free: Rows) -> Rows:
    """The balances while their holders are fresh wallets."""
    store, seconds, age = scene.store, scene.seconds, scene.store.rules.fresh_wallet_seconds
    begun = first_times(store, scene.view)
    since = max(int(seconds[0]) - age, np.iinfo(begun.dtype).min)

    def are_young(begun: Array) -> Array:
        young: Array = (begun <= seconds[-1]) & (begun > since)
        return young

    # of many, those of all addresses one after another, then bytes here and there
    are_many = 8 * len(free.addresses) > len(begun)
    young = are_young(begun)[free.addresses] if are_many else are_young(begun[free.addresses])
    free = free.at(np.flatnonzero(young))
    begun = begun[free.addresses].astype(np.int64)
    firsts = np.maximum(free.firsts, np.searchsorted(seconds, begun))
    lasts = np.minimum(free.lasts, np.searchsorted(seconds, begun + age))
    kept = np.flatnonzero(firsts < lasts)
    return free._replace(firsts=firsts, lasts=lasts).at(kept)


# ---------------------------------------------------------------------- figures


def _map_columns(drawing: Drawing) -> Columns:
    size = len(drawing.seconds)

    def held_by(kind: int) -> list[int]:
        return sums_at(drawing.marked.at((drawing.kinds & kind) != 0), size)

    shown = _shown(drawing)
    entities = metrics.entities_at(drawing.free, shown)
    figures = [metrics.figures_of(one) for one in entities]
    amounts: dict[str, list[int]] = {
        "cexs": held_by(CEX),
        "dexs": held_by(DEX),
        "contracts": held_by(CONTRACT),
        "fresh_wallets": sums_at(drawing.fresh, size),
        "top_10_adjusted": [sum(one.largest[:10]) for one in entities],
        "bundles": [sum(one.clusters[:10]) for one in shown],
    }
    drawn = drawing.drawn.tolist()
    return {name: drawing.shares([told[one] for one in drawn], drawing.drawn) for name, told in amounts.items()} | {
        "service_score": [figures[one].service_score if drawing.scored else None for one in drawn],
        "gini_index": [figures[one].gini_index for one in drawn],
        "herfindahl_hirschman_index": [figures[one].herfindahl_hirschman_index for one in drawn],
        "nakamoto_coefficient": [figures[one].nakamoto_coefficient for one in drawn],
        "negative_balances": [drawing.negatives[one] for one in drawn],
    }


def _shown(drawing: Drawing) -> list[metrics.Shown]:
    """The shown holders of each instant, and the clusters among them."""
    top, graphs, clusters = drawing.top, drawing.graphs, drawing.graphs.clusters
    size, nodes = len(drawing.seconds), len(graphs.texts)
    members = clusters.instants[clusters.owners] * nodes + clusters.nodes
    is_alone = top.is_shown & ~np.isin(top.instants * nodes + graphs.holders, members)
    amounts = to_ints(clusters.sums)
    return [
        metrics.Shown(*one)
        for one in zip(
            _by_instant(drawing.balances, top.instants, np.flatnonzero(top.is_shown), size),
            _by_instant(drawing.balances, top.instants, np.flatnonzero(is_alone), size),
            _by_instant(amounts, clusters.instants, np.arange(len(amounts)), size),
            strict=True,
        )
    ]


def _by_instant(values: Sequence[int], instants: Array, places: Array, size: int) -> list[list[int]]:
    """The values at the places, apart by their rising instants."""
    edges = np.searchsorted(instants[places], np.arange(size + 1)).tolist()
    kept = [values[place] for place in places.tolist()]
    return [kept[first:last] for first, last in pairwise(edges)]


# ---------------------------------------------------------------------- rows


def _node_columns(drawing: Drawing) -> tuple[Array, Columns]:
    top, graphs, size = drawing.top, drawing.graphs, len(drawing.top.instants)
    (of_magic, magic), (of_windows, windows) = (np.nonzero(rows >= 0) for rows in (graphs.magic, graphs.windows))
    lengths = [size, len(magic), len(windows)]
    instants = np.concatenate([top.instants, of_magic, of_windows])
    names = np.concatenate([graphs.holders, graphs.magic[of_magic, magic], graphs.windows[of_windows, windows]])
    order = np.argsort(instants, kind="stable")

    # what only some kinds have, as places in columns of these alone, or -1
    of_top, of_wallets, of_windows = (np.full(len(order), -1) for _ in range(3))
    of_top[:size], of_wallets[: size + len(magic)] = np.arange(size), np.arange(size + len(magic))
    of_windows[size + len(magic) :] = windows + 1
    of_top, of_wallets, of_windows = of_top[order], of_wallets[order], of_windows[order]

    ranks = np.arange(size) - np.searchsorted(top.instants, top.instants) + 1
    decimals = np.full(size, drawing.token.decimals)
    holding: dict[str, pa.Array] = {
        "rank": pa.array(ranks),
        "share": pa.array(drawing.shares(drawing.balances, top.instants), pa.float64()),
        **amount_arrays("amount", Amounts(top.balances, decimals)),
    }
    details: dict[str, pa.Array] = {
        "is_shown_on_map": pa.array(np.concatenate([top.is_shown, np.ones(len(magic), np.bool_)])),
        **detail_columns(drawing.known, drawing.labels, names[: size + len(magic)], drawing.rules),
    }
    columns: Columns = {
        "kind": _KINDS.take(pa.array(np.repeat([0, 1, 2], lengths)[order])),
        "address": drawing.graphs.texts.take(pa.array(names[order])),
        "time_node": pa.array(of_windows, mask=of_windows < 0),
        **{name: spread(column, of_top) for name, column in holding.items()},
        **{name: spread(column, of_wallets) for name, column in details.items()},
    }
    return instants[order], columns


def _relationship_columns(drawing: Drawing) -> tuple[Array, Columns]:
    links = drawing.graphs.links
    columns = link_columns(drawing.book, drawing.keys, links, drawing.graphs.texts)
    return links.instants, columns | {"time_node": pa.array(links.windows + 1, mask=links.windows < 0)}


def _cluster_columns(drawing: Drawing) -> dict[str, tuple[Array, Columns]]:
    clusters = drawing.graphs.clusters
    decimals = np.full(len(clusters.sums), drawing.token.decimals)
    columns: Columns = {
        "cluster_id": pa.array(clusters.numbers),
        "share": drawing.shares(to_ints(clusters.sums), clusters.instants),
        "amount": Amounts(clusters.sums, decimals),
        "holder_count": pa.array(clusters.holders),
        "magic_node_count": pa.array(clusters.magic),
    }
    of_members: Columns = {
        "cluster_id": pa.array(clusters.numbers[clusters.owners]),
        "address": drawing.graphs.texts.take(pa.array(clusters.nodes)),
        "kind": _MEMBERS.take(pa.array(clusters.is_magic.astype(np.int8))),
    }
    return {
        "clusters": (clusters.instants, columns),
        "cluster_members": (clusters.instants[clusters.owners], of_members),
    }
