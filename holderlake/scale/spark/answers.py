"""Compute maps and lists of holders of many tokens at many instants, on many machines.

A task computes a group of tokens at several instants, as ``holderlake.engine.maps.batch`` does in one process. It reads
the store's files from the shared storage, and a copy of the catalogue. The rows are combined by partition.
"""

from __future__ import annotations

import hashlib
import itertools
import shutil
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from holderlake.core.contract.requests import MapOptions
from holderlake.core.contract.tables import INSTANT_TYPE
from holderlake.core.contract.times import utc_now
from holderlake.core.storage.atomic_files import whole_file
from holderlake.engine.maps.batch import holder_batches, map_batches
from holderlake.engine.queries.balances import supported_token
from holderlake.engine.records import Key
from holderlake.engine.store.snapshot import link_store, snapshot
from holderlake.engine.store.store import Store
from holderlake.scale.spark.tasks import Task, Workers, grouped, local_folder

_GROUPS: Final = 64
"""The least number of groups of tokens, if there are enough tokens."""


@dataclass(frozen=True)
class BulkRequest:
    """A request for maps and lists of holders, for tokens (chain, address) at instants.

    ``maps`` are the options of the maps; None requests no maps. ``holders`` is the number of holders in a list; None
    requests no lists. ``details`` adds address details to the lists.
    """

    tokens: Sequence[Key]
    instants: Sequence[datetime]
    maps: MapOptions | None
    holders: int | None = None
    details: bool = False


@dataclass(frozen=True)
class ComputedPartition:
    """The rows of a chain as of an instant. ``tables`` has the lake's tables by name; each is sorted by token.

    Tokens without holders have no rows. A table without rows may be missing.
    """

    chain: str
    as_of: datetime
    tables: dict[str, pa.Table]


@lru_cache(maxsize=1)
def _opened(root: str, catalog: str) -> Store:
    """Return the store in ``root`` with the copy of its catalogue in the folder ``catalog``.

    Later tasks of the process use the same store, with its caches.
    """
    folder = TemporaryDirectory(prefix="holderlake-store-", dir=local_folder())
    link_store(Path(folder.name), Path(root), Path(catalog))
    store = Store(Path(folder.name), None, refuse_unlisted=False).snapshot()
    weakref.finalize(store, folder.cleanup)
    return store


def compute(name: str, root: str, folder: str, request: BulkRequest, computed_at: datetime) -> dict[str, str]:
    """Compute a request from the store in ``root`` on a worker, and write a file for each table into ``folder``.

    Return their paths by table.
    """
    store = _opened(root, f"{folder}/catalog")
    pieces: dict[str, list[pa.Table]] = {}
    if request.maps:
        for batch in map_batches(store, request.tokens, request.instants, request.maps, computed_at):
            for table, rows in batch.items():
                pieces.setdefault(table, []).append(rows)
    if request.holders:
        lists = list(holder_batches(store, request.tokens, request.instants, request.holders, request.details))
        pieces |= {"holders": lists} if lists else {}
    paths = {table: f"{folder}/{name}-{table}.arrow" for table in pieces}
    for table, path in paths.items():
        rows = pa.concat_tables(pieces[table])
        with whole_file(Path(path), durable=False) as building, pa.ipc.new_file(str(building), rows.schema) as sink:
            sink.write_table(rows)
    return paths


def answers(
    workers: Workers,
    store: Store,
    folder: Path,
    request: BulkRequest,
    together: int = 32,
    computed_at: datetime | None = None,
    on_task: Callable[[int], None] = lambda _: None,
) -> Iterator[ComputedPartition]:
    """Yield the lake's tables of every token at every instant, by partition (chain and instant), the latest first.

    All workers must reach the store's files, and ``folder``, which has the results until they are yielded.
    ``together`` instants are computed together. ``computed_at`` is the time in the column ``dt_update``; None means the
    present. ``on_task`` is called with the number of all tasks, before the first and after each. Raises
    ``UnknownToken`` or ``UnsupportedToken`` before any task runs. A killed run continues with the tasks that are left.
    """
    for key in request.tokens:
        supported_token(store, *key)
    state = snapshot(store.root)
    root = str(store.root.resolve())
    digest = hashlib.sha256(state.copy + repr((root, replace(request, instants=()))).encode())
    folder = folder / f"fill-{digest.hexdigest()[:16]}"
    state.save_catalog(folder / "catalog")
    instants, groups = sorted(request.instants, reverse=True), _groups(store, request.tokens)
    chains = {chain for chain, _ in request.tokens}
    spans = [sorted(instants[start : start + together]) for start in range(0, len(instants), together)]
    computed_at = computed_at or utc_now()
    instants_of = {hashlib.sha256(repr(span).encode()).hexdigest()[:12]: span for span in spans}
    tasks = []
    for span_name, span in instants_of.items():
        for number, tokens in enumerate(groups):
            name, part = f"{span_name}-{number:05}", replace(request, tokens=tokens, instants=span)
            tasks.append(Task(name, compute, (name, root, str(folder), part, computed_at)))
    on_task(len(tasks))
    results: defaultdict[str, dict[str, dict[str, str]]] = defaultdict(dict)
    for name, paths in workers.results(tasks, folder / "tasks"):
        on_task(len(tasks))
        span_name = name.partition("-")[0]
        results[span_name][name] = paths
        if len(results[span_name]) == len(groups):
            ended = results.pop(span_name)
            yield from _partitions([ended[name] for name in sorted(ended)], chains, instants_of[span_name])
            for ended_name, tables in ended.items():
                (folder / "tasks" / f"{ended_name}.json").unlink()
                for path in tables.values():
                    Path(path).unlink()
    shutil.rmtree(folder, ignore_errors=True)  # an attempt of a task that Spark gave up may still write


def _groups(store: Store, tokens: Sequence[Key]) -> list[list[Key]]:
    """Divide the sorted tokens of each chain into groups with about equally many transfers."""
    sizes = {(history.chain, history.token_address): history.transfers for history in store.histories()}
    keys = sorted(set(tokens))
    max_size = sum(sizes.get(key, 0) for key in keys) / _GROUPS
    return [
        group
        for _, of_chain in itertools.groupby(keys, key=lambda key: key[0])
        for group in grouped(((key, sizes.get(key, 0) + 1) for key in of_chain), max_size)
    ]


def _partitions(
    results: Sequence[dict[str, str]], chains: set[str], span: Sequence[datetime]
) -> Iterator[ComputedPartition]:
    """Yield the partitions of the results of all tasks of the instants ``span``, by token."""
    tables: dict[str, pa.Table] = {}
    for name in sorted({name for paths in results for name in paths}):
        files = [pa.ipc.open_file(pa.memory_map(paths[name])) for paths in results if name in paths]
        tables[name] = pa.concat_tables([file.read_all() for file in files])
    for as_of, chain in sorted(itertools.product(span, chains), reverse=True):
        rows_of = (pc.field("chain") == chain) & (pc.field("as_of") == pa.scalar(as_of, INSTANT_TYPE))
        yield ComputedPartition(chain, as_of, {name: table.filter(rows_of) for name, table in tables.items()})
