"""A token's maps as of any seconds: nodes, relationships, clusters and metrics, as the lake's five map tables.

What stands on a map and what connects it is the work of ``graph``, figures are that of ``metrics``; this module puts
them into rows. One map or those of a year are drawn alike: what the instants share is worked out once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np
import pyarrow as pa

from contract.requests import MapOptions
from contract.tables import TABLES
from contract.times import dt_update_text, to_unix
from engine import metrics
from engine.addresses import CEX, CONTRACT, DEX, activity, detail_columns, first_times, labels_of_kinds
from engine.balances import Held, Rows, held_at, largest, mappable_token, nobody_holds, share_of, sums_at
from engine.graph import Graphs, Scene, Top, graphs_of
from engine.manifest import View
from engine.records import TokenInfo
from engine.relationships import link_columns
from engine.store import Store
from engine.tables import Amounts, Columns, amount_arrays, in_order, instants_of, spread, table_of
from engine.words import Array, from_ints, lane_of, to_ints

MAP_TABLES: Final = ("maps", "map_nodes", "grouped_transfers", "clusters", "cluster_members")
_KINDS: Final = pa.array(["top_holder", "magic", "time"])


@dataclass(frozen=True)
class Drawing:
    """All that the tables of some instants tell: the holders, the instant from which each is on no map, the largest
    ones with their raw balances, and the graphs. ``drawn`` are the instants at which anybody holds the token."""

    scene: Scene
    held: Held
    until: Array
    top: Top
    balances: list[int]
    graphs: Graphs

    @property
    def drawn(self) -> Array:
        """The instants that have a map."""
        return np.unique(self.top.instants)

    def share(self, amount: int, instant: int) -> float:
        """An amount as a part of the instant's supply."""
        return share_of(amount, self.held.supplies[instant])


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
    drawing = _drawing(Scene.of(store, view, token, seconds, options))
    common = {"chain": token.chain, "token_address": token.address}
    updated = common | {"dt_update": dt_update_text(computed_at)}
    told: dict[str, tuple[Array, Columns]] = {
        "maps": (drawing.drawn, _map_columns(drawing)),
        "map_nodes": _node_columns(drawing),
        "grouped_transfers": _relationship_columns(drawing),
        **_cluster_columns(drawing),
    }
    return {
        name: in_order(
            table_of(
                TABLES[name],
                columns | {"as_of": instants_of(seconds[instants])},
                updated if name == "maps" else common,
            ),
            instants,
            which,
        )
        for name, (instants, columns) in told.items()
    }


def _drawing(scene: Scene) -> Drawing:
    held = held_at(scene.view, (scene.token.chain, scene.token.address), scene.seconds)
    until = scene.wallets_until(held.rows.addresses)
    instants, places = largest(held.rows, len(scene.seconds), scene.options.limit)
    balances = held.rows.balances[places]
    top = Top(instants, held.rows.addresses[places], balances, until[places] > instants)
    raw = to_ints(balances)
    return Drawing(scene, held, until, top, raw, graphs_of(scene, top, raw))


# ---------------------------------------------------------------------- figures


def _map_columns(drawing: Drawing) -> Columns:
    scene, held, size = drawing.scene, drawing.held.rows, len(drawing.scene.seconds)
    kinds = scene.kinds[held.addresses]
    marked = np.flatnonzero(kinds & (CEX | DEX | CONTRACT))

    def held_by(kind: int) -> list[int]:
        return sums_at(held.at(marked[(kinds[marked] & kind) != 0]), size)

    free = held._replace(lasts=np.minimum(held.lasts, drawing.until))
    free = free.at(np.flatnonzero(free.firsts < free.lasts))
    clusters = drawing.graphs.clusters
    entities = metrics.entities_at(free, _shown_holders(drawing), clusters)
    figures = [metrics.figures_of(one) for one in entities]
    amounts: dict[str, list[int]] = {
        "cexs": held_by(CEX),
        "dexs": held_by(DEX),
        "contracts": held_by(CONTRACT),
        "fresh_wallets": sums_at(_fresh(scene, free), size),
        "top_10_adjusted": [sum(one.largest[:10]) for one in entities],
        "bundles": [sum(cluster.amount for cluster in some[:10]) for some in clusters],
    }
    drawn, asked = drawing.drawn.tolist(), scene.options.return_decentralization_score
    return {name: [drawing.share(told[one], one) for one in drawn] for name, told in amounts.items()} | {
        "service_score": [figures[one].service_score if asked else None for one in drawn],
        "gini_index": [figures[one].gini_index for one in drawn],
        "herfindahl_hirschman_index": [figures[one].herfindahl_hirschman_index for one in drawn],
        "nakamoto_coefficient": [figures[one].nakamoto_coefficient for one in drawn],
    }


def _shown_holders(drawing: Drawing) -> list[dict[str, int]]:
    """The shown holders of each instant and what they hold, the largest first."""
    top, texts = drawing.top, drawing.graphs.texts
    nodes = drawing.graphs.names.places(top.addresses).tolist()
    found: list[dict[str, int]] = [{} for _ in drawing.scene.seconds]
    for place in np.flatnonzero(top.is_shown).tolist():
        found[top.instants[place]][texts[nodes[place]]] = drawing.balances[place]
    return found


def _fresh(scene: Scene, free: Rows) -> Rows:
    """The balances while their holders are fresh wallets."""
    store, seconds, age = scene.store, scene.seconds, scene.store.rules.fresh_wallet_seconds
    begun = first_times(store, scene.view)[free.addresses].astype(np.int64)
    some = np.flatnonzero((begun <= seconds[-1]) & (begun + age > seconds[0]))
    free, begun = free.at(some), begun[some]
    firsts = np.maximum(free.firsts, np.searchsorted(seconds, begun))
    lasts = np.minimum(free.lasts, np.searchsorted(seconds, begun + age))
    kept = np.flatnonzero(firsts < lasts)
    return free._replace(firsts=firsts, lasts=lasts).at(kept)


# ---------------------------------------------------------------------- rows


def _node_columns(drawing: Drawing) -> tuple[Array, Columns]:
    scene, top, graphs = drawing.scene, drawing.top, drawing.graphs
    held, size = graphs.names.places(top.addresses), len(top.addresses)
    (of_magic, magic), (of_windows, windows) = (np.nonzero(rows >= 0) for rows in (graphs.magic, graphs.windows))
    lengths = [size, len(magic), len(windows)]
    instants = np.concatenate([top.instants, of_magic, of_windows])
    names = np.concatenate([held, graphs.magic[of_magic, magic], graphs.windows[of_windows, windows]])
    order = np.argsort(instants, kind="stable")

    # what only some kinds have, as places in columns of these alone, or -1
    of_top, of_wallets, of_windows = (np.full(len(order), -1) for _ in range(3))
    of_top[:size], of_wallets[: size + len(magic)] = np.arange(size), np.arange(size + len(magic))
    of_windows[size + len(magic) :] = windows + 1
    of_top, of_wallets, of_windows = of_top[order], of_wallets[order], of_windows[order]

    ranks = np.arange(size) - np.searchsorted(top.instants, top.instants) + 1
    decimals = np.full(size, scene.token.decimals)
    holding: dict[str, pa.Array] = {
        "rank": pa.array(ranks),
        "share": pa.array([drawing.share(*one) for one in zip(drawing.balances, top.instants.tolist(), strict=True)]),
        **amount_arrays("amount", Amounts(top.balances, decimals)),
    }
    wallets = names[: size + len(magic)]
    known = activity(scene.view, graphs.names.numbers[wallets], scene.seconds[instants[: len(wallets)]])
    labels = labels_of_kinds(scene.store, scene.kinds, graphs.names.numbers, graphs.texts, scene.token.chain)
    details: dict[str, pa.Array] = {
        "is_shown_on_map": pa.array(np.concatenate([top.is_shown, np.ones(len(magic), np.bool_)])),
        **detail_columns(known, labels, wallets, scene.store.rules),
    }
    columns: Columns = {
        "kind": _KINDS.take(pa.array(np.repeat([0, 1, 2], lengths)[order])),
        "address": drawing.graphs.column.take(pa.array(names[order])),
        "time_node": pa.array(of_windows, mask=of_windows < 0),
        **{name: spread(column, of_top) for name, column in holding.items()},
        **{name: spread(column, of_wallets) for name, column in details.items()},
    }
    return instants[order], columns


def _relationship_columns(drawing: Drawing) -> tuple[Array, Columns]:
    links = drawing.graphs.links
    columns = link_columns(drawing.scene.store, drawing.scene.view, links, drawing.graphs.column)
    return links.instants, columns | {"time_node": pa.array(links.windows + 1, mask=links.windows < 0)}


def _cluster_columns(drawing: Drawing) -> dict[str, tuple[Array, Columns]]:
    numbered = [
        (instant, number, cluster)
        for instant, clusters in enumerate(drawing.graphs.clusters)
        for number, cluster in enumerate(clusters, start=1)
    ]
    amounts = [cluster.amount for *_, cluster in numbered]
    members = [
        (instant, number, address, kind)
        for instant, number, cluster in numbered
        for kind, found in (("holder", cluster.holders), ("magic", cluster.magic_nodes))
        for address in found
    ]
    names = ("cluster_id", "address", "kind")
    decimals = np.full(len(amounts), drawing.scene.token.decimals)
    columns: Columns = {
        "cluster_id": [number for _, number, _ in numbered],
        "share": [drawing.share(cluster.amount, instant) for instant, _, cluster in numbered],
        "amount": Amounts(from_ints(amounts, lane_of(max(amounts, default=0))), decimals),
        "holder_count": [len(cluster.holders) for *_, cluster in numbered],
        "magic_node_count": [len(cluster.magic_nodes) for *_, cluster in numbered],
    }
    of_members: Columns = {name: [member[place] for member in members] for place, name in enumerate(names, start=1)}
    return {
        "clusters": (np.array([instant for instant, *_ in numbered], np.int64), columns),
        "cluster_members": (np.array([instant for instant, *_ in members], np.int64), of_members),
    }
