"""Asset checks: the rules of ``checks.sql``, and that what the manifests promise is there and fresh.

Rules about content are errors that stop nothing, for one odd token must not keep the others from the warehouse. A file
that does not hold what its manifest says is blocking: such a partition must be fetched again, not loaded.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from dagster import (
    AssetCheckEvaluation,
    AssetCheckExecutionContext,
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    AssetCheckSpec,
    AssetKey,
    MetadataValue,
    ResourceParam,
    multi_asset_check,
)

from holderlake.contract.tables import TABLES
from holderlake.contract.times import utc_now
from holderlake.dagster.assets import DUE, days_of
from holderlake.ingest.stream import Stream
from holderlake.lake.lake import Lake, Manifest
from holderlake.warehouse.schema import quoted
from holderlake.workspace import Workspace

_SHOWN: Final = 10
_MEMORY: Final = "256MB"
_COUNTS: Final = "rows_are_those_of_the_manifest"
_FRESH: Final = "is_fresh"
_VIEW: Final = """
CREATE VIEW {name} AS
FROM read_parquet([{paths}], hive_partitioning = false, union_by_name = true)
UNION ALL BY NAME FROM _{name}
"""
_RULE: Final = re.compile(r"-- rule: (\w+) on (\w+)\n(.*?);", re.DOTALL)


@dataclass(frozen=True)
class Rule:
    """A query over a family's tables that lists what breaks the rule: chain, as_of, token_address, what, found."""

    name: str
    table: str
    sql: str

    @property
    def sentence(self) -> str:
        """The rule as a person says it."""
        return self.name.replace("_", " ")


RULES: Final = tuple(
    Rule(*found) for found in _RULE.findall(files("holderlake.dagster").joinpath("checks.sql").read_text())
)


def broken(rule: Rule, tables: Mapping[str, pa.Table | Sequence[Path]]) -> pa.Table:
    """The rows that break a rule, among tables in memory or in Parquet files, which are streamed."""
    with duckdb.connect(config={"memory_limit": _MEMORY}) as connection:
        connection.execute("SET enable_progress_bar = false")
        for name, rows in tables.items():
            if isinstance(rows, pa.Table):
                connection.register(name, rows)
            else:
                paths = ", ".join(quoted(str(path)) for path in rows)
                connection.register(f"_{name}", TABLES[name].schema.empty_table())  # columns that older files lack
                connection.execute(_VIEW.format(name=name, paths=paths))
        return connection.sql(rule.sql).to_arrow_table()


def short_files(lake: Lake, manifests: Iterable[Manifest], table: str) -> dict[str, str]:
    """Commits whose Parquet file does not hold the rows that its manifest says, with what is wrong in words."""
    found = {}
    for manifest in manifests:
        promised = manifest.tables[table].rows
        path = lake.path(table, manifest.chain, manifest.as_of, manifest.family)
        there = pq.read_metadata(path).num_rows if path.exists() else None
        if there != promised:
            where = f"{manifest.chain} {manifest.as_of.isoformat()}Z"
            found[manifest.commit] = f"{where}: {promised} rows promised, {there or 'no file'} there"
    return found


def checks_of(family: Stream) -> AssetChecksDefinition:
    """All checks of a family's assets, in one step: over the partitions of the run, or over all where it has none."""

    @multi_asset_check(name=f"{family.name}_checks", specs=_specs(family))
    def check(context: AssetCheckExecutionContext, workspace: ResourceParam[Workspace]) -> Iterator[AssetCheckResult]:
        days = days_of_run(context)
        yield from results(evaluate(workspace.lake, family, None if days is None else set(days)))

    return check


def days_of_run(context: AssetCheckExecutionContext) -> list[tuple[str, str]] | None:
    """Chain and day of each partition of a run; None where it has none."""
    step = context.op_execution_context
    partitioned = step.has_partition_key or step.has_partition_key_range
    return days_of(step.partition_keys) if partitioned else None


def results(found: Iterable[AssetCheckEvaluation]) -> Iterator[AssetCheckResult]:
    """The outcomes of checks as a step yields them."""
    for one in found:
        yield AssetCheckResult(
            passed=one.passed,
            check_name=one.check_name,
            asset_key=one.asset_key,
            severity=one.severity,
            metadata=one.metadata,
        )


def evaluate(lake: Lake, family: Stream, days: Collection[tuple[str, str]] | None) -> Iterator[AssetCheckEvaluation]:
    """The outcome of each check over the partitions of the (chain, day) pairs, or over all.

    Rules are tried on the files that are intact; the others fail the count of rows.
    """
    own = list(lake.manifests(family.name))
    chosen = [one for one in own if days is None or (one.chain, f"{one.as_of:%Y-%m-%d}") in days]
    short = {table: short_files(lake, chosen, table) for table in family.tables}
    intact = [one for one in chosen if not any(one.commit in faults for faults in short.values())]
    tables = {name: _files(lake, intact, name) for name in family.tables}
    for rule in _rules(family):
        faults = broken(rule, tables)
        yield _result(rule.name, rule.table, len(intact), [str(row) for row in faults.to_pylist()])
    for table, faults_of in short.items():
        yield _result(_COUNTS, table, len(chosen), list(faults_of.values()))
    yield _fresh(family.tables[0], max((manifest.written_at for manifest in own), default=None))


def _rules(family: Stream) -> list[Rule]:
    return [rule for rule in RULES if rule.table in family.tables]


def _specs(family: Stream) -> list[AssetCheckSpec]:
    rules = [AssetCheckSpec(one.name, asset=one.table, description=f"Rule: {one.sentence}.") for one in _rules(family)]
    counts = [
        AssetCheckSpec(
            _COUNTS,
            asset=table,
            blocking=True,
            description="Each Parquet file holds as many rows as its partition's manifest says.",
        )
        for table in family.tables
    ]
    due = f"Something was learnt within the last {DUE // timedelta(hours=1)} h."
    return [*rules, *counts, AssetCheckSpec(_FRESH, asset=family.tables[0], description=due)]


def _files(lake: Lake, manifests: Sequence[Manifest], table: str) -> pa.Table | list[Path]:
    paths = [lake.path(table, one.chain, one.as_of) for one in manifests if one.tables[table].rows]
    return paths or TABLES[table].schema.empty_table()


def _result(check: str, table: str, partitions: int, faults: Sequence[str]) -> AssetCheckEvaluation:
    metadata: dict[str, Any] = {"partitions": partitions, "faults": len(faults)}
    if faults:
        metadata["first faults"] = MetadataValue.json(list(faults[:_SHOWN]))
    return AssetCheckEvaluation(
        passed=not faults,
        check_name=check,
        asset_key=AssetKey(table),
        severity=AssetCheckSeverity.ERROR,
        metadata=metadata,
    )


def _fresh(table: str, newest: datetime | None) -> AssetCheckEvaluation:
    return AssetCheckEvaluation(
        passed=newest is not None and utc_now() - newest <= DUE,
        check_name=_FRESH,
        asset_key=AssetKey(table),
        severity=AssetCheckSeverity.WARN,
        metadata={"last learnt": f"{newest.isoformat(timespec='seconds')}Z" if newest else "never"},
    )
