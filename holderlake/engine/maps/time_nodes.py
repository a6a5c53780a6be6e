"""Time nodes: an exchange in one window of time in which several shown holders used it.

An allow-listed contract counts as an exchange. If an exchange has very many counterparties in a window, the window
makes no time node, because most users of the exchange do not know each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holderlake.engine.files.adjacency import NEVER
from holderlake.engine.files.entries import Entries, shared_keys
from holderlake.engine.files.manifest import View
from holderlake.engine.maps.graph_input import GraphInput
from holderlake.engine.numeric import graph_kernels
from holderlake.engine.numeric.bigint import Array


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

    def uses_among(self, entries: Entries) -> tuple[Array, Array]:
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


def time_windows_of(inputs: GraphInput, around: Entries, places: Array, is_shown: Array) -> TimeWindows:
    """Return the time windows in which at least ``Rules.time_links`` shown holders used the same exchange.

    ``around`` are the transfers of shown holders, and ``places`` the indices of those whose counterparty is an
    exchange. ``is_shown`` is a mask with a row for each shown holder and a column for each instant.
    """
    rules, seconds, size = inputs.store.rules, inputs.seconds, len(inputs.seconds)
    dictionary, nothing = inputs.view.dictionary, np.empty(0, np.int64)
    if not inputs.options.use_time_nodes:
        none_chosen = np.full((size, 0), -1)
        return TimeWindows(rules.time_window, 0, nothing, nothing, nothing, nothing, nothing, none_chosen)
    exchange_numbers, _, distinct, _ = graph_kernels.number_keys(
        around.others[places].astype(np.int64), around.owners[places]
    )
    ranks, exchanges = dictionary.ranks(distinct), np.empty_like(distinct)
    exchanges[ranks] = distinct
    windows = around.times[places] // rules.time_window
    base = int(windows.min(initial=0))
    keys = (ranks[exchange_numbers].astype(np.int64) << 32) | (windows - base)
    shared = shared_keys(around, places, keys, rules.time_links, np.argsort)
    of_window, begun = exchanges[shared.keys >> 32], ((shared.keys & 0xFFFFFFFF) + base) * rules.time_window
    owners_drop = inputs.supernodes_from(around.addresses)
    things_drop = inputs.supernodes_from(exchanges)[shared.keys >> 32]
    crowded = _crowded_since(inputs.view, of_window, begun, rules.time_window, rules.time_wallets)
    time_nodes = graph_kernels.top_candidates(
        around.starts(shared.places),
        around.times[shared.places],
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
    dropped_from = np.maximum(owners_drop[around.owners[shared.places]], things_drop[shared.key_places])
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
