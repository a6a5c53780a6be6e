"""Write runs of the adjacency: entries by address and time, in batches. A batch may end between two entries of an
address.

``files.adjacency`` describes a run and reads it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from holderlake.engine.files.adjacency import ANY, INWARD, OUTWARD, STEP, Run
from holderlake.engine.files.arrays import ArrayFile, array_file
from holderlake.engine.files.transfer_arrays import Moves
from holderlake.engine.importing.budget import Budget
from holderlake.engine.importing.keys import are_among, merge_sorted
from holderlake.engine.importing.spill import ArrayBuckets, Sample
from holderlake.engine.numeric.bigint import Array

_BITS: Final = (ANY, INWARD, OUTWARD)
_GRID: Final = 4_096
"""Number of addresses at which the entries of several runs may be divided into ranges."""


class AdjacencyEntries(NamedTuple):
    """Entries of the adjacency, as arrays with a value for each entry.

    ``owners`` and ``others`` (the counterparties) are address numbers, ``times`` unix seconds. ``kinds`` is the token
    number times 2, plus 1 if the owner received.
    """

    owners: Array
    others: Array
    times: Array
    kinds: Array

    @property
    def keys(self) -> Array:
        """Integers by which entries are sorted: by owner, then by time."""
        return (self.owners.astype(np.int64) << 32) | np.clip(self.times, 0, 2**32 - 1).astype(np.int64)

    def at(self, places: Array | slice) -> AdjacencyEntries:
        """Return the entries at the indices ``places``."""
        return AdjacencyEntries(*(column[places] for column in self))

    def ordered(self) -> AdjacencyEntries:
        """Return the entries, sorted by owner and time."""
        if len(self.times) and self.times.min() >= 0 and self.times.max() < 2**32:
            return self.at(np.argsort(self.keys))
        return self.at(np.lexsort((self.times, self.owners)))


class EntryBuffer:
    """Collects transfers, in files if there are many, and returns their entries: one of the sender, one of the
    receiver."""

    def __init__(self, spool: Path, budget: Budget) -> None:
        self._spool = spool
        self._budget = budget
        self._moves = ArrayBuckets(spool, budget.waiting)
        self._sample = Sample()
        self.count = 0
        self.is_wide = False

    def add(self, number: int, moves: Moves) -> None:
        """Add transfers of the token with the number ``number``."""
        if not len(moves):
            return
        tokens = np.broadcast_to(np.int32(number), len(moves))
        times = moves.times.astype(np.int64)
        self._moves.add(0, (tokens, moves.senders, moves.receivers, times))
        self.count += 2 * len(moves) - int((moves.senders == moves.receivers).sum())
        self.is_wide |= int(times[-1]) >= 2**32 or int(times[0]) < 0
        stride = slice(None, None, 1 + len(moves) // 4_096)
        for side in (moves.senders, moves.receivers):
            self._sample.add((side[stride].astype(np.int64) << 32) | np.clip(times[stride], 0, 2**32 - 1))

    def entries(self) -> Iterator[AdjacencyEntries]:
        """Yield all entries by owner and time, in batches. A second call is not possible."""
        cuts = self._sample.cuts(-(-self.count // self._budget.chunk))
        buckets = ArrayBuckets(self._spool, self._budget.waiting)
        for block in self._moves.blocks(0):
            for start in range(0, len(block[0]), self._budget.chunk):
                batch = _entries_of(*(column[start : start + self._budget.chunk] for column in block))
                if len(cuts):
                    buckets.distribute(np.searchsorted(cuts, batch.keys, side="right"), batch)
                else:
                    buckets.add(0, batch)
        self._moves.drop(0)
        for number in buckets.numbers():
            yield AdjacencyEntries(*buckets.take(number)).ordered()


def _entries_of(tokens: Array, senders: Array, receivers: Array, times: Array) -> AdjacencyEntries:
    apart = np.flatnonzero(senders != receivers)
    kinds = tokens * np.int32(2)
    return AdjacencyEntries(
        np.concatenate([senders, receivers[apart]]),
        np.concatenate([receivers, senders[apart]]),
        np.concatenate([times, times[apart]]),
        np.concatenate([kinds, kinds[apart] + np.int32(1)]),
    )


def entries_of_run(run: Run, rows: int, span: tuple[int, int] | None = None) -> Iterator[AdjacencyEntries]:
    """Yield the entries of a run by owner and time, in batches of ``rows`` entries. ``span`` has the indices of the
    first entry and of the end; None means all entries."""
    first, last = span or (0, len(run.others))
    for start in range(first, last, rows):
        end = min(start + rows, last)
        first_owner = int(np.searchsorted(run.starts, start, side="right")) - 1
        last_owner = int(np.searchsorted(run.starts, end, side="left"))
        edges = np.clip(run.starts[first_owner : last_owner + 1], start, end)
        owners, part = np.repeat(run.addresses[first_owner:last_owner], np.diff(edges)), slice(start, end)
        yield AdjacencyEntries(owners, run.others[part], run.times[part].astype(np.int64), run.kinds[part])


def merged_entries(sources: Sequence[Iterator[AdjacencyEntries]]) -> Iterator[AdjacencyEntries]:
    """Merge the entries of several sources. Each source, and the result, is sorted by owner and time."""
    if len(sources) == 1:
        yield from sources[0]
        return
    yield from merge_sorted(sources, lambda entries: entries.keys, AdjacencyEntries.at, joined_entries)


def joined_entries(batches: Sequence[AdjacencyEntries]) -> AdjacencyEntries:
    """Return the entries of several batches, sorted by owner and time, in one batch."""
    if len(batches) == 1:
        return batches[0]
    return AdjacencyEntries(*map(np.concatenate, zip(*batches, strict=True))).ordered()


# ---------------------------------------------------------------------- writing


def write_run(
    path: Path, entries: Iterator[AdjacencyEntries], count: int, is_wide: bool, spool: Path, budget: Budget
) -> None:
    """Write ``count`` (at least one) entries, sorted by owner and time, as a run at ``path``.

    ``is_wide`` is True if unix seconds need 8 bytes.
    """
    times = np.int64 if is_wide else np.uint32
    with array_file(path) as file:
        for name, dtype in (("others", np.int32), ("kinds", np.int32), ("times", times), ("firsts", np.uint8)):
            file.reserve(name, dtype, count)
        owners = ArrayBuckets(spool, budget.waiting)
        counterparties = {bit: np.empty(0, np.int32) for bit in _BITS}  # of the last owner, in all batches until now
        row, owner = 0, -1
        for batch in entries:
            for name, column in (("others", batch.others), ("kinds", batch.kinds), ("times", batch.times)):
                file.fill(name, row, column)
            is_divided = int(batch.owners[0]) == owner
            begins, firsts = _is_first(batch.owners), _firsts(batch)
            begins[0] = not is_divided
            if is_divided:  # the owner's first entry with a counterparty may be in an earlier batch
                head = slice(0, int(np.searchsorted(batch.owners, owner, side="right")))
                for bit, known_ones in counterparties.items():
                    firsts[head][are_among(known_ones, batch.others[head])] &= np.uint8(~bit & 0xFF)
            file.fill("firsts", row, firsts)
            starts = np.flatnonzero(begins)
            owners.add(0, (batch.owners[starts], starts + row, batch.times[starts].astype(times)))
            row, owner = row + len(batch.owners), int(batch.owners[-1])
            tail = slice(int(np.searchsorted(batch.owners, owner)), None)
            for bit, known_ones in counterparties.items():
                pieces = [known_ones] if is_divided and tail.start == 0 else []
                pieces.append(batch.others[tail][(firsts[tail] & bit) != 0])
                counterparties[bit] = np.unique(np.concatenate(pieces))
        firsts = file.map_reserved("firsts")
        file.add("sums", _sums(firsts, budget.chunk))
        _write_owners(file, owners, count)


def range_edges(runs: Sequence[Run], addresses: int, max_entries: int) -> list[int]:
    """Divide the numbers of ``addresses`` addresses into ranges with about ``max_entries`` entries in all runs.

    Return the edges.
    """
    grid = np.unique(np.linspace(0, addresses, _GRID, dtype=np.int64))
    counts = np.sum([[run.entries_before(int(place)) for place in grid] for run in runs], axis=0)
    parts = 1 + int(counts[-1]) // max_entries
    cuts = np.searchsorted(counts, int(counts[-1]) * np.arange(1, parts) // parts)
    return sorted({0, *grid[cuts].tolist(), addresses})


def merge_runs(
    path: Path, runs: Sequence[tuple[Run, int]], owners: tuple[int, int], max_entries: int, spool: Path, budget: Budget
) -> bool:
    """Merge the entries of several runs into one run at ``path``. Return False, without a file, if there are none.

    ``owners`` are the first number and the end of the range of owners to merge. Each run comes with the number that is
    added to its token numbers. At most ``max_entries`` entries are sorted in memory; more are merged in batches.
    """
    spans = [(run.entries_before(owners[0]), run.entries_before(owners[1])) for run, _ in runs]
    count = sum(end - start for start, end in spans)
    if not count:
        return False
    rows = count if count <= max_entries else max(budget.chunk // len(runs), 16)
    sources = [
        _renumbered(entries_of_run(run, rows, span), added) for (run, added), span in zip(runs, spans, strict=True)
    ]
    entries = merged_entries(sources)
    if count <= max_entries:
        entries = iter([joined_entries(list(itertools.chain.from_iterable(sources)))])
    is_wide = any(run.times.dtype.itemsize > 4 for run, _ in runs)
    write_run(path, entries, count, is_wide, spool, budget)
    return True


def _renumbered(source: Iterator[AdjacencyEntries], added: int) -> Iterator[AdjacencyEntries]:
    """Yield the entries with ``added`` added to their token numbers."""
    for entries in source:
        yield entries._replace(kinds=entries.kinds + np.int32(2 * added))


def join_runs(path: Path, runs: Sequence[Run], spool: Path, budget: Budget) -> int:
    """Write several runs as one run at ``path``. Return its number of entries.

    Each run has all entries of its owners, and the owners of a run are before those of the next one.
    """
    count = sum(len(run.others) for run in runs)
    times = np.result_type(*(run.times.dtype for run in runs))
    owners = ArrayBuckets(spool, budget.waiting)
    with array_file(path) as file:
        for name, dtype in (("others", np.int32), ("kinds", np.int32), ("times", times), ("firsts", np.uint8)):
            file.reserve(name, dtype, count)
            row = 0
            for run in runs:
                column = getattr(run, name)
                for start in range(0, len(column), 8 * budget.chunk):
                    chunk = column[start : start + 8 * budget.chunk]
                    file.fill(name, row, chunk)
                    row += len(chunk)
        row = 0
        for run in runs:
            owners.add(0, (run.addresses, run.starts[:-1] + row, run.begun.astype(times)))
            row += len(run.others)
        file.add("sums", _sums(file.map_reserved("firsts"), budget.chunk))
        _write_owners(file, owners, count)
    return count


def _firsts(entries: AdjacencyEntries) -> Array:
    """Return the array ``Run.firsts`` for the given entries, as if an owner had no earlier entries.

    A bit is set in the owner's first entry with a counterparty (``ANY``), in the first one from it (``INWARD``), and in
    the first one to it (``OUTWARD``).
    """
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
    """Return a mask of the sorted numbers that differ from the previous number."""
    mask = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=mask[1:])
    return mask


def _sums(firsts: Array, chunk: int) -> Iterator[Array]:
    """Yield the rows of ``Run.sums``: how often each bit of ``firsts`` is set before every ``STEP``-th entry."""
    totals = np.zeros((1, 3), np.int64)
    yield totals
    rows = max(chunk // STEP, 1) * STEP
    end = len(firsts) // STEP * STEP
    for start in range(0, end, rows):
        steps = firsts[start : min(start + rows, end)].reshape(-1, STEP)
        counts = np.stack([np.count_nonzero(steps & bit, axis=1) for bit in _BITS], axis=1)
        sums = totals[-1:] + np.cumsum(counts, axis=0)
        yield sums
        totals = sums[-1:]


def _write_owners(file: ArrayFile, owners: ArrayBuckets, count: int) -> None:
    """Write the arrays ``addresses``, ``starts`` and ``begun`` of a ``Run`` with ``count`` entries.

    Bucket 0 of ``owners`` has three columns: owners (ascending), index and unix second of the owner's first entry.
    """
    file.add("addresses", (block[0] for block in owners.blocks(0)))
    file.add("starts", (*(block[1] for block in owners.blocks(0)), np.array([count])))
    file.add("begun", (block[2] for block in owners.blocks(0)))
