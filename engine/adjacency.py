"""Who dealt with whom, over all tokens and chains: each address's transfers by time, as memory-mapped arrays.

Every transfer of something is an entry at its sender and one at its receiver (a single one where they are the same).
An address's entries stand together by rising time, so what counts as of a second is the first of them. Of each entry
is noted whether it is the first with its counterparty, and sums of these notes stand at every 64th entry: a degree as
of any second is a difference of two sums. A run holds the transfers of some imports; a store has a large one and a few
small ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from engine import kernels
from engine.arrays import ArrayFile, Arrays, read_arrays
from engine.words import Array

_STEP: Final = 64
"""Entries from one sum to the next."""

ANY: Final = 1
INWARD: Final = 2
OUTWARD: Final = 4
"""Bits of ``firsts``: first transfer with the counterparty at all, first one from it, first one to it."""

NEVER: Final = 2**62


@dataclass(frozen=True)
class Dealings:
    """Transfers without their values: token number, sender, receiver, unix seconds."""

    tokens: Array
    senders: Array
    receivers: Array
    times: Array

    def __len__(self) -> int:
        return len(self.times)

    def at(self, places: Array | slice) -> Dealings:
        """Some of them."""
        return Dealings(self.tokens[places], self.senders[places], self.receivers[places], self.times[places])


def joined_dealings(pieces: Sequence[Dealings]) -> Dealings:
    """All of the pieces' transfers."""
    if not pieces:
        empty = np.empty(0, np.int32)
        return Dealings(empty, empty, empty, np.empty(0, np.int64))
    return Dealings(
        np.concatenate([piece.tokens for piece in pieces]),
        np.concatenate([piece.senders for piece in pieces]),
        np.concatenate([piece.receivers for piece in pieces]),
        np.concatenate([piece.times.astype(np.int64) for piece in pieces]),
    )


@dataclass(frozen=True)
class Run:
    """A run as it is read. ``addresses`` are those with entries, rising, or empty where the place is the number
    itself; entries of place n are from ``starts[n]`` to ``starts[n + 1]``, the first of them at the second ``begun[n]``
    (its type's last one where there is none). Of an entry: ``others`` the counterparty,
    ``kinds`` token number times two, plus one where the transfer came in, ``times`` unix seconds."""

    addresses: Array
    starts: Array
    others: Array
    kinds: Array
    times: Array
    firsts: Array
    sums: Array
    begun: Array

    @staticmethod
    def of(arrays: Arrays) -> Run:
        """The run whose file holds the arrays."""
        return Run(*(arrays[name] for name in _COLUMNS))

    def entries(self, addresses: Array) -> tuple[Array, Array]:
        """First and last place (excluded) of the entries of each address; equal where it has none."""
        if len(self.addresses):
            places = np.searchsorted(self.addresses, addresses.astype(np.int32))
            places = np.minimum(places, len(self.addresses) - 1)
            known = self.addresses[places] == addresses
        else:
            known = addresses < len(self.starts) - 1
            places = np.where(known, addresses, 0)
        if len(self.starts) == 1:
            nowhere = np.zeros(len(addresses), np.int64)
            return nowhere, nowhere
        starts = np.where(known, self.starts[places], 0)
        return starts, np.where(known, self.starts[places + 1], 0)

    def upto(self, starts: Array, ends: Array, seconds: Array) -> Array:
        """For many spans of rising times, each with a second of its own: where the entries after it begin."""
        return kernels.entries_upto(self.times, starts, ends, seconds)

    def counterparties(self, starts: Array, ends: Array) -> Array:
        """Distinct counterparties within the beginnings of addresses' entries: of all, inward, outward (columns)."""
        before, within = (kernels.notes_before(self.firsts, self.sums, _STEP, places) for places in (starts, ends))
        return within - before

    def dealings(self) -> Dealings:
        """The transfers that the run was made of."""
        sent = np.flatnonzero((self.kinds & 1) == 0)
        places = np.searchsorted(self.starts, sent, side="right") - 1
        senders = self.addresses[places] if len(self.addresses) else places.astype(np.int32)
        return Dealings(self.kinds[sent] >> 1, senders, self.others[sent], self.times[sent])

    @property
    def highest(self) -> int:
        """The highest number that has a place, -1 for none."""
        return int(self.addresses[-1]) if len(self.addresses) else len(self.starts) - 2

    @cached_property
    def crowd(self) -> Array:
        """How many entries each place has."""
        return np.diff(self.starts)


_COLUMNS: Final = ("addresses", "starts", "others", "kinds", "times", "firsts", "sums", "begun")

Ranged = Callable[[int, int], Dealings]
"""The transfers that an address from one number up to another (excluded) has part in."""


def write_run(path: Path, owners: Array, counts: Array, ranged: Ranged, times: npt.DTypeLike, chunk: int) -> int:
    """Writes a run of transfers, about ``chunk`` entries in memory at a time. Returns the number of its entries.

    ``owners`` are the addresses that have entries, rising, and ``counts`` how many each; ``times`` is the type that
    holds all seconds.
    """
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    size = int(starts[-1])
    cuts = sorted(set(np.searchsorted(starts, np.arange(chunk, size, chunk)).tolist()) - {0, len(owners)})
    edges = [0, *cuts, len(owners)]
    with ArrayFile(path) as file:
        for name, dtype in (("others", np.int32), ("kinds", np.int32), ("times", times), ("firsts", np.uint8)):
            file.reserve(name, dtype, size)
        sums, begun = _Sums(), np.empty(len(owners), times)
        for first, last in itertools.pairwise(edges):
            low, high = int(owners[first]), int(owners[last - 1]) + 1
            for name, column in _entries(ranged(low, high), low, high).items():
                file.fill(name, int(starts[first]), column)
                if name == "firsts":
                    sums.take(column)
                if name == "times":
                    begun[first:last] = column[starts[first:last] - starts[first]]
        file.add("sums", np.concatenate(sums.found))
        for name, column in _placed(owners, starts, begun).items():
            file.add(name, column)
    return size


def _placed(owners: Array, starts: Array, begun: Array) -> dict[str, Array]:
    """``addresses``, ``starts`` and ``begun`` of a run: a place for each number where most of them have entries."""
    size = int(owners[-1]) + 1
    if 4 * len(owners) < size:
        return {"addresses": owners.astype(np.int32), "starts": starts, "begun": begun}
    counts = np.zeros(size + 1, np.int64)
    counts[owners + 1] = np.diff(starts)
    first_times = np.full(size, np.iinfo(begun.dtype).max, begun.dtype)
    first_times[owners] = begun
    return {"addresses": np.empty(0, np.int32), "starts": np.cumsum(counts), "begun": first_times}


class _Sums:
    """Counts the bits of ``firsts``, which come piece by piece: how many there are before every 64th entry."""

    def __init__(self) -> None:
        self.found = [np.zeros((1, 3), np.int64)]
        self._rest = np.empty(0, np.uint8)

    def take(self, firsts: Array) -> None:
        waiting = np.concatenate([self._rest, firsts])
        whole = len(waiting) // _STEP
        steps = waiting[: whole * _STEP].reshape(whole, _STEP)
        bits = np.stack([np.count_nonzero(steps & bit, axis=1) for bit in (ANY, INWARD, OUTWARD)], axis=1)
        if whole:
            self.found.append(self.found[-1][-1:] + np.cumsum(bits, axis=0))
        self._rest = waiting[whole * _STEP :]


def _entries(dealings: Dealings, low: int, high: int) -> dict[str, Array]:
    """Entries of the addresses from ``low`` to ``high``, by address and time, as columns of a run."""
    sent = np.flatnonzero((dealings.senders >= low) & (dealings.senders < high))
    apart = (dealings.receivers >= low) & (dealings.receivers < high) & (dealings.senders != dealings.receivers)
    received = np.flatnonzero(apart)
    owners = np.concatenate([dealings.senders[sent], dealings.receivers[received]])
    others = np.concatenate([dealings.receivers[sent], dealings.senders[received]])
    kinds = np.concatenate([dealings.tokens[sent] * 2, dealings.tokens[received] * 2 + 1]).astype(np.int32)
    times = np.concatenate([dealings.times[sent], dealings.times[received]]).astype(np.int64)
    order = _by_owner_and_time(owners, times)
    owners, others, kinds, times = owners[order], others[order], kinds[order], times[order]
    return {"others": others, "kinds": kinds, "times": times, "firsts": _firsts(owners, others, kinds)}


def _by_owner_and_time(owners: Array, times: Array) -> Array:
    if len(times) and times.min() >= 0 and times.max() < 2**32:
        return np.argsort((owners.astype(np.int64) << 32) | times)
    return np.lexsort((times, owners))


def _firsts(owners: Array, others: Array, kinds: Array) -> Array:
    """Which entries, of those that stand by owner and time, are the first of their pair: at all, and each way."""
    firsts = np.zeros(len(owners), np.uint8)
    pairs = (owners.astype(np.int64) << 32) | others
    order = np.argsort(pairs, kind="stable")
    ordered, inward = pairs[order], (kinds[order] & 1).astype(np.bool_)
    is_new = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(ordered) else np.zeros(0, np.bool_)
    apart = (ordered >> 32) != (ordered & 0xFFFFFFFF)
    firsts[order[is_new & apart]] |= ANY
    for bit, way in ((INWARD, inward), (OUTWARD, ~inward)):
        mine = np.flatnonzero(way & apart)
        kept = ordered[mine]
        first = np.concatenate([[True], kept[1:] != kept[:-1]]) if len(kept) else np.zeros(0, np.bool_)
        firsts[order[mine[first]]] |= bit
    return firsts


def owners_of(pieces: Iterable[Dealings], runs: Sequence[Run]) -> tuple[Array, Array]:
    """The addresses that have entries in the transfers and the runs, rising, and how many each."""
    found = [(piece.senders, piece.receivers[piece.receivers != piece.senders]) for piece in pieces]
    ends = [end for pair in found for end in pair]
    highest = max([int(end.max()) for end in ends if len(end)] + [run.highest for run in runs], default=-1)
    if sum(map(len, ends)) + sum(len(run.others) for run in runs) < highest // 8:
        held = [np.repeat(run.addresses, run.crowd) for run in runs if len(run.addresses)]
        if len(held) == len(runs):
            return np.unique(np.concatenate([*ends, *held]), return_counts=True)
    counts = np.zeros(highest + 1, np.int64)
    for end in ends:
        counts += np.bincount(end, minlength=highest + 1)
    for run in runs:
        if len(run.addresses):
            counts[run.addresses] += run.crowd
        else:
            counts[: len(run.starts) - 1] += run.crowd
    owners = np.flatnonzero(counts)
    return owners, counts[owners]


def within(pieces: Callable[[], Iterator[Dealings]]) -> Ranged:
    """``Ranged`` over transfers in any order."""

    def ranged(low: int, high: int) -> Dealings:
        return joined_dealings([piece.at(_touching(piece, low, high)) for piece in pieces()])

    return ranged


def _touching(piece: Dealings, low: int, high: int) -> Array:
    sends = (piece.senders >= low) & (piece.senders < high)
    return np.flatnonzero(sends | ((piece.receivers >= low) & (piece.receivers < high)))


def of_runs(runs: Sequence[Run]) -> Ranged:
    """``Ranged`` over the transfers of whole runs: each address's entries stand together there already."""

    def ranged(low: int, high: int) -> Dealings:
        return joined_dealings([_slice(run, low, high) for run in runs])

    return ranged


def _slice(run: Run, low: int, high: int) -> Dealings:
    """The transfers of the addresses' entries; one between two of them is told once."""
    if len(run.addresses):
        first, last = np.searchsorted(run.addresses, np.array([low, high], np.int32))
        owners = run.addresses[first:last]
    else:
        first, last = min(low, len(run.starts) - 1), min(high, len(run.starts) - 1)
        owners = np.arange(first, last, dtype=np.int32)
    start, end = int(run.starts[first]), int(run.starts[last])
    owner = np.repeat(owners, np.diff(run.starts[first : last + 1]))
    others, kinds, times = run.others[start:end], run.kinds[start:end], run.times[start:end]
    came_in = (kinds & 1).astype(np.bool_)
    told = np.flatnonzero(~came_in | (others < low) | (others >= high))
    came_in = came_in[told]
    senders = np.where(came_in, others[told], owner[told])
    receivers = np.where(came_in, owner[told], others[told])
    return Dealings(kinds[told] >> 1, senders, receivers, times[told])


def without(dealings: Dealings, removed: Dealings) -> tuple[Dealings, Dealings]:
    """The transfers less those removed, each as often as it is among these; and those that were not found."""
    recent = np.flatnonzero(dealings.times >= removed.times.min())
    keys, taken = (
        np.stack([some.tokens, some.senders, some.receivers, some.times], axis=1)
        for some in (dealings.at(recent), removed)
    )
    every, which = np.unique(np.concatenate([keys, taken]), axis=0, return_inverse=True)
    mine, theirs = which[: len(keys)], which[len(keys) :]
    kept = np.ones(len(dealings), np.bool_)
    kept[recent] = _rank_among_equals(mine) >= np.bincount(theirs, minlength=len(every))[mine]
    missed = _rank_among_equals(theirs) >= np.bincount(mine, minlength=len(every))[theirs]
    return dealings.at(np.flatnonzero(kept)), removed.at(np.flatnonzero(missed))


def _rank_among_equals(numbers: Array) -> Array:
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    ranks = np.empty(len(numbers), np.int64)
    ranks[order] = np.arange(len(numbers)) - np.searchsorted(ordered, ordered, side="left")
    return ranks


def read_run(path: Path) -> Run:
    """The run of a file."""
    return Run.of(read_arrays(path))
