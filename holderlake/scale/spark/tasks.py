"""Run tasks on the workers of a Spark cluster, or in this process without a cluster.

A task writes its results into files of a shared folder, and last a small JSON file with its name. So a finished task
stays finished if a worker or this process is killed: the next run with the same folder skips it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from holderlake.core.storage.atomic_files import whole_file
from holderlake.engine.errors import BadSource, EngineError

T = TypeVar("T")


@dataclass(frozen=True)
class Task:
    """A call of a module's function on a worker, which returns a JSON value. ``name`` is the same in a later run."""

    name: str
    compute: Callable[..., Any]
    arguments: tuple[Any, ...]


class Workers:
    """The workers of a cluster with the Spark ``session``; None means this process."""

    def __init__(self, session: Any = None) -> None:
        self._session = session

    def results(self, tasks: Sequence[Task], folder: Path) -> Iterator[tuple[str, Any]]:
        """Run the tasks, and yield the name of each with its result, in the order in which they end.

        ``folder`` has the results. All workers must reach it. Raises ``BadSource`` if the engine refuses a task's data.
        """
        folder.mkdir(parents=True, exist_ok=True)
        waiting = {task.name for task in tasks}
        yield from _finished(waiting, folder)
        run = partial(_run, [task for task in tasks if task.name in waiting], str(folder))
        if self._session is None:
            for number in range(len(waiting)):
                _refuse([run(number)])
                yield from _finished(waiting, folder)
        elif waiting:
            pool = ThreadPoolExecutor(1, "spark job")
            job = pool.submit(self._spark_job, run, len(waiting))
            pool.shutdown(wait=False)
            while not job.done():
                wait([job], timeout=0.2)
                yield from _finished(waiting, folder)
            _refuse(job.result())
            yield from _finished(waiting, folder)

    def _spark_job(self, run: Callable[[int], str], tasks: int) -> list[str]:
        """Run each task in a separate partition, and return their errors."""
        errors = self._session.range(0, tasks, 1, tasks).mapInArrow(partial(_run_batches, run), "error string")
        return [row.error for row in errors.collect()]


def _finished(waiting: set[str], folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield the names of tasks that have ended, with their results, and remove them from ``waiting``."""
    for name in sorted(waiting & {entry.name.removesuffix(".json") for entry in os.scandir(folder)}):
        waiting.discard(name)
        yield name, json.loads((folder / f"{name}.json").read_bytes())


def _refuse(errors: Sequence[str]) -> None:
    for error in filter(None, errors):
        raise BadSource(error)


def _run_batches(run: Callable[[int], str], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        errors = [run(number) for number in batch["id"].to_pylist()]
        yield pa.RecordBatch.from_pydict({"error": pa.array(errors, pa.string())})


def _run(tasks: Sequence[Task], folder: str, number: int) -> str:
    """Run a task unless it has ended already. Return the engine's error, which another attempt would repeat; or ''."""
    task = tasks[number]
    path = Path(folder, f"{task.name}.json")
    if not path.exists():
        try:
            result = task.compute(*task.arguments)
        except EngineError as error:
            return str(error)
        with whole_file(path, durable=False) as building:
            building.write_text(json.dumps(result))
    return ""


def grouped(sizes: Iterable[tuple[T, float]], max_size: float) -> Iterator[list[T]]:
    """Yield lists of consecutive items whose sizes are together at most ``max_size``, or of one larger item."""
    group: list[T] = []
    total = 0.0
    for item, size in sizes:
        if group and total + size > max_size:
            yield group
            group, total = [], 0.0
        group.append(item)
        total += size
    if group:
        yield group


def local_folder() -> str | None:
    """Return the folder for a worker's temporary files: the first of Spark's local folders; None for the system's."""
    return os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
