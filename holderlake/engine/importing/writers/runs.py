"""How a run of the adjacency is written: entries by address and time, a part of them at a time, an address's own too.

What a run is, and how it is read, is told in ``adjacency``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from holderlake.engine.files.adjacency import ANY, INWARD, OUTWARD, STEP, Run
from holderlake.engine.files.arrays import ArrayFile
from holderlake.engine.files.parts import Moves
from holderlake.engine.importing.budget import Budget
from holderlake.engine.importing.merge import merged
from holderlake.engine.importing.spill import ArrayBuckets, Columns, Sample
from holderlake.engine.numeric.bigint import Array

_BITS: Final = (ANY, INWARD, OUTWARD)


class Entries(NamedTuple):
    """Entries of addresses: number of the owner and of its counterparty, unix seconds, and ``kinds``: number of the
    token times two, plus one where the transfer came in."""

    owners: Array
    others: Array
    times: Array
    kinds: Array

    @property
    def keys(self) -> Array:
        """What rises by owner, and within an owner never falls by time."""
        return (self.owners.astype(np.int64) << 32) | np.clip(self.times, 0, 2**32 - 1).astype(np.int64)

    def at(self, places: Array | slice) -> Entries:
        """Some of them."""
        return Entries(*(column[places] for column in self))

    def ordered(self) -> Entries:
        """The same by owner and time."""
        if len(self.times) and self.times.min() >= 0 and self.times.max() < 2**32:
            return self.at(np.argsort(self.keys))
        return self.at(np.lexsort((self.times, self.owners)))


class EntryBuffer:
    """Transfers that came in or went, as entries of both addresses: kept in memory while they are few."""

    def __init__(self, spool: Path, budget: Budget) -> None:
        self._spool = spool
        self._budget = budget
        self._moves = ArrayBuckets(spool, budget.waiting)
        self._sample = Sample()
        self.count = 0
        self.is_wide = False

    def add(self, number: int, moves: Moves) -> None:
        """Notes transfers of the token of that number."""
        if not len(moves):
            return
        tokens = np.broadcast_to(np.int32(number), len(moves))
        times = moves.times.astype(np.int64)
        self._moves.add(0, (tokens, moves.senders, moves.receivers, times))
        self.count += 2 * len(moves) - int((moves.senders == moves.receivers).sum())
        self.is_wide |= int(times[-1]) >= 2**32 or int(times[0]) < 0
        some = slice(None, None, 1 + len(moves) // 4_096)
        for side in (moves.senders, moves.receivers):
            self._sample.add((side[some].astype(np.int64) << 32) | np.clip(times[some], 0, 2**32 - 1))

    def entries(self) -> Iterator[Entries]:
        """All entries by owner and time, some at a time. They can be told once."""
        cuts = self._sample.cuts(-(-self.count // self._budget.chunk))
        piles = ArrayBuckets(self._spool, self._budget.waiting)
        for block in self._moves.blocks(0):
            for start in range(0, len(block[0]), self._budget.chunk):
                found = _entries_of(*(column[start : start + self._budget.chunk] for column in block))
                if len(cuts):
                    piles.sort_out(np.searchsorted(cuts, found.keys, side="right"), found)
                else:
                    piles.add(0, found)
        self._moves.drop(0)
        for number in piles.numbers():
            yield Entries(*piles.take(number)).ordered()


def _entries_of(tokens: Array, senders: Array, receivers: Array, times: Array) -> Entries:
    apart = np.flatnonzero(senders != receivers)
    kinds = tokens * np.int32(2)
    return Entries(
        np.concatenate([senders, receivers[apart]]),
        np.concatenate([receivers, senders[apart]]),
        np.concatenate([times, times[apart]]),
        np.concatenate([kinds, kinds[apart] + np.int32(1)]),
    )


def entries_of_run(run: Run, rows: int) -> Iterator[Entries]:
    """The entries of a run in their order, so many at a time."""
    for start in range(0, len(run.others), rows):
        end = min(start + rows, len(run.others))
        first = int(np.searchsorted(run.starts, start, side="right")) - 1
        last = int(np.searchsorted(run.starts, end, side="left"))
        edges = np.clip(run.starts[first : last + 1], start, end)
        numbers = run.addresses[first:last] if len(run.addresses) else np.arange(first, last, dtype=np.int32)
        part = slice(start, end)
        yield Entries(
            np.repeat(numbers, np.diff(edges)), run.others[part], run.times[part].astype(np.int64), run.kinds[part]
        )


def merged_entries(sources: Sequence[Iterator[Entries]]) -> Iterator[Entries]:
    """The entries of all sources, each by owner and time, as one."""
    if len(sources) == 1:
        yield from sources[0]
        return
    yield from (rows.entries for rows in merged([_rows(one) for one in sources], _keys, _Rows.at, _joined))


class _Rows:
    """Entries that have as many as there are rows, as ``merged`` wants them."""

    def __init__(self, entries: Entries) -> None:
        self.entries = entries

    def __len__(self) -> int:
        return len(self.entries.times)

    def at(self, places: slice) -> _Rows:
        return _Rows(self.entries.at(places))


def _rows(source: Iterator[Entries]) -> Iterator[_Rows]:
    return (_Rows(entries) for entries in source if len(entries.times))


def _keys(rows: _Rows) -> Array:
    return rows.entries.keys


def _joined(several: list[_Rows]) -> _Rows:
    if len(several) == 1:
        return several[0]
    return _Rows(Entries(*map(np.concatenate, zip(*(one.entries for one in several), strict=True))).ordered())


# ---------------------------------------------------------------------- writing


def write_run(path: Path, entries: Iterator[Entries], count: int, is_wide: bool, spool: Path, budget: Budget) -> None:
    """Writes a run of ``count`` entries, at least one, by owner and time; ``is_wide``: seconds need eight bytes."""
    times = np.int64 if is_wide else np.uint32
    with ArrayFile(path) as file:
        for name, dtype in (("others", np.int32), ("kinds", np.int32), ("times", times), ("firsts", np.uint8)):
            file.reserve(name, dtype, count)
        owners, across = ArrayBuckets(spool, budget.waiting), ArrayBuckets(spool, budget.waiting)
        parts = 1 + count // budget.chunk
        row, before = 0, -1
        for found, after in _with_next_owner(entries):
            for name, column in (("others", found.others), ("kinds", found.kinds), ("times", found.times)):
                file.fill(name, row, column)
            firsts = _firsts(found)
            file.fill("firsts", row, firsts)
            # of an address that goes on from one part to the next, first ones of each part may not be the first of all
            torn = np.flatnonzero(((found.owners == before) | (found.owners == after)) & (firsts != 0))
            others = found.others[torn]
            across.sort_out(others % parts, (found.owners[torn], others, firsts[torn], torn + row))
            begins = _is_first(found.owners)
            begins[0] = found.owners[0] != before
            starts = np.flatnonzero(begins)
            owners.add(0, (found.owners[starts], starts + row, found.times[starts].astype(times)))
            row, before = row + len(found.owners), int(found.owners[-1])
        firsts = file.map_reserved("firsts")
        for pile in across.numbers():
            _put_right(firsts, across.take(pile))
        file.add("sums", _sums(firsts, budget.chunk))
        _write_places(file, owners, count, budget.chunk)


def _with_next_owner(entries: Iterable[Entries]) -> Iterator[tuple[Entries, int]]:
    """Each part of the entries, and the owner of the first entry after it, -1 for none."""
    waiting: Entries | None = None
    for found in entries:
        if not len(found.owners):
            continue
        if waiting is not None:
            yield waiting, int(found.owners[0])
        waiting = found
    if waiting is not None:
        yield waiting, -1


def _firsts(entries: Entries) -> Array:
    """Which entries, of those that stand by owner and time, are the first of their pair: at all, and each way."""
    apart = np.flatnonzero(entries.owners != entries.others)
    pairs = (entries.owners[apart].astype(np.int64) << 32) | entries.others[apart]
    order = np.argsort(pairs, kind="stable")
    ordered, inward = pairs[order], (entries.kinds[apart][order] & 1).astype(np.bool_)
    firsts = np.zeros(len(entries.owners), np.uint8)
    firsts[apart[order[_is_first(ordered)]]] |= ANY
    for bit, way in ((INWARD, inward), (OUTWARD, ~inward)):
        mine = np.flatnonzero(way)
        firsts[apart[order[mine[_is_first(ordered[mine])]]]] |= bit
    return firsts


def _is_first(ordered: Array) -> Array:
    """Of numbers in order, which ones are other than the one before."""
    found = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=found[1:])
    return found


def _put_right(firsts: Array, across: Columns) -> None:
    """Of entries that are each the first of its pair in its own part, keeps the marks of the first ones of all."""
    owners, others, bits, rows = across
    pairs = (owners.astype(np.int64) << 32) | others
    order = np.argsort(pairs, kind="stable")
    found = np.zeros(len(rows), np.uint8)
    for bit in _BITS:
        mine = order[(bits[order] & bit) != 0]
        found[mine[_is_first(pairs[mine])]] |= bit
    firsts[rows] = found


def _sums(firsts: Array, chunk: int) -> Iterator[Array]:
    """How many of each mark there are before every so many entries."""
    reached = np.zeros((1, 3), np.int64)
    yield reached
    rows = max(chunk // STEP, 1) * STEP
    whole = len(firsts) // STEP * STEP
    for start in range(0, whole, rows):
        steps = firsts[start : min(start + rows, whole)].reshape(-1, STEP)
        found = np.stack([np.count_nonzero(steps & bit, axis=1) for bit in _BITS], axis=1)
        sums = reached[-1:] + np.cumsum(found, axis=0)
        yield sums
        reached = sums[-1:]


def _write_places(file: ArrayFile, owners: ArrayBuckets, count: int, chunk: int) -> None:
    """``addresses``, ``starts`` and ``begun``: a place for each number where most of them have entries."""
    size = 1 + max(int(block[0][-1]) for block in owners.blocks(0))
    if 4 * owners.rows_of(0) < size:
        file.add("addresses", (block[0] for block in owners.blocks(0)))
        file.add("starts", (*(block[1] for block in owners.blocks(0)), np.array([count])))
        file.add("begun", (block[2] for block in owners.blocks(0)))
        return
    file.add("addresses", np.empty(0, np.int32))
    file.add("starts", _starts(owners, count, chunk))
    file.add("begun", _begun(owners, chunk))


def _starts(owners: ArrayBuckets, count: int, chunk: int) -> Iterator[Array]:
    for block, numbers in _windows(owners, chunk):
        yield block[1][np.searchsorted(block[0], numbers)]
    yield np.array([count])


def _begun(owners: ArrayBuckets, chunk: int) -> Iterator[Array]:
    for block, numbers in _windows(owners, chunk):
        places = np.searchsorted(block[0], numbers)
        yield np.where(block[0][places] == numbers, block[2][places], np.iinfo(block[2].dtype).max)


def _windows(owners: ArrayBuckets, chunk: int) -> Iterator[tuple[Columns, Array]]:
    """All numbers from 0 to the last, some at a time, each with the block that its own or the next entry is in."""
    number = 0
    for block in owners.blocks(0):
        last = int(block[0][-1])
        while number <= last:
            numbers = np.arange(number, min(number + chunk, last + 1), dtype=np.int32)
            yield block, numbers
            number += len(numbers)


# ---------------------------------------------------------------------- taking out


def may_contain(run: Run, entries: Entries) -> bool:
    """Return whether the run may have any of the entries: one of the owner at the very second."""
    starts, ends = run.entries(entries.owners)
    low, high = starts.copy(), ends.copy()
    while (opened := np.flatnonzero(low < high)).size:
        middle = (low[opened] + high[opened]) // 2
        is_early = run.times[middle] < entries.times[opened]
        low[opened[is_early]] = middle[is_early] + 1
        high[opened[~is_early]] = middle[~is_early]
    found = np.flatnonzero(low < ends)
    return bool((run.times[low[found]] == entries.times[found]).any())


def subtract(run: Run, removed: Iterator[Entries], rows: int) -> Iterator[tuple[Entries, Entries]]:
    """The entries of the run less those removed, each as often as it is among these; and those that it has not."""
    for found in merged_entries([_marked(entries_of_run(run, rows), 0), _marked(removed, 1)]):
        is_removed = (found.kinds >> 32) != 0
        entries = Entries(found.owners, found.others, found.times, (found.kinds & 0xFFFFFFFF).astype(np.int32))
        if not is_removed.any():
            yield entries, entries.at(slice(0, 0))
            continue
        order = np.lexsort((entries.kinds, entries.others, entries.times, entries.owners))
        same = np.logical_and.reduce([column[order][1:] == column[order][:-1] for column in entries])
        group = np.empty(len(order), np.int64)
        group[order] = np.cumsum(np.concatenate([[True], ~same])) - 1
        gone, there = np.bincount(group[is_removed], minlength=len(order)), group[~is_removed]
        theirs = group[is_removed]
        kept = _rank_among_equals(there) >= gone[there]
        missed = _rank_among_equals(theirs) >= np.bincount(there, minlength=len(order))[theirs]
        yield (
            entries.at(np.flatnonzero(~is_removed)[kept]),
            entries.at(np.flatnonzero(is_removed)[missed]),
        )


def _marked(entries: Iterator[Entries], mark: int) -> Iterator[Entries]:
    for some in entries:
        yield some._replace(kinds=some.kinds.astype(np.int64) | (mark << 32))


def _rank_among_equals(numbers: Array) -> Array:
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    ranks = np.empty(len(numbers), np.int64)
    ranks[order] = np.arange(len(numbers)) - np.searchsorted(ordered, ordered, side="left")
    return ranks
