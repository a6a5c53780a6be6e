"""Import files of transfers into a store on shared storage, with many machines.

The result is a store like any other. The steps are functions, each of which many tasks call:

1. ``split`` reads a piece of the files, groups its rows by buckets of tokens, and lists its addresses.
2. ``address_range`` gives numbers to the distinct addresses of a range of hashes; ``dictionary`` joins the ranges.
3. ``shard`` imports the rows of its buckets into a separate store, with the common numbers of addresses. This is the
   embedded engine's import, so each token is sorted, checked for duplicates and written by the same code.
4. ``adjacency`` merges the transfers of a range of addresses from all shards; ``adjacency_file`` joins the ranges.
5. This process moves the files into the store and lists them (``Store.add_built``).
"""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as arrow_fs
import pyarrow.parquet as pq

from holderlake.core.storage.atomic_files import whole_file, write_whole
from holderlake.core.units import counted
from holderlake.engine.catalog import catalog as catalogue
from holderlake.engine.errors import BadSource
from holderlake.engine.files.adjacency import Run
from holderlake.engine.files.arrays import read_arrays, write_arrays
from holderlake.engine.files.dictionary import Volume, volume_of
from holderlake.engine.files.integrity import Sum, sum_of
from holderlake.engine.files.listing import PartFile, RunFile, VolumeFile, read_listing
from holderlake.engine.importing.address_ids import write_volume
from holderlake.engine.importing.budget import Budget
from holderlake.engine.importing.built import BuiltFiles
from holderlake.engine.importing.paths import FOLDERS
from holderlake.engine.importing.run_writer import join_runs, merge_runs, range_edges
from holderlake.engine.importing.sort import by_bucket
from holderlake.engine.numeric.hashing import digests
from holderlake.engine.records import TRANSFERS, ImportReport, Key
from holderlake.engine.store.snapshot import link_store, snapshot
from holderlake.engine.store.store import Store
from holderlake.scale.spark.tasks import Task, Workers, grouped, local_folder

_BUCKETS: Final = 1_024
_SHARDS: Final = 64
"""The least number of shards, if there are enough tokens."""
_SHARD_ROWS: Final = 20_000_000
"""The most rows of a shard with several buckets of tokens."""
_ROW_BYTES: Final = 2_000
_ADDRESS_BYTES: Final = 500
_ENTRY_BYTES: Final = 128
"""Memory that a task takes for a row to split, an address to number, and an entry of the adjacency to merge."""
_STANDARDS: Final = """
SELECT tokens.chain, address, standard
FROM tokens JOIN histories ON tokens.chain = histories.chain AND address = token_address
WHERE assumed
"""
Batches = dict[str, list[int]]  # numbers of batches in the file of rows of each split


@dataclass(frozen=True)
class BuildFolder:
    """The ``folder`` of a build on shared storage, and the ``memory`` in bytes that a task should use."""

    folder: Path
    memory: int

    def new_file(self, suffix: str) -> tuple[str, Path]:
        """Return a new file name of the store's arrays, and its path."""
        name = f"{uuid4().hex}-1"
        return name, self.folder / "arrays" / f"{name}.{suffix}"

    def run(self, file: str) -> Run:
        """Return a run of the adjacency by its file name."""
        return Run.of(read_arrays(self.folder / "arrays" / f"{file}.run"))

    def volume(self, name: str, first_number: int = 0) -> Volume:
        """Return the list of addresses of a task."""
        return Volume(first_number, **read_arrays(self.folder / f"{name}.volume"))


# ---------------------------------------------------------------------- the steps on workers


def split(place: BuildFolder, name: str, groups: Sequence[tuple[str, int]]) -> dict[str, Any]:
    """Group the rows of the row groups (path, number) of Parquet files by buckets of tokens.

    Write the files ``name.arrow`` (the rows) and ``name.volume`` (the addresses in the order of the rows). Return the
    number of ``rows`` and the numbers of the ``batches`` of each bucket, and the number of ``addresses``.
    """
    rows_of: defaultdict[int, int] = defaultdict(int)
    batches_of: defaultdict[int, list[int]] = defaultdict(list)
    addresses, number = pa.array([], pa.string()), itertools.count()
    max_rows = max(place.memory // _ROW_BYTES, 1)
    lz4 = pa.ipc.IpcWriteOptions(compression="lz4")
    with (
        whole_file(place.folder / f"{name}.arrow", durable=False) as building,
        pa.ipc.new_file(str(building), TRANSFERS, options=lz4) as sink,
    ):
        for tables in grouped(_batches(groups, max_rows), max_rows):
            rows = pa.concat_tables(tables)
            addresses = pc.unique(
                pa.chunked_array([addresses, *rows["from_address"].chunks, *rows["to_address"].chunks])
            )
            for bucket, bucket_rows in by_bucket(rows, _BUCKETS):
                rows_of[bucket] += bucket_rows.num_rows
                for batch in bucket_rows.to_batches():
                    sink.write_batch(batch)
                    batches_of[bucket].append(next(number))
    arrays = volume_of(0, addresses, digests(addresses)).arrays()
    write_arrays(place.folder / f"{name}.volume", arrays, durable=False)
    return {"rows": rows_of, "batches": batches_of, "addresses": len(addresses)}


def _batches(groups: Sequence[tuple[str, int]], max_rows: int) -> Iterator[tuple[pa.Table, int]]:
    """Yield the rows of row groups in small tables, with their numbers of rows."""
    for path, of_path in itertools.groupby(groups, key=lambda group: group[0]):
        with opened_parquet(path) as file:
            for batch in file.iter_batches(min(max_rows, 1 << 17), [number for _, number in of_path]):
                try:
                    yield pa.Table.from_batches([batch]).select(TRANSFERS.names).cast(TRANSFERS), batch.num_rows
                except (KeyError, ValueError) as error:
                    raise BadSource(
                        f"{path} has not the columns of stored transfers ({error}); read it with "
                        "'holderlake import files'"
                    ) from error


def address_range(place: BuildFolder, name: str, splits: Sequence[str], number: int, parts: int) -> int:
    """Write the distinct addresses of ``splits`` whose hashes are in range ``number`` of ``parts`` equal ranges as
    ``name.volume``. Return their number."""
    edges = np.array([edge * (2**64 - 1) // parts for edge in (number, number + 1)], np.uint64)
    texts: list[pa.Array] = []
    for volume in map(place.volume, splits):
        start, end = np.searchsorted(volume.hashes, edges).tolist()
        end = len(volume.hashes) if number + 1 == parts else end
        texts.append(volume.text_array(np.sort(volume.places[start:end])))
    distinct = pc.unique(pa.chunked_array(texts, pa.large_string()))
    write_arrays(place.folder / f"{name}.volume", volume_of(0, distinct, digests(distinct)).arrays(), durable=False)
    return len(distinct)


def dictionary(place: BuildFolder, ranges: Sequence[str], sizes: Sequence[int]) -> tuple[str, Sum]:
    """Join the lists of addresses ``ranges`` into one file of the store. Return its name and sum."""
    file, path = place.new_file("volume")
    firsts = itertools.accumulate(sizes[:-1], initial=0)
    write_volume(path, list(map(place.volume, ranges, firsts)), Budget(place.memory).chunk)
    return file, sum_of(path)


def shard(place: BuildFolder, batches: Batches, volume: VolumeFile, volume_sum: Sum) -> dict[str, Any]:
    """Import the rows of the shard's buckets into a separate store, whose files are in the folder of the build.

    ``volume`` is the common dictionary. Return the ``parts``, ``runs`` (file, entries), ``tokens`` (number, chain,
    address), ``standards`` (chain, address, standard), ``sums`` (by path) and the ``report``.
    """
    with TemporaryDirectory(prefix="holderlake-shard-", dir=local_folder()) as local:
        root = Path(local)
        link_store(root, place.folder, place.folder)
        with catalogue.transaction(root) as catalog:
            catalog.execute("DELETE FROM histories")  # of transfers that were rolled back
            catalog.execute("INSERT INTO volumes VALUES (?, ?, ?)", astuple(volume))
            path = f"arrays/{volume.file}.volume"
            insert = "INSERT INTO files (path, size, crc32, signature) VALUES (?, ?, ?, ?)"
            catalog.execute(insert, (path, *volume_sum))
        with Store(root, None, f"{place.memory / 1e6:.3f}MB", refuse_unlisted=False) as store:
            # small batches are joined, because each one has a fixed cost
            joined = map(pa.concat_batches, grouped(_rows_of(place, batches), Budget(place.memory).batch))
            rows = pa.RecordBatchReader.from_batches(TRANSFERS, joined)
            report = store.add_transfers(rows, "cluster")
        with closing(catalogue.connect(root)) as catalog:
            listing = read_listing(catalog)
            standards = catalog.execute(_STANDARDS).fetchall()
    parts = [part for parts in listing.parts.values() for part in parts]
    return {
        "parts": [astuple(part) for part in parts],
        "runs": [astuple(run) for run in listing.runs],
        "tokens": [(number, *key) for key, number in listing.numbers.items()],
        "standards": standards,
        "sums": {path: listing.sums[path] for part in parts for path in part.paths},
        "report": asdict(report),
    }


def _rows_of(place: BuildFolder, batches: Batches) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield batches of splits, with their numbers of rows."""
    for name, numbers in batches.items():
        with pa.OSFile(str(place.folder / f"{name}.arrow")) as file, pa.ipc.open_file(file) as reader:
            yield from ((batch, batch.num_rows) for batch in map(reader.get_batch, numbers))


def adjacency(place: BuildFolder, runs: Sequence[tuple[str, int]], first: int, end: int) -> str | None:
    """Merge the entries of the addresses from ``first`` to ``end`` (excluded) of all shards. Return the file's name;
    None without entries.

    ``runs`` has, for each shard, the file of its run and the number to add to its token numbers.
    """
    file, path = place.new_file("run")
    opened = [(place.run(name), offset) for name, offset in runs]
    max_entries = 2 * place.memory // _ENTRY_BYTES  # more are the transfers of a single, very busy address
    with TemporaryDirectory(prefix="holderlake-run-", dir=local_folder()) as spool:
        return file if merge_runs(path, opened, (first, end), max_entries, Path(spool), Budget(place.memory)) else None


def adjacency_file(place: BuildFolder, ranges: Sequence[str]) -> tuple[str, int, Sum]:
    """Join the runs ``ranges``, by ascending addresses, into one file of the store. Return name, entries and sum."""
    file, path = place.new_file("run")
    with TemporaryDirectory(prefix="holderlake-run-", dir=local_folder()) as spool:
        entries = join_runs(path, list(map(place.run, ranges)), Path(spool), Budget(place.memory))
    return file, entries, sum_of(path)


# ---------------------------------------------------------------------- the steps in order


def build(
    workers: Workers, store: Store, files: Sequence[str], memory: int, on_task: Callable[[str, int], None]
) -> ImportReport:
    """Import Parquet files of transfers (``records.TRANSFERS``) into ``store``, which has no transfers yet.

    All workers must reach the store's folder and the files: paths, folders, or addresses such as
    ``s3://bucket/folder``. ``memory`` is the memory in bytes that a task should use. ``on_task`` is called with the
    name of a step and its number of tasks, before the step and after each task. Raises ``BadSource`` if a file can't
    be read, or the store has transfers. A killed build continues where it stopped.
    """
    sources = _sources(files)
    digest = hashlib.sha256(repr((sorted(sources.items()), memory)).encode()).hexdigest()[:16]
    place = BuildFolder((store.root / f".build-{digest}").resolve(), memory)
    saved_report = place.folder.with_suffix(".json")
    report = _report_of_added(store, saved_report)
    if report is None:
        store.refuse_transfers()
        for name in FOLDERS:
            (place.folder / name).mkdir(parents=True, exist_ok=True)
        snapshot(store.root).save_catalog(place.folder)
        built, report = _Steps(workers, place, on_task).built(sources)
        built.take_back(store.root)
        if not all((place.folder / path).exists() for path in built.sums):  # another import removed some
            shutil.rmtree(place.folder)
            return build(workers, store, files, memory, on_task)
        write_whole(saved_report, json.dumps(asdict(report)).encode())
        store.add_built(built)
    shutil.rmtree(place.folder, ignore_errors=True)  # an attempt of a task that Spark gave up may still write
    saved_report.unlink()
    return report


def _report_of_added(store: Store, saved_report: Path) -> ImportReport | None:
    """Return the report of a build that was killed after the store had listed its files; None for others."""
    if not saved_report.exists():
        return None
    saved = json.loads(saved_report.read_bytes())
    report = ImportReport(**saved | {"tokens": tuple(saved["tokens"])})
    return report if report.added == sum(history.transfers for history in store.histories()) else None


@dataclass(frozen=True)
class _Steps:
    """The steps of a build in a folder."""

    workers: Workers
    place: BuildFolder
    on_task: Callable[[str, int], None]

    def _results(self, step: str, compute: Callable[..., Any], arguments: Mapping[str, tuple[Any, ...]]) -> list[Any]:
        """Call ``compute`` with the place and the ``arguments`` of each task, by name. Return the results in order."""
        tasks = [Task(name, compute, (self.place, *values)) for name, values in arguments.items()]
        self.on_task(step, len(tasks))
        result_of = {}
        for name, result in self.workers.results(tasks, self.place.folder / "tasks"):
            result_of[name] = result
            self.on_task(step, len(tasks))
        return [result_of[task.name] for task in tasks]

    def built(self, sources: Mapping[str, Sequence[int]]) -> tuple[BuiltFiles, ImportReport]:
        row_groups = (((path, n), rows) for path, sizes in sources.items() for n, rows in enumerate(sizes))
        groups = list(grouped(row_groups, self.place.memory // _ROW_BYTES))
        splits = [f"split-{number}" for number in range(len(groups))]
        results = self._results(
            "reading files", split, {name: (name, of) for name, of in zip(splits, groups, strict=True)}
        )
        volume, volume_sum = self._dictionary(splits, sum(result["addresses"] for result in results))
        batches = {f"shard-{number}": (of, volume, volume_sum) for number, of in enumerate(_shards(splits, results))}
        results = self._results("importing tokens", shard, batches)
        offsets = list(itertools.accumulate([0, *(len(result["tokens"]) for result in results[:-1])]))
        run, run_sums = self._adjacency(
            [(file, offset) for result, offset in zip(results, offsets, strict=True) for file, _ in result["runs"]],
            volume.size,
        )
        sums = {path: Sum(*file_sum) for result in results for path, file_sum in result["sums"].items()}
        parts: list[PartFile] = []
        numbers: dict[Key, int] = {}
        standards: dict[Key, str] = {}
        for result, offset in zip(results, offsets, strict=True):
            parts += [PartFile(file, token + offset, *rest) for file, token, *rest in result["parts"]]
            numbers |= {(chain, address): number + offset for number, chain, address in result["tokens"]}
            standards |= {(chain, address): standard for chain, address, standard in result["standards"]}
        sums |= {f"arrays/{volume.file}.volume": volume_sum} | run_sums
        built = BuiltFiles(self.place.folder, numbers, standards, parts, run, volume, sums)
        names = ("rows", "added", "duplicates", "conflicts")
        counts = {name: sum(result["report"][name] for result in results) for name in names}
        tokens = sorted(f"{chain}/{address}" for chain, address in numbers)
        return built, ImportReport(counted(len(sources), "file"), **counts, tokens=tuple(tokens))

    def _dictionary(self, splits: Sequence[str], addresses: int) -> tuple[VolumeFile, Sum]:
        parts = 1 + addresses * _ADDRESS_BYTES // self.place.memory
        ranges = [f"addresses-{number}" for number in range(parts)]
        arguments = {name: (name, splits, number, parts) for number, name in enumerate(ranges)}
        sizes = self._results("numbering addresses", address_range, arguments)
        ((file, file_sum),) = self._results("joining addresses", dictionary, {"dictionary": (ranges, sizes)})
        return VolumeFile(file, 0, sum(sizes)), Sum(*file_sum)

    def _adjacency(self, runs: Sequence[tuple[str, int]], addresses: int) -> tuple[RunFile | None, dict[str, Sum]]:
        if not runs:
            return None, {}
        opened = [self.place.run(file) for file, _ in runs]
        edges = range_edges(opened, addresses, self.place.memory // _ENTRY_BYTES)
        arguments = {f"adjacency-{first}": (runs, first, end) for first, end in itertools.pairwise(edges)}
        ranges = list(filter(None, self._results("merging transfers of addresses", adjacency, arguments)))
        ((file, entries, file_sum),) = self._results(
            "joining transfers of addresses", adjacency_file, {"adjacency": (ranges,)}
        )
        return RunFile(file, entries), {f"arrays/{file}.run": Sum(*file_sum)}


def _sources(files: Sequence[str]) -> dict[str, list[int]]:
    """Return the numbers of rows of the row groups of each Parquet file, by path. Folders are read completely."""
    sources = {}
    for path in sorted({path for place in files for path in parquet_files(place)}):
        with opened_parquet(path) as file:
            groups = range(file.metadata.num_row_groups)
            sources[path] = [file.metadata.row_group(number).num_rows for number in groups]
    if not any(map(sum, sources.values())):
        raise BadSource(f"{', '.join(files)} has no transfers; give Parquet files in the layout of stored transfers")
    return sources


def _shards(splits: Sequence[str], results: Sequence[Any]) -> list[Batches]:
    """Return the batches of each shard. The largest shards come first, because they take longest."""
    rows_of: defaultdict[str, int] = defaultdict(int)
    for bucket, rows in (item for result in results for item in result["rows"].items()):
        rows_of[bucket] += rows
    max_rows = min(sum(rows_of.values()) // _SHARDS + 1, _SHARD_ROWS)
    return [
        {
            name: sorted(number for bucket in buckets for number in result["batches"].get(bucket, ()))
            for name, result in zip(splits, results, strict=True)
        }
        for buckets in grouped(sorted(rows_of.items(), key=lambda item: -item[1]), max_rows)
    ]


def parquet_files(place: str) -> list[str]:
    """Return the complete path or address of each Parquet file in a folder and its folders; of a file, its own."""
    place = place if "://" in place else str(Path(place).resolve())  # workers have other current folders
    try:
        system, path = _file_system(place)
        if system.get_file_info(path).type is not arrow_fs.FileType.Directory:
            return [place]
        infos = system.get_file_info(arrow_fs.FileSelector(path, recursive=True))
    except (OSError, ValueError) as error:
        raise BadSource(f"{place} can't be read: {error}") from error
    prefix, mark, query = place.partition("?")
    names = (info.path[len(path.rstrip("/")) :] for info in infos if info.path.endswith(".parquet"))
    return [f"{prefix.rstrip('/')}{name}{mark}{query}" for name in names]


def opened_parquet(place: str) -> pq.ParquetFile:
    """Open a Parquet file by its path or address. Raises ``BadSource`` if it can't be read."""
    try:
        system, path = _file_system(place)
        return pq.ParquetFile(system.open_input_file(path), pre_buffer=False)
    except (OSError, ValueError) as error:
        raise BadSource(f"{place} can't be read as a Parquet file: {error}") from error


def _file_system(place: str) -> tuple[arrow_fs.FileSystem, str]:
    """Return the file system of a path or an address, and the path within it."""
    if "://" not in place:
        return arrow_fs.LocalFileSystem(), str(Path(place).resolve())
    system, path = arrow_fs.FileSystem.from_uri(place.replace("s3a://", "s3://", 1))
    return system, path
