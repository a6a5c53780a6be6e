"""Compute the maps or holders of many tokens at many instants, as batches of the lake's tables.

The rows equal those of ``map_as_of`` and ``holders_as_of``, sorted by token, then instant. One call computes up to some
hundreds of instants of a token. Two threads compute, because most of the work does not hold the interpreter's lock.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import is_dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from holderlake.core.contract.requests import MapOptions
from holderlake.core.contract.tables import MAP_TABLES
from holderlake.core.contract.times import to_unix, utc_now
from holderlake.engine.files.arrays import exceeds_mapped_limit, release_pages
from holderlake.engine.files.listing import View
from holderlake.engine.maps.maps import maps_of
from holderlake.engine.numeric.bigint import Array
from holderlake.engine.queries.addresses import first_times, kinds_of_addresses
from holderlake.engine.queries.balances import supported_token
from holderlake.engine.queries.holders import holders_of
from holderlake.engine.store.store import Store

_WORKERS: Final = 2
_HOLDERS_PER_CALL: Final = 32_000
"""The most top holders that one call computes, summed over the instants of the call."""
_MAPS_PER_BATCH: Final = 32
"""The least number of maps in a batch. The last batch may have fewer."""
_ROWS_PER_BATCH: Final = 10_000
"""The least number of rows of holders in a batch. The last batch may have fewer."""
_MEMORY_CHECK_SECONDS: Final = 0.05
"""Seconds between two measurements of the memory of mapped files."""

T = TypeVar("T")


def map_batches(
    store: Store,
    tokens: Sequence[tuple[str, str]],
    instants: Sequence[datetime],
    options: MapOptions,
    computed_at: datetime | None = None,
) -> Iterator[dict[str, pa.Table]]:
    """Yield the map tables of every token (chain, address) at every instant, in batches, by token, then instant.

    A token without holders at an instant has no rows for the instant. All batches read the state that the store has at
    the first batch. ``computed_at`` is the time in the column ``dt_update``; None means the present. Raises
    ``UnknownToken`` or ``UnsupportedToken`` at the first token that is unknown or not supported.
    """
    snapshot, computed_at = store.snapshot(), computed_at or utc_now()
    view = snapshot.view()

    def compute(key: tuple[str, str], call_instants: Sequence[datetime]) -> dict[str, pa.Table]:
        return maps_of(snapshot, view, supported_token(snapshot, *key), call_instants, options, computed_at)

    label_time = snapshot.label_time(to_unix(min(instants))) if instants else None
    first_times(snapshot, view)  # both threads need them and the kinds: compute them once
    for chain in {chain for chain, _ in tokens}:
        kinds_of_addresses(snapshot, view, chain, label_time)
    calls = _calls(compute, tokens, instants, options.limit)
    for batch in _batches(view, calls, lambda tables: tables["maps"].num_rows, _MAPS_PER_BATCH):
        yield {name: pa.concat_tables([tables[name] for tables in batch]) for name in MAP_TABLES}


def holder_batches(
    store: Store, tokens: Sequence[tuple[str, str]], instants: Sequence[datetime], limit: int, details: bool = False
) -> Iterator[pa.Table]:
    """Yield the lake's ``holders`` rows of every token at every instant, in batches.

    The rows are those of the ``limit`` largest holders, by token, then instant. An instant without holders has no rows.
    All batches read the state that the store has at the first batch. Address details are null unless ``details`` is
    true. Raises ``UnknownToken`` or ``UnsupportedToken``.
    """
    snapshot = store.snapshot()
    view = snapshot.view()

    def compute(key: tuple[str, str], call_instants: Sequence[datetime]) -> pa.Table:
        return holders_of(snapshot, view, supported_token(snapshot, *key), call_instants, limit, details)

    label_time = snapshot.label_time(to_unix(min(instants))) if instants else None
    for chain in {chain for chain, _ in tokens}:
        kinds_of_addresses(snapshot, view, chain, label_time)  # both threads need them: compute them once
    calls = _calls(compute, tokens, instants, limit)
    for batch in _batches(view, calls, lambda table: table.num_rows, _ROWS_PER_BATCH):
        yield pa.concat_tables(batch)


def _calls(
    compute: Callable[[tuple[str, str], Sequence[datetime]], T],
    tokens: Sequence[tuple[str, str]],
    instants: Sequence[datetime],
    limit: int,
) -> Iterator[Callable[[], T]]:
    """Yield functions that each call ``compute`` with one token and a list of consecutive instants.

    ``limit`` is the number of holders at each instant. If it is larger, the lists are shorter, so that the results have
    about the same size.
    """
    step = max(1, _HOLDERS_PER_CALL // limit)
    for key in tokens:
        for start in range(0, len(instants), step):
            yield partial(compute, key, instants[start : start + step])


def _batches(view: View, calls: Iterable[Callable[[], T]], size: Callable[[T], int], least: int) -> Iterator[list[T]]:
    """Yield the results of ``calls`` in lists. A list has at least ``least`` rows in total; the last one may have
    fewer.

    ``size`` returns the number of rows (or maps) of a result. Results of size 0 are left out.
    """
    batch: list[T] = []
    with _released_memory(view):
        for result in _parallel(calls):
            batch += [result] if size(result) else []
            if sum(map(size, batch)) >= least:
                yield batch
                batch = []
    if batch:
        yield batch


@contextmanager
def _released_memory(view: View) -> Iterator[None]:
    """Context manager with a thread that releases the memory of mapped files when it exceeds the limit.

    Without it, a process that reads the complete store would show a memory use as large as the store. The calls cannot
    release the memory themselves, because the files of a single call may exceed the limit.
    """
    finished = threading.Event()

    def watch() -> None:
        while not finished.wait(_MEMORY_CHECK_SECONDS):
            if exceeds_mapped_limit():
                release_pages(array for opened in view.opened_files for array in _arrays(opened))

    watcher = threading.Thread(target=watch, name="release mapped memory", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        finished.set()
        watcher.join()


def _arrays(opened: Any) -> Iterator[Array]:
    for value in vars(opened).values():
        if is_dataclass(value):
            yield from _arrays(value)
        elif isinstance(value, np.ndarray):
            yield value


def _parallel(calls: Iterable[Callable[[], T]]) -> Iterator[T]:
    """Call the functions ``calls`` in two threads, and yield their results in the order of the functions.

    Some functions are called before the caller has taken the earlier results.
    """
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
