"""Links of maps at several instants, as arrays. A link joins two nodes, or a node and an exchange in a time window.

A link groups the transfers of one sender, receiver and token (contract, 2.4). Links between two supernodes are dropped.
The value of each transfer is looked up once for all instants, because the sum of a link at an instant is a difference
of two running sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from holderlake.engine.files.arrays import expand_ranges
from holderlake.engine.files.entries import AddressOrder
from holderlake.engine.files.listing import View
from holderlake.engine.numeric import graph_kernels
from holderlake.engine.numeric.bigint import Array, concatenated, from_digits, sum_width

_CELLS = 1 << 22
"""The most pairs of an instant and a link that one step of ``_while_present`` examines."""


@dataclass(frozen=True)
class Links:
    """Links by instant. Links between nodes come before links of time windows.

    ``instants`` are indices of instants. ``windows`` is the index of the time window on its map, -1 for links
    between nodes. ``senders`` and ``receivers`` are positions in an ``AddressOrder``, ``tokens`` token numbers.
    ``counts`` are numbers of transfers, and the times are unix seconds. ``sums`` are raw amounts as limbs (64-bit
    words, see ``bigint``).
    """

    instants: Array
    windows: Array
    senders: Array
    receivers: Array
    tokens: Array
    counts: Array
    first_times: Array
    last_times: Array
    sums: Array


class Transfers(NamedTuple):
    """Transfers that make links, as arrays with a value for each transfer.

    ``senders`` and ``receivers`` are positions in an ``AddressOrder``, ``tokens`` token numbers, ``times`` unix
    seconds. Transfers with the same sender, receiver and token are sorted by time.
    """

    senders: Array
    receivers: Array
    tokens: Array
    times: Array

    def at(self, places: Array) -> Transfers:
        """Return the transfers at the positions ``places``."""
        return Transfers(*(column[places] for column in self))

    def links(self, view: View) -> Array:
        """Return for each transfer the key of its link.

        A key is an integer that identifies a sender, receiver and token. Keys sort like the addresses and tokens as
        text.
        """
        tokens, inverse = np.unique(self.tokens, return_inverse=True)
        keys = [view.listing.keys[token] for token in tokens.tolist()]
        ranks = np.empty(len(keys), np.int64)
        ranks[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
        stride = 1 + max((int(ends.max()) for ends in self[:2] if len(ends)), default=0)
        link_keys: Array = (self.senders.astype(np.int64) * stride + self.receivers) * len(keys) + ranks[inverse]
        return link_keys


def between_nodes(
    view: View, names: AddressOrder, transfers: Transfers, seconds: Array, present: Array, supernodes_from: Array
) -> Links:
    """Return the links at each of the ascending ``seconds`` between the addresses that are nodes at that second.

    ``names`` is the order of the addresses. ``present`` is a mask with a row for each address of ``names`` and a column
    for each second. ``supernodes_from`` has, for each address, the index of the first of ``seconds`` at which it is a
    supernode. A link is dropped from the second on at which both ends are supernodes.
    """
    keys = transfers.links(view)
    order = np.argsort(keys, kind="stable")
    transfers, keys = transfers.at(order), keys[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    senders, receivers = transfers.senders[starts], transfers.receivers[starts]
    arrived = np.searchsorted(seconds, transfers.times)
    begin, end = arrived[starts], np.maximum(supernodes_from[senders], supernodes_from[receivers])
    instants, links = _while_present(present, senders, receivers, begin, end)

    sizes = np.diff(np.append(starts, len(keys)))
    used = np.zeros(len(starts), np.bool_)
    used[links] = True
    used_transfers = np.flatnonzero(np.repeat(used, sizes))
    values = _values(view, names, transfers.at(used_transfers))
    running = np.zeros((len(keys) + 1, values.shape[1]), np.int64)
    running[used_transfers + 1] = values
    running = np.cumsum(running, axis=0, out=running)

    size, number = len(seconds), np.repeat(np.arange(len(starts)), sizes)
    ends = np.searchsorted(number * size + arrived, links * size + instants, side="right")
    firsts = starts[links]
    return Links(
        instants,
        np.full(len(links), -1),
        senders[links],
        receivers[links],
        transfers.tokens[firsts],
        ends - firsts,
        transfers.times[firsts],
        transfers.times[ends - 1],
        from_digits(running[ends] - running[firsts]),
    )


def _while_present(present: Array, senders: Array, receivers: Array, begin: Array, end: Array) -> tuple[Array, Array]:
    """Return all pairs of an instant and a link such that both ends of the link are present at the instant.

    The result is two arrays: indices of instants, and indices of links. Link n counts from the instant with the index
    ``begin[n]`` to the one with the index ``end[n]`` (excluded). ``present`` is a mask with a row for each address and
    a column for each instant. ``senders`` and ``receivers`` are rows of ``present``, one for each link.
    """
    by_instant = np.ascontiguousarray(present.T)
    step = max(1, _CELLS // max(1, len(senders)))
    pieces: list[tuple[Array, Array]] = [(np.empty(0, np.int64), np.empty(0, np.int64))]
    for start in range(0, len(by_instant), step):
        rows = by_instant[start : start + step]
        now = np.arange(start, start + len(rows))[:, None]
        alive = rows[:, senders] & rows[:, receivers] & (begin <= now) & (now < end)
        instants, links = np.nonzero(alive)
        pieces.append((instants + start, links))
    return np.concatenate([piece[0] for piece in pieces]), np.concatenate([piece[1] for piece in pieces])


class Uses(NamedTuple):
    """Transfers between wallets and exchanges in time windows. A use is one of these transfers.

    Three arrays have one value for each use: ``owners`` (the wallet's position in an ``AddressOrder``), ``windows``
    (index into ``TimeWindows.keys``), and ``dropped_from``. From the instant with the index ``dropped_from`` on, wallet
    and exchange are both supernodes, and the use is left out.
    """

    transfers: Transfers
    owners: Array
    windows: Array
    dropped_from: Array


def in_windows(view: View, names: AddressOrder, uses: Uses, time_nodes: Array, seconds: Array, present: Array) -> Links:
    """Return the links of the time windows at each of the ascending ``seconds``.

    ``time_nodes`` has a row for each second: the windows that are time nodes of its map, filled up with -1. ``present``
    is a mask with a row for each address of ``names`` and a column for each second: True if the address is a node of
    the map. Uses by other wallets are left out.
    """
    instants, places = np.nonzero(time_nodes >= 0)
    windows = time_nodes[instants, places]
    is_time_node = np.zeros(int(uses.windows.max(initial=-1)) + 1, np.bool_)
    is_time_node[windows] = True
    use_places = np.flatnonzero(is_time_node[uses.windows])
    links = uses.transfers.at(use_places).links(view)
    use_places = use_places[np.lexsort((links, uses.windows[use_places]))]
    transfers, owners, of_window = uses.transfers.at(use_places), uses.owners[use_places], uses.windows[use_places]
    dropped, arrived = uses.dropped_from[use_places], np.searchsorted(seconds, transfers.times)
    values = _values(view, names, transfers)

    starts, ends = (np.searchsorted(of_window, windows, side=side) for side in ("left", "right"))
    positions, pair_of = expand_ranges(starts, ends), np.repeat(np.arange(len(windows)), ends - starts)
    now = instants[pair_of]
    kept_rows = np.flatnonzero(
        present[owners[positions], now] & (arrived[positions] <= now) & (now < dropped[positions])
    )
    positions, pair_of = positions[kept_rows], pair_of[kept_rows]
    changed = np.diff(pair_of, prepend=-1) != 0
    for column in transfers[:3]:
        changed |= np.diff(column[positions], prepend=-1) != 0
    firsts = np.flatnonzero(changed)
    lasts = np.append(firsts, len(positions))[1:] - 1
    summed = np.add.reduceat(values[positions], firsts, axis=0) if len(firsts) else values[:0]
    mine = positions[firsts]
    return Links(
        instants[pair_of[firsts]],
        places[pair_of[firsts]],
        transfers.senders[mine],
        transfers.receivers[mine],
        transfers.tokens[mine],
        lasts - firsts + 1,
        transfers.times[mine],
        transfers.times[positions[lasts]],
        from_digits(summed),
    )


def joined_links(pieces: Sequence[Links]) -> Links:
    """Return all links of several ``Links`` in one, sorted by instant. Links of the same instant keep their order."""
    columns = {field.name: [getattr(piece, field.name) for piece in pieces] for field in fields(Links)}
    order = np.argsort(np.concatenate(columns["instants"]), kind="stable")
    arrays = {
        name: concatenated(*column) if name == "sums" else np.concatenate(column) for name, column in columns.items()
    }
    return Links(**{name: column[order] for name, column in arrays.items()})


def _values(view: View, names: AddressOrder, transfers: Transfers) -> Array:
    """Return the raw value of each transfer as a row of 32-bit digits.

    The values are read from the parts of each token. If several transfers have the same token, second, sender and
    receiver, the first of them gets the sum of their values, and the rest get 0.
    """
    senders, receivers = names.numbers[transfers.senders], names.numbers[transfers.receivers]
    ends = (senders.astype(np.int64) << 32) | receivers
    tokens = np.unique(transfers.tokens).tolist()
    parts = {token: view.parts_of(token) for token in tokens}
    width = max((part.moves.values.shape[1] for token_parts in parts.values() for part in token_parts), default=1)
    # the width of a part has room for the sums of that part only
    width = sum_width(width) if any(len(token_parts) > 1 for token_parts in parts.values()) else width
    digits = np.zeros((len(ends), 2 * width), np.int64)
    order = np.lexsort((ends, transfers.times, transfers.tokens))  # of equal ones the first stays the first
    columns = (transfers.tokens[order], transfers.times[order], ends[order])
    is_first = np.zeros(len(order), np.bool_)
    for column in columns:
        is_first |= np.diff(column, prepend=-1) != 0
    once = order[is_first]
    edges = np.searchsorted(transfers.tokens[once], [*tokens, np.iinfo(np.int32).max]).tolist()
    for token, (start, end) in zip(tokens, pairwise(edges), strict=True):
        rows = once[start:end]
        for part in parts[token]:
            moves = part.moves
            graph_kernels.add_values(
                digits, rows, transfers.times, ends, moves.times, moves.senders, moves.receivers, moves.values
            )
    return digits
