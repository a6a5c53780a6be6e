"""What surrounds a token's shown holders at some instants: magic nodes, links, time nodes, and clusters.

The steps follow contract section "Classification and computation"; this module puts them in order. What the instants
share is read once: the entries of everybody who is ever shown, and of those who are ever magic nodes. Maps, evidence
and changes all take their clusters from here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa

from contract.requests import MapOptions
from contract.times import to_unix
from engine import kernels
from engine.addresses import CEX, CONTRACT, DEX, kinds_of_addresses, sieve_of_kinds, supernodes_from, wallets_until
from engine.balances import Balances
from engine.clusters import Cluster, Clusters, Standing, clusters_of
from engine.entries import Entries, Names, counting, entries_of, joined_entries
from engine.links import Links, Transfers, Uses, between_nodes, in_windows, joined_links
from engine.manifest import View
from engine.records import TokenInfo
from engine.relationships import Link, counted_tokens, named_links
from engine.store import Store
from engine.tables import texts_of
from engine.words import Array, from_ints, lane_of


@dataclass(frozen=True)
class Scene:
    """Where graphs are drawn: the store and its arrays, kinds of all addresses and their sieve, the token, the
    rising seconds, the options."""

    store: Store
    view: View
    kinds: Array
    sieve: Array
    token: TokenInfo
    seconds: Array
    options: MapOptions

    @staticmethod
    def of(store: Store, view: View, token: TokenInfo, seconds: Array, options: MapOptions) -> Scene:
        """The scene, with the kinds that the store knows."""
        kinds, sieve = kinds_of_addresses(store, view), sieve_of_kinds(store, view)
        return Scene(store, view, kinds, sieve, token, seconds, options)

    def wallets_until(self, addresses: Array) -> Array:
        """The instant from which each address belongs on no map: as exchange, contract or hypernode."""
        return wallets_until(self.store, self.view, self.kinds, addresses, self.seconds)

    def supernodes_from(self, addresses: Array) -> Array:
        """The instant from which each address is a supernode."""
        return supernodes_from(self.store, self.view, addresses, self.seconds)


@dataclass(frozen=True)
class Top:
    """The largest holders at each instant, by instant and rank: places of the instants, numbers of addresses, exact
    balances, and whether they are shown on the map."""

    instants: Array
    addresses: Array
    balances: Array
    is_shown: Array


@dataclass(frozen=True)
class Graphs:
    """The graphs of maps at some instants. Nodes are places in ``texts``, their addresses in order; ``numbers`` are
    those of the addresses. ``holders`` are the nodes of the top holders, ``magic`` and ``windows`` (the exchanges of
    time nodes) a row an instant, the first ones first, -1 for none."""

    numbers: Array
    texts: pa.Array
    holders: Array
    magic: Array
    windows: Array
    links: Links
    clusters: Clusters


@dataclass(frozen=True)
class Graph:
    """The graph of one map without its time nodes: addresses of magic nodes, the links among them and the shown
    holders, and clusters."""

    magic: dict[str, None]
    links: list[Link]
    clusters: list[Cluster]


def clusters_as_of(store: Store, token: TokenInfo, largest: Balances, as_of: datetime, options: MapOptions) -> Graph:
    """The graph of a map without its time nodes, which make no cluster. ``largest`` are the map's top holders."""
    view, plain = store.view(), options.model_copy(update={"use_time_nodes": False})
    scene = Scene.of(store, view, token, np.array([to_unix(as_of)]), plain)
    addresses = view.dictionary.find([address for address, _ in largest.holders])
    raw = [balance for _, balance in largest.holders]
    balances = from_ints(raw, lane_of(sum(raw)))
    top = Top(np.zeros(len(raw), np.int64), addresses, balances, scene.wallets_until(addresses) > 0)
    graphs = graphs_of(scene, top)
    texts: list[str] = graphs.texts.to_pylist()
    magic = [texts[place] for place in graphs.magic[0].tolist() if place >= 0]
    return Graph(
        dict.fromkeys(magic), named_links(view.manifest.keys, graphs.links, texts), graphs.clusters.listed(texts)
    )


def graphs_of(scene: Scene, top: Top) -> Graphs:
    """The graphs at each instant around the ``top`` holders."""
    view, seconds = scene.view, scene.seconds
    owners, which = np.unique(top.addresses[top.is_shown], return_inverse=True)
    shown = np.zeros((len(owners), len(seconds)), np.bool_)
    shown[which, top.instants[top.is_shown]] = True
    counts = counting(view, counted_tokens(scene.store, (scene.token.chain, scene.token.address)))
    around = entries_of(view, owners, counts, int(seconds[-1]))

    allowed = view.dictionary.find(sorted(scene.store.rules.time_allowed))
    # exchanges and allow-listed contracts are never nodes of their own, but nodes in a window of time
    wallets, exchanges = kernels.apart(
        around.others,
        scene.kinds,
        scene.sieve,
        CEX | DEX | CONTRACT,
        CEX | DEX,
        kernels.slots_of(allowed[allowed >= 0]),
    )
    magic = _magic_nodes(scene, around, wallets, shown, top)
    meetings = _meetings(scene, around, exchanges, shown)
    tied = np.unique(magic[magic >= 0])
    names = Names(view.dictionary, np.concatenate([top.addresses, tied, meetings.exchanges]))
    present = np.zeros((len(names.numbers), len(seconds)), np.bool_)
    present[names.places(owners)] = shown
    instants, places = np.nonzero(magic >= 0)
    present[names.places(magic[instants, places]), instants] = True

    among = _among_nodes(scene, around, np.setdiff1d(tied, owners), counts)
    links = between_nodes(view, names, _transfers(names, among), seconds, present, scene.supernodes_from(names.numbers))
    uses = Uses(_transfers(names, around.at(meetings.places)), around.owners[meetings.places], meetings.windows)
    timed = in_windows(view, names, uses, meetings.chosen, seconds, shown, meetings.dropped_from)
    placed = names.places(magic.ravel()).reshape(magic.shape)  # -1 is none of the names
    windows = _at(names.places(meetings.of_window), meetings.chosen)
    holders = names.places(top.addresses)
    return Graphs(
        names.numbers,
        texts_of(view, names.numbers),
        holders,
        placed,
        windows,
        joined_links([links, timed]),
        connected(len(names.numbers), top, holders, placed, links),
    )


def _transfers(names: Names, entries: Entries) -> Transfers:
    senders, receivers = entries.ends()
    return Transfers(names.places(senders), names.places(receivers), entries.tokens, entries.times)


# ---------------------------------------------------------------------- whom shown holders share


@dataclass(frozen=True)
class _Shared:
    """Entries of shown holders by what at least some number of them have in common: places of the entries, the thing
    of each (a place in ``keys``), and whether it is its owner's first with it."""

    places: Array
    things: Array
    firsts: Array
    keys: Array


def _shared(entries: Entries, places: Array, keys: Array, least: int, in_order: Callable[[Array], Array]) -> _Shared:
    """What at least so many owners have in common of the keys of the entries at the places; ``in_order`` gives the
    order in which equally strong ones come."""
    numbers, firsts, distinct, crowd = kernels.numbered(keys, entries.owners[places])
    able = np.flatnonzero(crowd >= least)
    able = able[in_order(distinct[able])]
    place_of = np.full(len(distinct), -1, np.int32)
    place_of[able] = np.arange(len(able), dtype=np.int32)
    things = place_of[numbers]
    kept = np.flatnonzero(things >= 0)
    return _Shared(places[kept], things[kept], firsts[kept], distinct[able])


def _magic_nodes(scene: Scene, around: Entries, places: Array, shown: Array, top: Top) -> Array:
    """The neighbours at each instant that are wallets of their own (entries at the ``places``), the most connected
    first, as many as the rules allow: numbers of addresses, -1 for none."""
    rules, seconds, size = scene.store.rules, scene.seconds, len(scene.seconds)
    if not scene.options.use_magic_nodes:
        return np.full((size, 0), -1)
    others = around.others[places].astype(np.int64)
    shared = _shared(
        around, places, others, rules.magic_links, lambda keys: np.argsort(scene.view.dictionary.ranks(keys))
    )
    end = np.minimum(scene.wallets_until(shared.keys), scene.supernodes_from(shared.keys))
    never = np.full(len(shown), size)
    chosen = kernels.strongest(
        around.starts(shared.places),
        around.times[shared.places],
        shared.things,
        shared.firsts,
        1,
        seconds,
        shown,
        never,
        np.full(len(shared.keys), size),
        end,
        _rows_of(top, shared.keys, size),
        rules.magic_links,
        rules.magic_limit,
    )
    return _at(shared.keys, chosen)


def _at(values: Array, places: Array) -> Array:
    """The values at the places, -1 where a place is -1."""
    found: Array = np.append(values, -1)[places]
    return found


def _rows_of(top: Top, keys: Array, size: int) -> Array:
    """The top holders of each instant (a row) as places in the keys, -1 for those that are not there."""
    order = np.argsort(keys)
    found = np.searchsorted(keys, top.addresses, sorter=order)
    places = order[np.minimum(found, len(keys) - 1)] if len(keys) else found
    known = np.flatnonzero(keys[places] == top.addresses) if len(keys) else found[:0]
    ranks = np.arange(len(top.instants)) - np.searchsorted(top.instants, top.instants)
    rows = np.full((size, int(ranks.max(initial=-1)) + 1), -1)
    rows[top.instants[known], ranks[known]] = places[known]
    return rows


@dataclass(frozen=True)
class _Meetings:
    """Windows of time in which shown holders used an exchange: the exchanges; that of each window; the entries that are
    uses, the window of each, and the instant from which it does not count, being between two supernodes; and the
    windows chosen at each instant (a row), the most shared first, -1 for none."""

    exchanges: Array
    of_window: Array
    places: Array
    windows: Array
    dropped_from: Array
    chosen: Array


def _meetings(scene: Scene, around: Entries, places: Array, shown: Array) -> _Meetings:
    """The windows in which the entries at the places, with exchanges, are uses."""
    rules, seconds, size = scene.store.rules, scene.seconds, len(scene.seconds)
    dictionary, nothing = scene.view.dictionary, np.empty(0, np.int64)
    if not scene.options.use_time_nodes:
        return _Meetings(nothing, nothing, nothing, nothing, nothing, np.full((size, 0), -1))
    which, _, found, _ = kernels.numbered(around.others[places].astype(np.int64), around.owners[places])
    ranks, exchanges = dictionary.ranks(found), np.empty_like(found)
    exchanges[ranks] = found
    windows = around.times[places] // rules.time_window
    base = int(windows.min(initial=0))
    keys = (ranks[which].astype(np.int64) << 32) | (windows - base)
    shared = _shared(around, places, keys, rules.time_links, np.argsort)
    of_window = exchanges[shared.keys >> 32]
    owners_drop = scene.supernodes_from(around.addresses)
    things_drop = scene.supernodes_from(exchanges)[shared.keys >> 32]
    chosen = kernels.strongest(
        around.starts(shared.places),
        around.times[shared.places],
        shared.things,
        shared.firsts,
        0,
        seconds,
        shown,
        owners_drop,
        things_drop,
        np.full(len(of_window), size),
        np.full((size, 0), -1),
        rules.time_links,
        rules.time_limit,
    )
    dropped_from = np.maximum(owners_drop[around.owners[shared.places]], things_drop[shared.things])
    return _Meetings(exchanges, of_window, shared.places, shared.things, dropped_from, chosen)


# ---------------------------------------------------------------------- what connects them


def _among_nodes(scene: Scene, around: Entries, further: Array, counts: Array) -> Entries:
    """The transfers among those who are ever shown, and with and among the ``further`` nodes, each once."""
    inside, beyond = (kernels.among(around.others, kernels.slots_of(some)) for some in (around.addresses, further))
    mine = around.at(np.flatnonzero((inside & ~around.inward) | beyond))
    others = entries_of(scene.view, further, counts, int(scene.seconds[-1]), further)
    others = others.at(np.flatnonzero(~others.inward))
    addresses = np.concatenate([mine.addresses, others.addresses])
    moved = Entries(
        addresses, others.owners + len(mine.addresses), others.others, others.tokens, others.inward, others.times
    )
    return joined_entries([mine, moved], addresses)


def connected(size: int, top: Top, nodes: Array, magic: Array, links: Links) -> Clusters:
    """The clusters of each instant's map, which has so many nodes: by those of the top holders, magic nodes (a row an
    instant) and the links between nodes."""
    starts = np.searchsorted(links.instants, np.arange(len(magic) + 1))
    components = kernels.components(starts, links.senders, links.receivers, size)
    shown = np.flatnonzero(top.is_shown)
    holders = Standing(top.instants[shown], nodes[shown], top.balances[shown])
    instants, ranks = np.nonzero(magic >= 0)
    return clusters_of(holders, Standing(instants, magic[instants, ranks], top.balances[:0]), components)
