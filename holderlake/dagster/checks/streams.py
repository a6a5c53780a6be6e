"""Asset checks of a stream's tables: failed requests, the rules of ``rules.sql``, and the row counts of the manifests.

They examine the partitions of the run. A failed request or rule does not block the load of the warehouse, so that one
token with odd data does not hold back the others. A file with another number of rows than its manifest blocks the load.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import duckdb
import msgspec
import pyarrow as pa
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

from holderlake.archive.archive import AnswerArchive
from holderlake.archive.provenance import newest_answer
from holderlake.contract.models import unknown_fields
from holderlake.contract.tables import TABLES
from holderlake.dagster.metadata import asset_key
from holderlake.dagster.partitions import days_of, keys_of_run
from holderlake.dagster.resources import WORKSPACE
from holderlake.ingest.partition import FINAL_FAILURES
from holderlake.ingest.stream import Stream
from holderlake.lake.lake import FAILURES, Lake, Manifest
from holderlake.units import counted
from holderlake.warehouse.schema import files_sql
from holderlake.workspace import Workspace

REQUESTS: Final = "requests_succeeded"
FAILED_REQUESTS_TAG: Final = "holderlake/failed_requests/"
"""Run tag with the number of the run's failed requests of a stream; the stream's name follows."""
_COUNTS: Final = "rows_are_those_of_the_manifest"
_FIELDS: Final = "fields_are_those_of_the_contract"
_VOLUME: Final = "rows_are_not_half_of_before"
_LISTS: Final = frozenset({"chains", "tokens", "holders", "map_nodes", "addresses"})
"""Tables whose numbers of rows are compared. Relationships and clusters come and go with what holders do."""
_FEW_ROWS: Final = 20
"""Rows from which the number of rows of an instant is compared with that of the next."""
_LISTED: Final = 10
_MEMORY: Final = "256MB"
_VIEW: Final = """
CREATE VIEW {name} AS
{files}
UNION ALL BY NAME FROM _{name}
"""
_RULE: Final = re.compile(r"-- rule: (\w+) on (\w+)\n(.*?);", re.DOTALL)


@dataclass(frozen=True)
class Rule:
    """A SQL query that returns the rows of a table that break a rule.

    Its columns are chain, as_of, token_address, what (the address, rank or measure at fault) and found (the invalid
    number).
    """

    name: str
    table: str
    sql: str


RULES: Final = tuple(
    Rule(*parts) for parts in _RULE.findall(files("holderlake.dagster.checks").joinpath("rules.sql").read_text("utf-8"))
)


def stream_checks(
    stream: Stream, *, key_prefix: Sequence[str] = (), resource: str = WORKSPACE
) -> AssetChecksDefinition:
    """Return the checks of a stream's assets: rules and row counts. They need a workspace as the resource ``resource``.

    They examine the partitions of their run, or the whole lake in a run without partitions.
    """

    @multi_asset_check(
        name="__".join([*key_prefix, f"{stream.name}_checks"]),
        specs=_specs(stream, key_prefix),
        can_subset=True,
        required_resource_keys={resource},
    )
    def check(context: AssetCheckExecutionContext) -> Iterator[AssetCheckResult]:
        workspace: Workspace = getattr(context.resources, resource)
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
    workspace: Workspace, stream: Stream, days: Collection[tuple[str, str]] | None, key_prefix: Sequence[str] = ()
) -> Iterator[AssetCheckEvaluation]:
    """Yield the result of each check over the partitions of some days.

    ``days`` are pairs of chain and day; None means the whole lake. Rules are evaluated on intact files only; for a
    damaged file, the check of row counts fails.
    """
    lake = workspace.lake
    manifests = _manifests(lake, stream, days)
    wrong_counts = {table: files_with_wrong_counts(lake, manifests, table) for table in stream.tables}
    intact = [
        manifest for manifest in manifests if not any(manifest.commit in wrong for wrong in wrong_counts.values())
    ]
    tables = {name: _files(lake, intact, name) for name in stream.tables}

    def outcome(
        check: str,
        table: str,
        looked_at: Sequence[Manifest],
        faults: Sequence[str],
        severity: AssetCheckSeverity = AssetCheckSeverity.ERROR,
    ) -> AssetCheckEvaluation:
        metadata: dict[str, Any] = {"partitions": len(looked_at), "faults": len(faults)}
        if looked_at:
            first_instant, last_instant = (
                min(manifest.as_of for manifest in looked_at),
                max(manifest.as_of for manifest in looked_at),
            )
            metadata["instants"] = f"{first_instant.isoformat()}Z to {last_instant.isoformat()}Z"
        if faults:
            metadata["first faults"] = MetadataValue.json(list(faults[:_LISTED]))
        return AssetCheckEvaluation(
            passed=not faults,
            check_name=check,
            asset_key=asset_key(table, key_prefix),
            severity=severity,
            metadata=metadata,
        )

    for rule, broken in rows_that_break(_rules(stream), tables):
        yield outcome(rule.name, rule.table, intact, [str(row) for row in broken.to_pylist()])
    failed = [str(row) for row in failed_requests(lake, manifests)]
    yield outcome(REQUESTS, stream.tables[0], manifests, failed)
    fields = new_fields(workspace.archive, manifests)
    yield outcome(_FIELDS, stream.tables[0], manifests, fields, AssetCheckSeverity.WARN)
    for table, wrong in wrong_counts.items():
        yield outcome(_COUNTS, table, manifests, list(wrong.values()))
        if table in _LISTS:
            volume_faults = lost_rows(lake, stream, manifests, table)
            yield outcome(_VOLUME, table, manifests, volume_faults, AssetCheckSeverity.WARN)


def rows_that_break(
    rules: Iterable[Rule], tables: Mapping[str, pa.Table | Sequence[tuple[str, Path]]]
) -> Iterator[tuple[Rule, pa.Table]]:
    """Yield each rule with the rows that break it, as a table with the columns of ``Rule``.

    ``tables`` has each table's rows by name: in memory, or as Parquet files (chain and path), which are
    streamed.
    """
    with duckdb.connect(config={"memory_limit": _MEMORY}) as connection:
        connection.execute("SET enable_progress_bar = false")
        for name, rows in tables.items():
            if isinstance(rows, pa.Table):
                connection.register(name, rows)
            else:
                connection.register(f"_{name}", TABLES[name].schema.empty_table())  # columns that older files lack
                connection.execute(_VIEW.format(name=name, files=files_sql(rows)))
        for rule in rules:
            yield rule, connection.sql(rule.sql).to_arrow_table()


def files_with_wrong_counts(lake: Lake, manifests: Iterable[Manifest], table: str) -> dict[str, str]:
    """Return, by commit, a sentence about each Parquet file whose number of rows differs from its manifest."""
    faults = {}
    for manifest in manifests:
        expected = manifest.tables[table].rows
        path = lake.store.path(manifest, table)
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


def _rules(stream: Stream) -> list[Rule]:
    return [rule for rule in RULES if rule.table in stream.tables]


def _specs(stream: Stream, key_prefix: Sequence[str]) -> list[AssetCheckSpec]:
    rules = [
        AssetCheckSpec(
            rule.name,
            asset=asset_key(rule.table, key_prefix),
            description=f"Rule: {rule.name.replace('_', ' ')}.",
        )
        for rule in _rules(stream)
    ]
    requests = AssetCheckSpec(
        REQUESTS,
        asset=asset_key(stream.tables[0], key_prefix),
        description="No request of the partitions failed. What could be fetched is in the lake.",
    )
    fields = AssetCheckSpec(
        _FIELDS,
        asset=asset_key(stream.tables[0], key_prefix),
        description="The newest answers have no fields that the contract does not have: they are in no table.",
    )
    counts = [
        AssetCheckSpec(
            _COUNTS,
            asset=asset_key(table, key_prefix),
            blocking=True,
            description="Each Parquet file holds as many rows as its partition's manifest says.",
        )
        for table in stream.tables
    ]
    volumes = [
        AssetCheckSpec(
            _VOLUME,
            asset=asset_key(table, key_prefix),
            description="No partition has less than half of the rows by subject of its chain's instant before.",
        )
        for table in stream.tables
        if table in _LISTS
    ]
    return [requests, fields, *rules, *counts, *volumes]


def _files(lake: Lake, manifests: Sequence[Manifest], table: str) -> pa.Table | list[tuple[str, Path]]:
    files = [
        (manifest.chain, lake.store.path(manifest, table)) for manifest in manifests if manifest.tables[table].rows
    ]
    return files or TABLES[table].schema.empty_table()
