"""Compute maps and lists of holders of many tokens at many instants, on many machines.

A task computes some tokens at some instants, as ``holderlake.engine.maps.batch`` does in one process. It reads the
store's files from the shared storage, and a copy of the catalogue. The rows are combined by partition.
"""

from __future__ import annotations

import hashlib
import shutil
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from holderlake.cluster.tasks import Task, Workers, local_folder
from holderlake.contract.requests import MapOptions
from holderlake.contract.tables import INSTANT_TYPE
from holderlake.contract.times import utc_now
from holderlake.engine.catalog.catalog_copy import CATALOG, COPY
from holderlake.engine.importing.paths import FOLDERS
from holderlake.engine.maps.batch import holder_batches, map_batches
from holderlake.engine.queries.balances import supported_token
from holderlake.engine.records import Key
from holderlake.engine.store.snapshot import snapshot
from holderlake.engine.store.store import Store

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
class Partition:
    """The rows of a chain as of an instant. ``tables`` has the lake's tables by name; each is sorted by token.

    Tokens without holders have no rows.
    """

    chain: str
    as_of: datetime
    tables: dict[str, pa.Table]


@dataclass(frozen=True)
class StoreCopy:
    """A state of the store in ``root``. The folder ``catalog`` has its catalogue. Workers open it read-only."""

    root: str
    catalog: str

    def opened(self) -> Store:
        """Return the store. Later tasks of the process use it again, with what it keeps in memory."""
        if self not in _opened:
            _opened.clear()
            folder = TemporaryDirectory(prefix="holderlake-store-", dir=local_folder())
            local = Path(folder.name)
            for name in FOLDERS:
                (local / name).symlink_to(Path(self.root, name).resolve())
            for name in (CATALOG, COPY):
                shutil.copyfile(f"{self.catalog}/{name}", local / name)
            store = _opened[self] = Store(local, None, refuse_unlisted=False).cached_snapshot()
            weakref.finalize(store, folder.cleanup)
        return _opened[self]


_opened: Final[dict[StoreCopy, Store]] = {}


def compute(name: str, copied: StoreCopy, request: BulkRequest, computed_at: datetime, folder: str) -> dict[str, str]:
    """Compute a request on a worker, and write a file for each table into ``folder``. Return their paths by table."""
    store = copied.opened()
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
        with pa.ipc.new_file(path, rows.schema) as sink:
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
) -> Iterator[Partition]:
    """Yield the lake's tables of every token at every instant, by partition (chain and instant), the latest first.

    All workers must reach the store's files, and ``folder``, which has the results until they are yielded.
    ``together`` instants are computed together. ``computed_at`` is the time in the column ``dt_update``; None means the
    present. ``on_task`` is called with the number of all tasks, before the first and after each. Raises
    ``UnknownToken`` or ``UnsupportedToken`` before any task runs. A killed run continues with the tasks that are left.
    """
    for key in request.tokens:
        supported_token(store, *key)
    state = snapshot(store.root)
    digest = hashlib.sha256(state.copy + repr((store.root.resolve(), replace(request, instants=()))).encode())
    folder = folder / f"fill-{digest.hexdigest()[:16]}"
    copied = StoreCopy(str(store.root.resolve()), str(folder / "catalog"))
    Path(copied.catalog).mkdir(parents=True, exist_ok=True)
    Path(copied.catalog, CATALOG).write_bytes(state.catalog)
    Path(copied.catalog, COPY).write_bytes(state.copy)
    instants, groups = sorted(request.instants, reverse=True), _groups(store, request.tokens)
    spans = [sorted(instants[start : start + together]) for start in range(0, len(instants), together)]
    computed_at = computed_at or utc_now()
    tasks: dict[str, list[Task]] = {}
    for span in spans:
        of_span = hashlib.sha256(repr(span).encode()).hexdigest()[:12]
        for number, tokens in enumerate(groups):
            name, part = f"{of_span}-{number:05}", replace(request, tokens=tokens, instants=span)
            task = Task(name, compute, (name, copied, part, computed_at, str(folder)))
            tasks.setdefault(of_span, []).append(task)
    every = [task for of_span in tasks.values() for task in of_span]
    on_task(len(every))
    results: defaultdict[str, dict[str, dict[str, str]]] = defaultdict(dict)
    for name, paths in workers.results(every, folder / "tasks"):
        on_task(len(every))
        span_name = name.partition("-")[0]
        results[span_name][name] = paths
        if len(results[span_name]) == len(tasks[span_name]):
            ended = results.pop(span_name)
            yield from _partitions([ended[name] for name in sorted(ended)])
            for path in (path for paths in ended.values() for path in paths.values()):
                Path(path).unlink()
            for ended_name in ended:
                (folder / "tasks" / f"{ended_name}.json").unlink()
    shutil.rmtree(folder)


def _groups(store: Store, tokens: Sequence[Key]) -> list[list[Key]]:
    """Divide the sorted tokens into groups with about equally many transfers."""
    sizes = {(history.chain, history.token_address): history.transfers for history in store.histories()}
    keys = sorted(set(tokens))
    most = sum(sizes.get(key, 0) for key in keys) / _GROUPS
    groups: list[list[Key]] = []
    size = 0.0
    for key in keys:
        if not groups or size + sizes.get(key, 0) > most or groups[-1][-1][0] != key[0]:
            groups.append([])
            size = 0.0
        groups[-1].append(key)
        size += sizes.get(key, 0) + 1
    return groups


def _partitions(results: Sequence[dict[str, str]]) -> Iterator[Partition]:
    """Yield the partitions of all tasks of some instants. ``results`` are by token."""
    tables: dict[str, pa.Table] = {}
    for name in sorted({name for paths in results for name in paths}):
        files = [pa.ipc.open_file(pa.memory_map(paths[name])) for paths in results if name in paths]
        tables[name] = pa.concat_tables([file.read_all() for file in files])
    rows = [table.select(["chain", "as_of"]).group_by(["chain", "as_of"]).aggregate([]) for table in tables.values()]
    keys = {(row["chain"], row["as_of"]) for table in rows for row in table.to_pylist()}
    for chain, as_of in sorted(keys, key=lambda key: (key[1], key[0]), reverse=True):
        instant = pa.scalar(as_of, INSTANT_TYPE)
        yield Partition(
            chain,
            as_of,
            {
                name: table.filter(pc.and_(pc.equal(table["chain"], chain), pc.equal(table["as_of"], instant)))
                for name, table in tables.items()
            },
        )
