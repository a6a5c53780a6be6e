"""Asset checks of a stream's tables: failed requests, odd and contradictory rows, and the row counts of the manifests.

They examine the partitions of the run. Failed requests and odd rows do not block the load of the warehouse, so that one
token with odd data does not hold back the others. A file with another number of rows than its manifest blocks the load.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow.parquet as pq
from dagster import (
    AssetCheckEvaluation,
    AssetCheckExecutionContext,
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    AssetCheckSpec,
    MetadataValue,
    OpExecutionContext,
    multi_asset_check,
)

from holderlake.core.archive.archive import AnswerArchive
from holderlake.core.archive.provenance import newest_answer
from holderlake.core.contract.models import unknown_fields
from holderlake.core.contract.tables import TABLES
from holderlake.core.dagster.metadata import asset_key
from holderlake.core.dagster.partitions import days_of, keys_of_run
from holderlake.core.dagster.tags import FAILED_REQUESTS_TAG
from holderlake.core.ingest.partition import FINAL_FAILURES
from holderlake.core.ingest.stream import Stream
from holderlake.core.lake.lake import FAILURES, Lake, Manifest
from holderlake.core.units import counted
from holderlake.core.warehouse.row_checks import odd_rows, odd_rows_loaded
from holderlake.core.workspace import Workspace
from holderlake.resources.workspace import WORKSPACE, workspace_of

REQUESTS: Final = "requests_succeeded"
_FEW_ROWS: Final = 20
"""Rows from which the number of rows of an instant is compared with that of the next."""
_LISTED: Final = 10


@dataclass(frozen=True)
class Examined:
    """The partitions of a stream that checks examine. If they ``are_loaded``, the warehouse has their rows too."""

    workspace: Workspace
    stream: Stream
    manifests: list[Manifest]
    are_loaded: bool = False

    @cached_property
    def wrong_counts(self) -> dict[str, dict[str, str]]:
        """For each table, ``files_with_wrong_counts``."""
        lake = self.workspace.lake
        return {table: files_with_wrong_counts(lake, self.manifests, table) for table in self.stream.tables}

    @cached_property
    def intact(self) -> list[Manifest]:
        """The partitions without a damaged file."""
        damaged = {commit for wrong in self.wrong_counts.values() for commit in wrong}
        return [manifest for manifest in self.manifests if manifest.commit not in damaged]


@dataclass(frozen=True)
class Found:
    """The result of a check: the examined partitions, and the first of ``count`` faults."""

    partitions: Sequence[Manifest]
    faults: Sequence[str]
    count: int
    severity: AssetCheckSeverity = AssetCheckSeverity.ERROR


@dataclass(frozen=True)
class Check:
    """An asset check of each stream, on its first table. ``find(examined)`` returns a sentence about each fault.

    A check of each table would cost 9 kB of Dagster's history a run. A ``blocking`` check that fails stops the load of
    the warehouse.
    """

    name: str
    description: str
    find: Callable[[Examined], Found]
    blocking: bool = False


def stream_checks(
    stream: Stream, *, key_prefix: Sequence[str] = (), resource: str = WORKSPACE
) -> AssetChecksDefinition:
    """Return the checks of a stream's assets. They need a workspace as the resource ``resource``.

    They examine the partitions of their run, or the whole lake in a run without partitions.
    """

    @multi_asset_check(
        name="__".join([*key_prefix, f"{stream.name}_checks"]),
        specs=_specs(stream, key_prefix),
        can_subset=True,
        required_resource_keys={resource},
    )
    def check(context: AssetCheckExecutionContext) -> Iterator[AssetCheckResult]:
        workspace = workspace_of(context, resource)
        days = days_of_run(context)
        if days is not None:
            tag_failed_requests(context.op_execution_context, workspace.lake, stream, days)
        yield from selected(context, as_results(evaluate(workspace, stream, days, key_prefix)))

    return check


def days_of_run(context: AssetCheckExecutionContext) -> list[tuple[str, str]] | None:
    """Return the pairs of chain and day (YYYY-MM-DD) of a run's partitions; None if the run has no partitions."""
    step = context.op_execution_context
    return days_of(keys_of_run(step)) if step.has_partition_key or step.has_partition_key_range else None


def selected(context: AssetCheckExecutionContext, results: Iterable[AssetCheckResult]) -> Iterator[AssetCheckResult]:
    """Yield the results of those checks that the run selects; a user may run a single check in Dagster's UI."""
    selected_keys = {(key.asset_key, key.name) for key in context.selected_asset_check_keys}
    for result in results:
        if (result.asset_key, result.check_name) in selected_keys:
            yield result


def as_results(evaluations: Iterable[AssetCheckEvaluation]) -> Iterator[AssetCheckResult]:
    """Convert ``AssetCheckEvaluation`` objects to ``AssetCheckResult`` objects, which a Dagster step can yield."""
    for evaluation in evaluations:
        yield AssetCheckResult(
            passed=evaluation.passed,
            check_name=evaluation.check_name,
            asset_key=evaluation.asset_key,
            severity=evaluation.severity,
            metadata=evaluation.metadata,
        )


def evaluate(
    workspace: Workspace,
    stream: Stream,
    days: Collection[tuple[str, str]] | None,
    key_prefix: Sequence[str] = (),
    *,
    are_loaded: bool = False,
) -> Iterator[AssetCheckEvaluation]:
    """Yield the result of each of ``CHECKS`` over the partitions of some days.

    ``days`` are pairs of chain and day; None means the whole lake. If the partitions ``are_loaded``, their rows are
    read from the warehouse, which takes half as long.
    """
    examined = Examined(workspace, stream, _manifests(workspace.lake, stream, days), are_loaded)
    for check in CHECKS:
        yield _evaluation(check, examined, key_prefix)


def _evaluation(check: Check, examined: Examined, key_prefix: Sequence[str]) -> AssetCheckEvaluation:
    result = check.find(examined)
    metadata: dict[str, Any] = {"partitions": len(result.partitions), "faults": result.count}
    if result.partitions:
        instants = [manifest.as_of for manifest in result.partitions]
        metadata["instants"] = f"{min(instants).isoformat()}Z to {max(instants).isoformat()}Z"
    if result.faults:
        metadata["first faults"] = MetadataValue.json(list(result.faults[:_LISTED]))
    return AssetCheckEvaluation(
        passed=not result.faults,
        check_name=check.name,
        asset_key=asset_key(examined.stream.tables[0], key_prefix),
        severity=result.severity,
        metadata=metadata,
    )


def _failed(examined: Examined) -> Found:
    """Return the failed requests of the partitions."""
    faults = [
        f"{row['code']} of {row['subject']} on {row['chain']} at {row['as_of'].isoformat()}Z"
        for row in failed_requests(examined.workspace.lake, examined.manifests)
    ]
    return Found(examined.manifests, faults, len(faults))


def _wrong_counts(examined: Examined) -> Found:
    """Return the files of all tables of the stream whose number of rows differs from their manifest."""
    faults = [f"{table}, {fault}" for table, wrong in examined.wrong_counts.items() for fault in wrong.values()]
    return Found(examined.manifests, faults, len(faults))


def _unsound_rows(examined: Examined) -> Found:
    """Return odd and contradictory rows of all tables of the stream, in intact files, and changes of the answers.

    Changes are less than half of a table's rows by subject of before, and fields that the contract does not have.
    """
    workspace, tables = examined.workspace, examined.stream.tables
    if examined.are_loaded:
        odd_table = odd_rows_loaded(workspace.warehouse, tables, examined.intact)
    else:
        files = {name: _files(workspace.lake, examined.intact, name) for name in tables}
        odd_table = odd_rows(files, workspace.warehouse.memory_limit)
    is_error = "error" in odd_table["severity"].unique().to_pylist()
    first_odd = [_odd_row(row) for row in odd_table.slice(0, _LISTED).to_pylist()]
    others = [
        *(f"not in the contract: {field}" for field in new_fields(workspace.archive, examined.manifests)),
        *(
            f"{table}, {fault}"
            for table in tables
            if TABLES[table].is_list
            for fault in lost_rows(workspace.lake, examined.stream, examined.manifests, table)
        ),
    ]
    severity = AssetCheckSeverity.ERROR if is_error else AssetCheckSeverity.WARN
    return Found(examined.intact, [*first_odd, *others], odd_table.num_rows + len(others), severity)


def _odd_row(row: Mapping[str, Any]) -> str:
    """Return a row of ``odd_rows`` as text: share_sum of 0xaa on eth at 2026-01-01T00:00:00Z (sum of shares: 1.2)."""
    figure = "" if row["found"] is None else f": {row['found']:,.7g}"
    place = f"{row['subject'] or row['family']} on {row['chain']} at {row['timestamp'].isoformat()}Z"
    return f"{row['issue']} of {place} ({row['what']}{figure})"


def files_with_wrong_counts(lake: Lake, manifests: Iterable[Manifest], table: str) -> dict[str, str]:
    """Return, by commit, a sentence about each Parquet file whose number of rows differs from its manifest."""
    faults = {}
    for manifest in manifests:
        expected = manifest.tables[table].rows
        path = lake.storage.path(manifest, table)
        rows = pq.read_metadata(path).num_rows if path.exists() else None
        if rows != expected:
            place = f"{manifest.chain} {manifest.as_of.isoformat()}Z"
            actual = "the file is missing" if rows is None else f"the file has {rows}"
            faults[manifest.commit] = f"{place}: the manifest says {expected} rows, {actual}"
    return faults


def lost_rows(lake: Lake, stream: Stream, manifests: Collection[Manifest], table: str) -> list[str]:
    """Return a sentence about each partition with less than half of the rows by subject of its chain's instant before.

    The view ``data_quality`` names the tokens (issue content_lost).
    """
    of_run = {manifest.commit for manifest in manifests}
    faults = []
    in_order = (
        sorted(lake.manifests(stream.name), key=lambda manifest: (manifest.chain, manifest.as_of)) if of_run else []
    )
    for previous, manifest in pairwise(in_order):
        rows, earlier = manifest.tables[table].rows, previous.tables[table].rows
        is_compared = manifest.commit in of_run and previous.chain == manifest.chain and earlier >= _FEW_ROWS
        if is_compared and 2 * rows * len(previous.covered) < earlier * len(manifest.covered):
            place = f"{manifest.chain} {manifest.as_of.isoformat()}Z"
            faults.append(f"{place}: {counted(rows, 'row')}, and {earlier:,} at {previous.as_of.isoformat()}Z")
    return faults


def new_fields(archive: AnswerArchive, manifests: Iterable[Manifest]) -> list[str]:
    """Return a sentence about each field that the contract does not have, in an answer of each chain's newest instant.

    Such fields are in the archive and in no table. An answer that is no JSON is left out: it is in ``failures``.
    """
    newest = {manifest.chain: manifest for manifest in sorted(manifests, key=lambda manifest: manifest.as_of)}
    sentences: dict[str, str] = {}
    for manifest in newest.values():
        request, raw = newest_answer(archive, manifest.place) or (None, b"")
        with suppress(msgspec.DecodeError):
            fields = unknown_fields(request.answer, msgspec.json.decode(raw)) if request else ()
            sentences |= {field: f"{field} of {request.endpoint}, {manifest.chain}" for field in fields if request}
    return sorted(sentences.values())


def failed_requests(lake: Lake, manifests: Iterable[Manifest]) -> list[dict[str, Any]]:
    """Return chain, as_of, subject and code of each failure that gives a command the exit code 3."""
    return [
        {name: row[name] for name in ("chain", "as_of", "subject", "code")}
        for manifest in manifests
        if manifest.failures
        for row in lake.rows(manifest, FAILURES).to_pylist()
        if row["code"] not in FINAL_FAILURES
    ]


def tag_failed_requests(
    context: OpExecutionContext, lake: Lake, stream: Stream, days: Collection[tuple[str, str]]
) -> None:
    """Tag a run with the number of failed requests in its partitions, for the sensor ``notices``."""
    if failed := failed_requests(lake, _manifests(lake, stream, days)):
        context.instance.add_run_tags(context.run_id, {f"{FAILED_REQUESTS_TAG}{stream.name}": str(len(failed))})


def _manifests(lake: Lake, stream: Stream, days: Collection[tuple[str, str]] | None) -> list[Manifest]:
    chosen_days = set(days) if days is not None else None
    return [
        manifest
        for manifest in lake.manifests(stream.name)
        if chosen_days is None or (manifest.chain, f"{manifest.as_of:%Y-%m-%d}") in chosen_days
    ]


def _specs(stream: Stream, key_prefix: Sequence[str]) -> list[AssetCheckSpec]:
    key = asset_key(stream.tables[0], key_prefix)
    return [
        AssetCheckSpec(check.name, asset=key, description=check.description, blocking=check.blocking)
        for check in CHECKS
    ]


def _files(lake: Lake, manifests: Sequence[Manifest], table: str) -> list[tuple[str, Path]]:
    filled = (manifest for manifest in manifests if manifest.tables[table].rows)
    return [(manifest.chain, lake.storage.path(manifest, table)) for manifest in filled]


CHECKS: Final = (
    Check(REQUESTS, "No request of the partitions failed. What could be fetched is in the lake.", _failed),
    Check(
        "rows_are_sound",
        "No row is odd or contradicts another (views odd_rows and contradictions). No partition has less than half of "
        "the rows by subject of its chain's instant before, and the newest answers have no fields that the contract "
        "does not have. Warnings only warn.",
        _unsound_rows,
    ),
    Check(
        "rows_are_those_of_the_manifest",
        "Each Parquet file holds as many rows as its partition's manifest says.",
        _wrong_counts,
        blocking=True,
    ),
)
"""The asset checks of each stream. An entry here is a complete check."""
