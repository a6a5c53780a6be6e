"""Write parts: transfers by time, and hashes of keys. Each is sorted in batches of limited size.

``files.transfer_arrays`` describes a part and reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from holderlake.engine.files.arrays import array_file
from holderlake.engine.files.transfer_arrays import MOVES, Moves, joined_moves
from holderlake.engine.importing.budget import Budget
from holderlake.engine.importing.keys import merge_sorted, merged_keys
from holderlake.engine.numeric.bigint import Array, resized, total, width_for


def write_part(path: Path, pieces: Sequence[Moves], keys: Sequence[Array], budget: Budget) -> None:
    """Write several ``Moves``, each sorted by time, as one part at ``path``.

    ``keys`` are sorted arrays with the hashes of the rows' keys.
    """
    width = width_for(sum(total(piece.values) for piece in pieces))
    with array_file(path) as file:
        for name, dtype in zip(MOVES, (_type_of_times(pieces), np.int32, np.int32, np.uint64), strict=True):
            file.reserve(name, dtype, sum(map(len, pieces)), (width,) if name == "values" else ())
        row = 0
        for moves in _by_time(pieces, budget.chunk // 2):
            for name, column in zip(MOVES, (moves.times, moves.senders, moves.receivers), strict=False):
                file.fill(name, row, column)
            file.fill("values", row, resized(moves.values, width))
            row += len(moves)
        file.add("keys", merged_keys(keys, budget.chunk))


def _type_of_times(pieces: Sequence[Moves]) -> type[np.uint32] | type[np.int64]:
    """Return the type in which unix seconds are stored: 4 bytes if that suffices for all transfers, else 8."""
    times_of_pieces = [piece.times for piece in pieces if len(piece)]
    fits = all(int(times[0]) >= 0 and int(times[-1]) < 2**32 for times in times_of_pieces)
    return np.uint32 if fits else np.int64


def _by_time(pieces: Sequence[Moves], rows: int) -> Iterator[Moves]:
    """Yield all transfers, sorted by time, in batches of about ``rows`` transfers."""
    if sum(map(len, pieces)) <= rows or len(pieces) == 1:
        moves = joined_moves(list(pieces))
        yield from (moves.at(slice(start, start + rows)) for start in range(0, len(moves), rows))
        return
    chains: list[list[Moves]] = []
    for piece in pieces:
        if len(piece) and chains and chains[-1][-1].times[-1] <= piece.times[0]:
            chains[-1].append(piece)  # the usual case, as rows come by block
        elif len(piece):
            chains.append([piece])
    sources = [_slices(chain, max(rows // len(chains), 16)) for chain in chains]
    yield from merge_sorted(sources, lambda moves: moves.times, Moves.at, joined_moves)


def _slices(chain: Sequence[Moves], rows: int) -> Iterator[Moves]:
    for moves in chain:
        for start in range(0, len(moves), rows):
            part = moves.at(slice(start, start + rows))
            yield Moves(part.times.astype(np.int64), part.senders, part.receivers, part.values)
