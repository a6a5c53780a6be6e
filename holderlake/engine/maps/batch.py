"""One pass over many tokens and instants: their maps or holders as the lake's tables, a batch at a time.

Rows are those that ``map_as_of`` and ``holders_as_of`` give, one token and instant after another. A token's instants
are worked out together, some hundreds at a time, and two tokens side by side: nearly all of the work is outside the
interpreter's lock.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from holderlake.contract.requests import MapOptions
from holderlake.contract.times import utc_now
from holderlake.engine.files.arrays import exceeds_mapped_limit, release_pages
from holderlake.engine.files.manifest import View
from holderlake.engine.maps.maps import MAP_TABLES, maps_of
from holderlake.engine.numeric.bigint import Array
from holderlake.engine.queries.addresses import first_times, kinds_of_addresses, sieve_of_kinds
from holderlake.engine.queries.balances import mappable_token
from holderlake.engine.queries.holders import holders_of
from holderlake.engine.store.store import Store

_WORKERS: Final = 2
_TOGETHER: Final = 32_000
"""Top holders, over all instants, that are worked on together."""
_MAPS: Final = 32
"""Maps to a batch, at least, but for the last one."""
_ROWS: Final = 10_000
"""Rows of holders to a batch, at least, but for the last one."""
_LOOK: Final = 0.05
"""Seconds between two looks at what mapped files take."""

T = TypeVar("T")


def sweep(
    store: Store,
    tokens: Sequence[tuple[str, str]],
    instants: Sequence[datetime],
    options: MapOptions,
    computed_at: datetime | None = None,
) -> Iterator[dict[str, pa.Table]]:
    """The map tables of every token (chain, address) at every instant, some maps to a batch, by token, then instant.

    A token that nobody holds at an instant has no row of it. The store is read as it is when the pass begins. Raises
    ``UnknownToken`` or ``UnsupportedToken`` when it comes to such a token.
    """
    snapshot, made_at = store.cached_snapshot(), computed_at or utc_now()
    view = snapshot.view()

    def draw(key: tuple[str, str], some: Sequence[datetime]) -> dict[str, pa.Table]:
        return maps_of(snapshot, view, mappable_token(snapshot, *key), some, options, made_at)

    sieve_of_kinds(snapshot, view), first_times(snapshot, view)  # once, before two ask for them
    found: list[dict[str, pa.Table]] = []
    with _little_mapped(view):
        for tables in _side_by_side(_asked(draw, tokens, instants, options.limit)):
            found += [tables] if tables["maps"].num_rows else []
            if sum(one["maps"].num_rows for one in found) >= _MAPS:
                yield _joined(found)
                found = []
    if found:
        yield _joined(found)


def _joined(found: Sequence[dict[str, pa.Table]]) -> dict[str, pa.Table]:
    return {name: pa.concat_tables([tables[name] for tables in found]) for name in MAP_TABLES}


def sweep_holders(
    store: Store, tokens: Sequence[tuple[str, str]], instants: Sequence[datetime], limit: int, details: bool = False
) -> Iterator[pa.Table]:
    """The lake's ``holders`` rows of every token at every instant, some instants to a batch, as ``sweep`` has them."""
    snapshot = store.cached_snapshot()
    view = snapshot.view()

    def listed(key: tuple[str, str], some: Sequence[datetime]) -> pa.Table:
        return holders_of(snapshot, view, mappable_token(snapshot, *key), some, limit, details)

    kinds_of_addresses(snapshot, view)  # once, before two ask for them
    found: list[pa.Table] = []
    with _little_mapped(view):
        for table in _side_by_side(_asked(listed, tokens, instants, limit)):
            found += [table] if table.num_rows else []
            if sum(one.num_rows for one in found) >= _ROWS:
                yield pa.concat_tables(found)
                found = []
    if found:
        yield pa.concat_tables(found)


@contextmanager
def _little_mapped(view: View) -> Iterator[None]:
    """Gives the memory of mapped files back when they take much, or a pass over a whole store would seem to need all of
    it. Someone beside the work looks at it: what is read for a large token alone may be more than that."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_LOOK):
            if exceeds_mapped_limit():
                release_pages(array for whole in view.opened for array in _arrays(whole))

    watching = threading.Thread(target=watch, name="letting go", daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()


def _arrays(whole: Any) -> Iterator[Array]:
    for field in fields(whole):
        value = getattr(whole, field.name)
        if is_dataclass(value):
            yield from _arrays(value)
        elif isinstance(value, np.ndarray):
            yield value


def _asked(
    answer: Callable[[tuple[str, str], Sequence[datetime]], T],
    tokens: Sequence[tuple[str, str]],
    instants: Sequence[datetime],
    limit: int,
) -> Iterator[Callable[[], T]]:
    step = max(1, _TOGETHER // limit)
    for key in tokens:
        for first in range(0, len(instants), step):
            yield partial(answer, key, instants[first : first + step])


def _side_by_side(calls: Iterable[Callable[[], T]]) -> Iterator[T]:
    """The results of the calls in their order, a few of them worked out ahead."""
    pool, waiting = ThreadPoolExecutor(_WORKERS), deque[Future[T]]()
    try:
        for call in calls:
            waiting.append(pool.submit(call))
            if len(waiting) > _WORKERS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
