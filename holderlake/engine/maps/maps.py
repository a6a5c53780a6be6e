"""A token's maps as of any seconds, as the lake's map tables: maps, nodes, grouped transfers, clusters, members.

``graph`` computes nodes, links and clusters, ``metrics`` the concentration. This module turns them into rows. All
instants of a token are computed together.
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

from holderlake.core.contract.requests import MapOptions
from holderlake.core.contract.tables import MAP_TABLES, TABLES
from holderlake.core.contract.times import dt_update_text, to_unix
from holderlake.engine.catalog.labels import AddressLabel
from holderlake.engine.files.listing import View
from holderlake.engine.maps import metrics
from holderlake.engine.maps.graph import GraphInput, Graphs, Top, graphs_of
from holderlake.engine.maps.relationships import link_columns
from holderlake.engine.numeric.bigint import Array, to_ints
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
from holderlake.engine.queries.balance_rows import BalanceSpans, largest, read_balances, sums_at
from holderlake.engine.queries.balances import no_holders, shares_of, supported_token
from holderlake.engine.queries.negative_balances import summaries_of
from holderlake.engine.queries.tables import Amounts, Columns, amount_arrays, in_order, instants_of, spread, table_of
from holderlake.engine.records import TokenInfo
from holderlake.engine.store.store import Store

_KINDS: Final = pa.array(["top_holder", "magic", "time"])
_MEMBERS: Final = pa.array(["holder", "magic"])


@dataclass(frozen=True, kw_only=True)
class MapData:
    """The content of map tables at several instants (ascending unix ``seconds``).

    - ``store`` has the rules, and metadata of the tokens of links. ``keys`` has the tokens (chain, address) by number.
    - ``scored``: True if the service score is computed. ``supplies`` has the raw supply at each instant.
    - ``marked`` are the balances of exchanges, contracts and hypernodes. ``kinds`` has the kind for each balance.
    - ``free`` are the balances of all other holders, which a map may show. A balance ends when its holder becomes a
      hypernode.
    - ``fresh`` are the balances of ``free`` while their holders are fresh wallets.
    - ``node_activity`` is the activity of the top holders, then of the magic nodes, each as of its instant. ``labels``
      has one label for each node.
    - ``negatives`` has for each instant a JSON summary of the balances below zero.
    """

    store: Store
    keys: Mapping[int, tuple[str, str]]
    token: TokenInfo
    seconds: Array
    scored: bool
    supplies: list[int]
    marked: BalanceSpans
    kinds: Array
    free: BalanceSpans
    fresh: BalanceSpans
    top: Top
    graphs: Graphs
    node_activity: Activity
    labels: list[AddressLabel]
    negatives: list[str | None]

    @property
    def map_instants(self) -> Array:
        """The indices of the instants at which the token has holders, and therefore a map."""
        return np.unique(self.top.instants)

    @cached_property
    def balances(self) -> list[int]:
        """The raw balances of the top holders."""
        return to_ints(self.top.balances)

    def shares(self, amounts: Sequence[int], instants: Array) -> list[float]:
        """Return each amount as a part of the supply at its instant."""
        return shares_of(amounts, instants, self.supplies)


def map_as_of(
    store: Store, chain: str, token_address: str, as_of: datetime, options: MapOptions, computed_at: datetime
) -> dict[str, pa.Table]:
    """Return the map as tables ``maps``, ``map_nodes``, ``grouped_transfers``, ``clusters`` and ``cluster_members``.

    The score is null if ``options.return_decentralization_score`` is false. The remaining ``return_…`` options have no
    effect here; the service applies them. ``computed_at`` is the time in the column ``dt_update``. Raises
    ``UnknownToken``, ``UnsupportedToken`` or ``NoHolders``.
    """
    token = supported_token(store, chain, token_address)
    tables = maps_of(store, store.view(), token, [as_of], options, computed_at)
    if not tables["maps"].num_rows:
        raise no_holders(token, as_of)
    return tables


def maps_of(
    store: Store,
    view: View,
    token: TokenInfo,
    as_of: Sequence[datetime],
    options: MapOptions,
    computed_at: datetime,
) -> dict[str, pa.Table]:
    """Return the map tables of a token at the instants ``as_of``, in a dictionary by table name.

    The rows are in the order of ``as_of``. An instant without holders has no rows. ``computed_at`` is the time in the
    column ``dt_update``.
    """
    seconds, places = np.unique([to_unix(instant) for instant in as_of], return_inverse=True)
    of_spans = [
        map_tables(_map_data(GraphInput.of(store, view, token, span, options)), computed_at)
        for span in store.label_spans(seconds)
    ]
    tables = {name: pa.concat_tables([tables[name] for tables in of_spans]) for name in MAP_TABLES}
    return {name: in_order(table, seconds, places) for name, table in tables.items()}


def map_tables(data: MapData, computed_at: datetime) -> dict[str, pa.Table]:
    """Turn the content of maps into the map tables, by table name. Rows are sorted by instant."""
    common = {"chain": data.token.chain, "token_address": data.token.address}
    updated = common | {"dt_update": dt_update_text(computed_at)}
    content: dict[str, tuple[Array, Columns]] = {
        "maps": (data.map_instants, _map_columns(data)),
        "map_nodes": _node_columns(data),
        "grouped_transfers": _relationship_columns(data),
        **_cluster_columns(data),
    }
    return {
        name: table_of(
            TABLES[name],
            columns | {"as_of": instants_of(data.seconds[instants])},
            updated if name == "maps" else common,
        )
        for name, (instants, columns) in content.items()
    }


def _map_data(inputs: GraphInput) -> MapData:
    store, view, token, seconds = inputs.store, inputs.view, inputs.token, inputs.seconds
    balances = read_balances(view, (token.chain, token.address), seconds, inputs.options.limit)
    rows = balances.rows
    marked = np.flatnonzero(inputs.kinds[rows.addresses] & MARKED)
    instants, places = largest(rows, len(seconds), inputs.options.limit)
    addresses = rows.addresses[places]
    top = Top(instants, addresses, rows.balances[places], inputs.wallets_until(addresses) > instants)
    graphs = graphs_of(inputs, top)
    marked_rows, lasts = rows.at(marked), rows.lasts.copy()
    lasts[marked] = np.maximum(
        marked_rows.firsts, np.minimum(marked_rows.lasts, inputs.wallets_until(marked_rows.addresses))
    )
    free = rows._replace(lasts=lasts)
    of_magic, ranks = np.nonzero(graphs.magic >= 0)
    wallets = np.concatenate([graphs.holders, graphs.magic[of_magic, ranks]])
    node_activity = activity(view, graphs.numbers[wallets], seconds[np.concatenate([instants, of_magic])])
    return MapData(
        store=store,
        keys=view.listing.keys,
        token=token,
        seconds=seconds,
        scored=inputs.options.return_decentralization_score,
        supplies=balances.supplies,
        marked=marked_rows,
        kinds=inputs.kinds[marked_rows.addresses],
        free=free,
        fresh=_fresh(inputs, free),
        top=top,
        graphs=graphs,
        node_activity=node_activity,
        labels=labels_of_kinds(
            *(store, inputs.kinds, graphs.numbers, graphs.texts.to_pylist()),
            *(token.chain, store.label_time(int(seconds[0]))),
        ),
        negatives=summaries_of(view, balances.negative, len(seconds)),
    )


def _fresh(inputs: GraphInput, free: BalanceSpans) -> BalanceSpans:
    """Return the balances of ``free`` while their holders are fresh wallets."""
    store, seconds, age = inputs.store, inputs.seconds, inputs.store.rules.fresh_wallet_seconds
    begun = first_times(store, inputs.view)
    since = max(int(seconds[0]) - age, np.iinfo(begun.dtype).min)

    def are_young(begun: Array) -> Array:
        young: Array = (begun <= seconds[-1]) & (begun > since)
        return young

    # for many holders, one sequential pass over all addresses is faster than random reads of their times
    are_many = 8 * len(free.addresses) > len(begun)
    young = are_young(begun)[free.addresses] if are_many else are_young(begun[free.addresses])
    free = free.at(np.flatnonzero(young))
    begun = begun[free.addresses].astype(np.int64)
    firsts = np.maximum(free.firsts, np.searchsorted(seconds, begun))
    lasts = np.minimum(free.lasts, np.searchsorted(seconds, begun + age))
    places = np.flatnonzero(firsts < lasts)
    return free._replace(firsts=firsts, lasts=lasts).at(places)


def _map_columns(data: MapData) -> Columns:
    size = len(data.seconds)

    def held_by(kind: int) -> list[int]:
        return sums_at(data.marked.at((data.kinds & kind) != 0), size)

    shown_holders = _shown_holders(data)
    groups = metrics.groups_at(data.free, shown_holders)
    values = [metrics.concentration_of(sizes) for sizes in groups]
    amounts: dict[str, list[int]] = {
        "cexs": held_by(CEX),
        "dexs": held_by(DEX),
        "contracts": held_by(CONTRACT),
        "fresh_wallets": sums_at(data.fresh, size),
        "top_10_adjusted": [sum(sizes.largest[:10]) for sizes in groups],
        "bundles": [sum(holders.clusters[:10]) for holders in shown_holders],
    }
    instants = data.map_instants.tolist()
    return {
        **{name: data.shares([of[instant] for instant in instants], data.map_instants) for name, of in amounts.items()},
        "service_score": [values[instant].service_score if data.scored else None for instant in instants],
        "gini_index": [values[instant].gini_index for instant in instants],
        "herfindahl_hirschman_index": [values[instant].herfindahl_hirschman_index for instant in instants],
        "nakamoto_coefficient": [values[instant].nakamoto_coefficient for instant in instants],
        "negative_balances": [data.negatives[instant] for instant in instants],
    }


def _shown_holders(data: MapData) -> list[metrics.Shown]:
    """Return the shown holders of each instant, and the clusters among them."""
    top, graphs, clusters = data.top, data.graphs, data.graphs.clusters
    size, nodes = len(data.seconds), len(graphs.texts)
    members = clusters.instants[clusters.owners] * nodes + clusters.nodes
    is_alone = top.is_shown & ~np.isin(top.instants * nodes + graphs.holders, members)
    amounts = to_ints(clusters.sums)
    return [
        metrics.Shown(*balances)
        for balances in zip(
            _by_instant(data.balances, top.instants, np.flatnonzero(top.is_shown), size),
            _by_instant(data.balances, top.instants, np.flatnonzero(is_alone), size),
            _by_instant(amounts, clusters.instants, np.arange(len(amounts)), size),
            strict=True,
        )
    ]


def _by_instant(values: Sequence[int], instants: Array, places: Array, size: int) -> list[list[int]]:
    """Return ``size`` lists: for each instant, the ``values`` at the indices ``places`` that belong to it.

    ``instants`` has the instant of each value. The instants at ``places`` are ascending.
    """
    edges = np.searchsorted(instants[places], np.arange(size + 1)).tolist()
    ordered = [values[place] for place in places.tolist()]
    return [ordered[start:end] for start, end in pairwise(edges)]


def _node_columns(data: MapData) -> tuple[Array, Columns]:
    top, graphs, size = data.top, data.graphs, len(data.top.instants)
    (of_magic, magic), (of_windows, windows) = (np.nonzero(rows >= 0) for rows in (graphs.magic, graphs.windows))
    lengths = [size, len(magic), len(windows)]
    instants = np.concatenate([top.instants, of_magic, of_windows])
    names = np.concatenate([graphs.holders, graphs.magic[of_magic, magic], graphs.windows[of_windows, windows]])
    order = np.argsort(instants, kind="stable")

    # for each row its position in the columns that only some kinds of nodes have, -1 for none
    of_top, of_wallets, of_windows = (np.full(len(order), -1) for _ in range(3))
    of_top[:size], of_wallets[: size + len(magic)] = np.arange(size), np.arange(size + len(magic))
    of_windows[size + len(magic) :] = windows + 1
    of_top, of_wallets, of_windows = of_top[order], of_wallets[order], of_windows[order]

    ranks = np.arange(size) - np.searchsorted(top.instants, top.instants) + 1
    decimals = np.full(size, data.token.decimals)
    holding: dict[str, pa.Array] = {
        "rank": pa.array(ranks),
        "share": pa.array(data.shares(data.balances, top.instants), pa.float64()),
        **amount_arrays("amount", Amounts(top.balances, decimals)),
    }
    details: dict[str, pa.Array] = {
        "is_shown_on_map": pa.array(np.concatenate([top.is_shown, np.ones(len(magic), np.bool_)])),
        **detail_columns(data.node_activity, data.labels, names[: size + len(magic)], data.store.rules),
    }
    columns: Columns = {
        "kind": _KINDS.take(pa.array(np.repeat([0, 1, 2], lengths)[order])),
        "address": data.graphs.texts.take(pa.array(names[order])),
        "time_node": pa.array(of_windows, mask=of_windows < 0),
        **{name: spread(column, of_top) for name, column in holding.items()},
        **{name: spread(column, of_wallets) for name, column in details.items()},
    }
    return instants[order], columns


def _relationship_columns(data: MapData) -> tuple[Array, Columns]:
    links = data.graphs.links
    columns = link_columns(data.store, data.keys, links, data.graphs.texts)
    return links.instants, columns | {"time_node": pa.array(links.windows + 1, mask=links.windows < 0)}


def _cluster_columns(data: MapData) -> dict[str, tuple[Array, Columns]]:
    clusters = data.graphs.clusters
    decimals = np.full(len(clusters.sums), data.token.decimals)
    columns: Columns = {
        "cluster_id": pa.array(clusters.numbers),
        "share": data.shares(to_ints(clusters.sums), clusters.instants),
        "amount": Amounts(clusters.sums, decimals),
        "holder_count": pa.array(clusters.holders),
        "magic_node_count": pa.array(clusters.magic),
    }
    of_members: Columns = {
        "cluster_id": pa.array(clusters.numbers[clusters.owners]),
        "address": data.graphs.texts.take(pa.array(clusters.nodes)),
        "kind": _MEMBERS.take(pa.array(clusters.is_magic.astype(np.int8))),
    }
    return {
        "clusters": (clusters.instants, columns),
        "cluster_members": (clusters.instants[clusters.owners], of_members),
    }
