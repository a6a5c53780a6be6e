"""Merge sorted sources of rows. Only one batch of each source is in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

import numpy as np

from holderlake.engine.numeric.bigint import Array


class Rows(Protocol):
    """A batch of rows, of any type that has a length."""

    def __len__(self) -> int: ...


T = TypeVar("T", bound=Rows)


def merge_sorted(
    sources: Sequence[Iterator[T]],
    key: Callable[[T], Array],
    part: Callable[[T, slice], T],
    join: Callable[[list[T]], T],
) -> Iterator[T]:
    """Merge the rows of all sources. Yield batches by ascending key, with all rows of equal key in one batch.

    Each source yields batches by ascending key, and ``key`` returns the keys of a batch. ``part`` returns a slice of a
    batch. ``join`` merges several batches into one sorted batch; its argument has the batches in the order of
    ``sources``.
    """
    heads: list[T | None] = [next(source, None) for source in sources]
    ended = [head is None for head in heads]
    while True:
        waiting = [number for number, end in enumerate(ended) if not end]
        if not waiting:
            break
        least = min(waiting, key=lambda number: _last_key(heads[number], key))
        bound = _last_key(heads[least], key)
        pieces: list[T] = []
        for number, head in enumerate(heads):
            if head is None:
                continue
            place = int(np.searchsorted(key(head), bound, side="left"))
            if place:
                pieces.append(part(head, slice(0, place)))
                heads[number] = part(head, slice(place, None)) if place < len(head) else None
        if pieces:
            yield join(pieces)
        next_batch = next(sources[least], None)
        if next_batch is None:
            ended[least] = True
        else:
            remaining = heads[least]
            heads[least] = next_batch if remaining is None else join([remaining, next_batch])
    rest_of_all = [head for head in heads if head is not None]
    if rest_of_all:
        yield join(rest_of_all)


def _last_key(head: object, key: Callable[[T], Array]) -> int:
    return int(key(head)[-1])  # type: ignore[arg-type]  # a source that has not ended has a head
