"""The graph of a token's map at several instants: magic nodes, links, time nodes, and the clusters that links connect.

The steps follow the contract, section "Classification and computation". The transfers of all addresses that are shown
holders or magic nodes at any instant are read once. Maps, evidence and changes are computed from these graphs.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa

from holderlake.core.contract.requests import MapOptions
from holderlake.core.contract.times import to_unix
from holderlake.engine.files.adjacency import NEVER
from holderlake.engine.files.arrays import are_among, take_or_missing
from holderlake.engine.files.entries import (
    AddressEntries,
    AddressOrder,
    concatenate_entries,
    entries_of,
    shared_keys,
    token_mask,
)
from holderlake.engine.files.listing import View
from holderlake.engine.maps.clusters import Cluster, Clusters, RankedNodes, clusters_of
from holderlake.engine.maps.links import Links, Transfers, Uses, between_nodes, in_windows, joined_links
from holderlake.engine.maps.relationships import Link, counted_tokens, named_links
from holderlake.engine.numeric import graph_kernels
from holderlake.engine.numeric.bigint import Array, from_ints, width_for
from holderlake.engine.queries.addresses import (
    CEX,
    CONTRACT,
    DEX,
    kinds_of_addresses,
    supernodes_from,
    wallets_until,
)
from holderlake.engine.queries.balances import Balances
from holderlake.engine.queries.tables import texts_of
from holderlake.engine.records import TokenInfo
from holderlake.engine.store.store import Store


@dataclass(frozen=True)
class Top:
    """The largest holders as arrays, by instant and rank.

    ``instants`` are indices into the list of instants, ``addresses`` address numbers. ``balances`` are raw, as limbs
    (64-bit words, see ``bigint``). ``is_shown`` is True for holders that the map shows.
    """

    instants: Array
    addresses: Array
    balances: Array
    is_shown: Array


@dataclass(frozen=True)
class Graphs:
    """The graphs of maps at several instants, as arrays.

    A node is an index into ``texts`` (addresses, in alphabetical order) and into ``numbers`` (the address numbers).
    ``holders`` has the node of each top holder. ``magic`` has a row for each instant with the nodes that are magic
    nodes. ``windows`` has a row for each instant with the exchanges of its time nodes. The rows are in the order in
    which the map lists these nodes, filled up with -1.
    """

    numbers: Array
    texts: pa.Array
    holders: Array
    magic: Array
    windows: Array
    links: Links
    clusters: Clusters


@dataclass(frozen=True)
class Graph:
    """The graph of one map.

    ``magic`` has the addresses of the magic nodes in order. ``time_nodes`` has the addresses of the time nodes'
    exchanges. ``links`` are the links between wallets, and between wallets and time nodes.
    """

    magic: dict[str, None]
    time_nodes: list[str]
    links: list[Link]
    clusters: list[Cluster]


def graph_as_of(store: Store, token: TokenInfo, largest: Balances, as_of: datetime, options: MapOptions) -> Graph:
    """Return the graph of a token's map at the instant ``as_of``. ``largest`` are the map's top holders."""
    view = store.view()
    inputs = GraphInput.of(store, view, token, np.array([to_unix(as_of)]), options)
    addresses = view.dictionary.find([address for address, _ in largest.holders])
    raw = [balance for _, balance in largest.holders]
    balances = from_ints(raw, width_for(sum(raw)))
    top = Top(np.zeros(len(raw), np.int64), addresses, balances, inputs.wallets_until(addresses) > 0)
    graphs = graphs_of(inputs, top)
    texts: list[str] = graphs.texts.to_pylist()
    magic, windows = (
        [texts[place] for place in nodes[0].tolist() if place >= 0] for nodes in (graphs.magic, graphs.windows)
    )
    return Graph(
        dict.fromkeys(magic),
        windows,
        named_links(view.listing.keys, graphs.links, texts),
        graphs.clusters.listed(texts),
    )


def graphs_of(inputs: GraphInput, top: Top) -> Graphs:
    """Return the graphs at each instant of ``inputs``. ``top`` has the top holders of every instant."""
    view, seconds = inputs.view, inputs.seconds
    owners, owner_rows = np.unique(top.addresses[top.is_shown], return_inverse=True)
    is_shown = np.zeros((len(owners), len(seconds)), np.bool_)
    is_shown[owner_rows, top.instants[top.is_shown]] = True
    counts = token_mask(view, counted_tokens(inputs.store, (inputs.token.chain, inputs.token.address)))
    holder_entries = entries_of(view, owners, counts, int(seconds[-1]))

    allowed = view.dictionary.find(sorted(inputs.store.rules.time_allowed))
    # exchanges and allow-listed contracts are nodes only in a window of time
    kinds = inputs.kinds[holder_entries.others]
    wallets = np.flatnonzero((kinds & (CEX | DEX | CONTRACT)) == 0)
    is_allowed = are_among(holder_entries.others, allowed[allowed >= 0])
    exchanges = np.flatnonzero(((kinds & (CEX | DEX)) != 0) | is_allowed)
    magic = _magic_nodes(inputs, holder_entries, wallets, is_shown, top)
    time_windows = time_windows_of(inputs, holder_entries, exchanges, is_shown)
    tied = np.unique(magic[magic >= 0])
    other_magic = np.setdiff1d(tied, owners)
    magic_entries = entries_of(
        view, other_magic, counts, int(seconds[-1]), np.concatenate([other_magic, time_windows.chosen_exchanges])
    )
    names = AddressOrder(view.dictionary, np.concatenate([top.addresses, tied, time_windows.exchanges]))
    present = np.zeros((len(names.numbers), len(seconds)), np.bool_)
    present[names.places(owners)] = is_shown
    instants, places = np.nonzero(magic >= 0)
    present[names.places(magic[instants, places]), instants] = True

    node_transfers = _transfers(names, _among_nodes(holder_entries, magic_entries))
    node_links = between_nodes(view, names, node_transfers, seconds, present, inputs.supernodes_from(names.numbers))
    uses = _uses(inputs, names, time_windows, holder_entries, magic_entries)
    links = joined_links([node_links, in_windows(view, names, uses, time_windows.time_nodes, seconds, present)])
    magic_nodes = names.places(magic.ravel()).reshape(magic.shape)  # -1 is none of the names
    windows = take_or_missing(names.places(time_windows.of_window), time_windows.time_nodes)
    holders = names.places(top.addresses)
    return Graphs(
        names.numbers,
        texts_of(view, names.numbers),
        holders,
        magic_nodes,
        windows,
        links,
        connected(len(names.numbers), top, holders, magic_nodes, windows, links),
    )


def _uses(
    inputs: GraphInput,
    names: AddressOrder,
    time_windows: TimeWindows,
    holder_entries: AddressEntries,
    magic_entries: AddressEntries,
) -> Uses:
    """Return the transfers between wallets and exchanges in the windows that make time nodes.

    The wallets are shown holders and magic nodes. ``holder_entries`` are the transfers of shown holders,
    ``magic_entries`` those of magic nodes.
    """
    places, windows = time_windows.uses_among(magic_entries)
    entries = concatenate_entries(holder_entries.at(time_windows.places), magic_entries.at(places))
    never = np.full(len(places), len(inputs.seconds))  # a magic node is no supernode
    return Uses(
        _transfers(names, entries),
        names.places(entries.addresses)[entries.owners],
        np.concatenate([time_windows.windows, windows]),
        np.concatenate([time_windows.dropped_from, never]),
    )


def _transfers(names: AddressOrder, entries: AddressEntries) -> Transfers:
    senders, receivers = entries.ends()
    return Transfers(names.places(senders), names.places(receivers), entries.tokens, entries.times)


def _magic_nodes(inputs: GraphInput, holder_entries: AddressEntries, places: Array, is_shown: Array, top: Top) -> Array:
    """Return the magic nodes of each instant: a row of address numbers, the most connected first, filled up with -1.

    ``holder_entries`` are the transfers of shown holders, and ``places`` the indices of those whose counterparty is a
    wallet. ``is_shown`` is a mask with a row for each shown holder and a column for each instant. The store's rules
    limit the number of magic nodes of a map.
    """
    rules, seconds, size = inputs.store.rules, inputs.seconds, len(inputs.seconds)
    if not inputs.options.use_magic_nodes:
        return np.full((size, 0), -1)
    counterparties = holder_entries.others[places].astype(np.int64)
    shared = shared_keys(
        holder_entries,
        places,
        counterparties,
        rules.magic_links,
        lambda keys: np.argsort(inputs.view.dictionary.ranks(keys)),
    )
    end = np.minimum(inputs.wallets_until(shared.keys), inputs.supernodes_from(shared.keys))
    never = np.full(len(is_shown), size)
    strongest = graph_kernels.top_candidates(
        holder_entries.starts(shared.places),
        holder_entries.times[shared.places],
        shared.key_places,
        shared.firsts,
        1,
        seconds,
        is_shown,
        never,
        np.full(len(shared.keys), size),
        end,
        _rows_of(top, shared.keys, size),
        rules.magic_links,
        rules.magic_limit,
    )
    return take_or_missing(shared.keys, strongest)


def _rows_of(top: Top, keys: Array, size: int) -> Array:
    """Return a row for each instant with its top holders by rank, as positions in ``keys``.

    The value is -1 for a holder that is not in ``keys``. ``keys`` are address numbers, ``size`` is the number of
    instants.
    """
    order = np.argsort(keys)
    insertion_points = np.searchsorted(keys, top.addresses, sorter=order)
    places = order[np.minimum(insertion_points, len(keys) - 1)] if len(keys) else insertion_points
    matches = np.flatnonzero(keys[places] == top.addresses) if len(keys) else insertion_points[:0]
    ranks = np.arange(len(top.instants)) - np.searchsorted(top.instants, top.instants)
    rows = np.full((size, int(ranks.max(initial=-1)) + 1), -1)
    rows[top.instants[matches], ranks[matches]] = places[matches]
    return rows


def _among_nodes(holder_entries: AddressEntries, magic_entries: AddressEntries) -> AddressEntries:
    """Return the transfers between two nodes, each once.

    ``holder_entries`` are the transfers of shown holders, ``magic_entries`` those of magic nodes. A transfer can be in
    both.
    """
    inside, beyond = (
        are_among(holder_entries.others, addresses) for addresses in (holder_entries.addresses, magic_entries.addresses)
    )
    within = are_among(magic_entries.others, magic_entries.addresses)
    return concatenate_entries(
        holder_entries.at(np.flatnonzero((inside & ~holder_entries.inward) | beyond)),
        magic_entries.at(np.flatnonzero(within & ~magic_entries.inward)),
    )


def connected(size: int, top: Top, nodes: Array, magic: Array, windows: Array, links: Links) -> Clusters:
    """Return the clusters of each instant's map. ``size`` is the number of nodes.

    ``nodes`` has the node of each top holder. ``magic`` (magic nodes) and ``windows`` (exchanges of time nodes) have a
    row for each instant. A link to a time node ends at the time node, not at its exchange. It therefore connects only
    wallets that used the exchange in the same window.
    """
    exchanges = np.full(len(links.windows), -1)
    timed = np.flatnonzero(links.windows >= 0)
    exchanges[timed] = windows[links.instants[timed], links.windows[timed]]
    senders, receivers = (
        np.where(ends == exchanges, size + links.windows, ends) for ends in (links.senders, links.receivers)
    )
    starts = np.searchsorted(links.instants, np.arange(len(magic) + 1))
    components = graph_kernels.components(starts, senders, receivers, size + windows.shape[1])
    shown_places = np.flatnonzero(top.is_shown)
    holders = RankedNodes(top.instants[shown_places], nodes[shown_places], top.balances[shown_places])
    instants, ranks = np.nonzero(magic >= 0)
    return clusters_of(holders, RankedNodes(instants, magic[instants, ranks], top.balances[:0]), components)


@dataclass(frozen=True)
class TimeWindows:
    """Windows of time (``width`` seconds) in which shown holders used an exchange.

    ``exchanges`` are address numbers, in the alphabetical order of the addresses. ``keys`` has the key of each window,
    ascending. A key is the index of the exchange times 2**32, plus the number of the window less ``base``. The number
    of a window is its first unix second divided by ``width``.

    A use is an entry between a shown holder and an exchange. Three arrays have one value for each use: ``places``
    (index of the entry), ``windows`` (index into ``keys``) and ``dropped_from``. From the instant with the index
    ``dropped_from`` on, holder and exchange are both supernodes, and the use is left out.

    ``time_nodes`` has a row for each instant with its time nodes as indices into ``keys``, those with the most users
    first, filled up with -1.
    """

    width: int
    base: int
    exchanges: Array
    keys: Array
    places: Array
    windows: Array
    dropped_from: Array
    time_nodes: Array

    @property
    def of_window(self) -> Array:
        """The exchange of each window, as an address number."""
        addresses: Array = self.exchanges[self.keys >> 32]
        return addresses

    @property
    def chosen_exchanges(self) -> Array:
        """The exchanges of those windows that are time nodes at one or more instants, as address numbers."""
        return np.unique(self.of_window[self.time_nodes[self.time_nodes >= 0]])

    def uses_among(self, entries: AddressEntries) -> tuple[Array, Array]:
        """Return two arrays: the indices of the entries inside a window, and for each of them its window's index into
        ``keys``."""
        if not len(self.keys):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        order = np.argsort(self.exchanges)
        insertion_points = np.searchsorted(self.exchanges, entries.others, sorter=order)
        exchanges = order[np.minimum(insertion_points, len(order) - 1)]
        windows = entries.times // self.width - self.base
        keys = (exchanges.astype(np.int64) << 32) + windows
        window_places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        is_use = (self.exchanges[exchanges] == entries.others) & (windows >= 0) & (self.keys[window_places] == keys)
        places = np.flatnonzero(is_use)
        return places, window_places[places]


def time_windows_of(inputs: GraphInput, holder_entries: AddressEntries, places: Array, is_shown: Array) -> TimeWindows:
    """Return the time windows in which at least ``Rules.time_links`` shown holders used the same exchange.

    ``holder_entries`` are the transfers of shown holders, and ``places`` the indices of those whose counterparty is an
    exchange. ``is_shown`` is a mask with a row for each shown holder and a column for each instant.
    """
    rules, seconds, size = inputs.store.rules, inputs.seconds, len(inputs.seconds)
    dictionary, nothing = inputs.view.dictionary, np.empty(0, np.int64)
    if not inputs.options.use_time_nodes:
        none_chosen = np.full((size, 0), -1)
        return TimeWindows(rules.time_window, 0, nothing, nothing, nothing, nothing, nothing, none_chosen)
    exchange_numbers, _, distinct, _ = graph_kernels.number_keys(
        holder_entries.others[places].astype(np.int64), holder_entries.owners[places]
    )
    ranks, exchanges = dictionary.ranks(distinct), np.empty_like(distinct)
    exchanges[ranks] = distinct
    windows = holder_entries.times[places] // rules.time_window
    base = int(windows.min(initial=0))
    keys = (ranks[exchange_numbers].astype(np.int64) << 32) | (windows - base)
    shared = shared_keys(holder_entries, places, keys, rules.time_links, np.argsort)
    of_window, begun = exchanges[shared.keys >> 32], ((shared.keys & 0xFFFFFFFF) + base) * rules.time_window
    owners_drop = inputs.supernodes_from(holder_entries.addresses)
    things_drop = inputs.supernodes_from(exchanges)[shared.keys >> 32]
    crowded = _crowded_since(inputs.view, of_window, begun, rules.time_window, rules.time_wallets)
    time_nodes = graph_kernels.top_candidates(
        holder_entries.starts(shared.places),
        holder_entries.times[shared.places],
        shared.key_places,
        shared.firsts,
        0,
        seconds,
        is_shown,
        owners_drop,
        things_drop,
        np.searchsorted(seconds, crowded),
        np.full((size, 0), -1),
        rules.time_links,
        rules.time_limit,
    )
    dropped_from = np.maximum(owners_drop[holder_entries.owners[shared.places]], things_drop[shared.key_places])
    return TimeWindows(
        rules.time_window, base, exchanges, shared.keys, shared.places, shared.key_places, dropped_from, time_nodes
    )


def _crowded_since(view: View, exchanges: Array, begun: Array, width: int, wallet_limit: int) -> Array:
    """Return for each window the unix second at which its exchange exceeds ``wallet_limit`` distinct counterparties in
    the window.

    The value is ``NEVER`` if it does not. Transfers of all tokens and chains count. Window n is that of the exchange
    ``exchanges[n]``; it begins at unix second ``begun[n]`` and lasts ``width`` seconds.
    """
    since = np.full(len(exchanges), NEVER)
    if not len(exchanges):
        return since
    pieces = []
    for run in view.runs:
        starts, ends = run.entries(exchanges)
        starts, ends = run.upto(starts, ends, begun - 1), run.upto(starts, ends, begun + width - 1)
        pieces.append(
            graph_kernels.first_counterparties(run.others, run.times, exchanges, starts, ends, wallet_limit + 1)
        )
    windows, counterparties, seconds = (np.concatenate(columns) for columns in zip(*pieces, strict=True))
    order = np.lexsort((seconds, counterparties, windows))
    is_first = (np.diff(windows[order], prepend=-1) != 0) | (np.diff(counterparties[order], prepend=-1) != 0)
    firsts = order[is_first]
    firsts = firsts[np.lexsort((seconds[firsts], windows[firsts]))]
    place = np.arange(len(firsts)) - np.searchsorted(windows[firsts], windows[firsts])
    decisive = firsts[place == wallet_limit]
    since[windows[decisive]] = seconds[decisive]
    return since


@dataclass(frozen=True)
class GraphInput:
    """Input of a token's graphs at several instants.

    ``view`` has the arrays of the ``store``. ``kinds`` has the kinds of every address as bits, by address number.
    ``seconds`` are the instants, as ascending unix seconds.
    """

    store: Store
    view: View
    kinds: Array
    token: TokenInfo
    seconds: Array
    options: MapOptions

    @staticmethod
    def of(store: Store, view: View, token: TokenInfo, seconds: Array, options: MapOptions) -> GraphInput:
        """Return the input of a token's graphs, with the kinds of addresses read from the store.

        All ``seconds`` have the labels of the first one, see ``Store.label_spans``.
        """
        label_time = store.label_time(int(seconds[0]))
        kinds = kinds_of_addresses(store, view, token.chain, label_time)
        return GraphInput(store, view, kinds, token, seconds, options)

    def wallets_until(self, addresses: Array) -> Array:
        """Return for each address the first index into ``seconds`` at which it is an exchange, contract or hypernode.

        The index is the number of seconds if the address never is one.
        """
        return wallets_until(self.store, self.view, self.kinds, addresses, self.seconds)

    def supernodes_from(self, addresses: Array) -> Array:
        """Return for each address the first index into ``seconds`` at which it is a supernode.

        The index is the number of seconds if the address never is one.
        """
        return supernodes_from(self.store, self.view, addresses, self.seconds)
