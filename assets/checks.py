"""Asset checks: the rules of ``checks.sql``, and that what the manifests promise is there and fresh.

Rules about content are errors that stop nothing, for one odd token must not keep the others from the warehouse. A file
that does not hold what its manifest says is blocking: such a partition must be fetched again, not loaded.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from importlib.resources import files
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from dagster import (
    AssetCheckExecutionContext,
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    AssetCheckSpec,
    MetadataValue,
    ResourceParam,
    multi_asset_check,
)

from assets.family import Family
from assets.materialise import DUE, days_of
from contract.tables import TABLES
from contract.times import utc_now
from resources.lake import Lake, Manifest
from resources.workspace import Workspace

_SHOWN: Final = 10
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


RULES: Final = tuple(Rule(*found) for found in _RULE.findall(files("assets").joinpath("checks.sql").read_text()))


def broken(rule: Rule, tables: dict[str, pa.Table]) -> pa.Table:
    """The rows that break a rule."""
    with duckdb.connect() as connection:
        for name, rows in tables.items():
            connection.register(name, rows)
        return connection.sql(rule.sql).to_arrow_table()


def short_files(lake: Lake, manifests: Iterable[Manifest], table: str) -> list[str]:
    """Partitions whose Parquet file does not hold the rows that its manifest says, in words."""
    found = []
    for manifest in manifests:
        promised = manifest.tables[table].rows
        path = lake.path(table, manifest.chain, manifest.as_of, manifest.family)
        there = pq.read_metadata(path).num_rows if path.exists() else None
        if there != promised:
            found.append(f"{manifest.chain} {manifest.as_of.isoformat()}Z: {promised} rows promised, {there} there")
    return found


def checks_of(family: Family) -> AssetChecksDefinition:
    """All checks of a family's assets, in one step."""
    rules = [rule for rule in RULES if rule.table in family.tables]
    specs = [AssetCheckSpec(rule.name, asset=rule.table, description=f"Rule: {rule.sentence}.") for rule in rules]
    for table in family.tables:
        specs.append(
            AssetCheckSpec(
                "rows_are_those_of_the_manifest",
                asset=table,
                blocking=True,
                description="Each Parquet file holds as many rows as its partition's manifest says.",
            )
        )
        specs.append(
            AssetCheckSpec(
                "is_fresh",
                asset=table,
                description=f"Something was learnt within the last {DUE // timedelta(hours=1)} h.",
            )
        )

    @multi_asset_check(name=f"{family.name}_checks", specs=specs)
    def check(context: AssetCheckExecutionContext, workspace: ResourceParam[Workspace]) -> Iterator[AssetCheckResult]:
        lake = workspace.lake
        manifests = _touched(context, lake, family)
        tables = {name: _rows(lake, manifests, name) for name in family.tables}
        for rule in rules:
            yield _result(rule, broken(rule, tables), len(manifests))
        for table in family.tables:
            yield _intact(lake, manifests, table)
            yield _fresh(lake, family, table)

    return check


def _touched(context: AssetCheckExecutionContext, lake: Lake, family: Family) -> list[Manifest]:
    """The family's partitions that the run is about; all of them where it is about none."""
    own = [manifest for manifest in lake.manifests() if manifest.family == family.name]
    step = context.op_execution_context
    if not (step.has_partition_key or step.has_partition_key_range):
        return own
    days = set(days_of(step.partition_keys))
    return [manifest for manifest in own if (manifest.chain, f"{manifest.as_of:%Y-%m-%d}") in days]


def _rows(lake: Lake, manifests: Sequence[Manifest], table: str) -> pa.Table:
    parts = [lake.read(table, manifest.chain, manifest.as_of) for manifest in manifests]
    return pa.concat_tables([TABLES[table].schema.empty_table(), *parts])


def _result(rule: Rule, faults: pa.Table, partitions: int) -> AssetCheckResult:
    metadata: dict[str, Any] = {"partitions": partitions, "faults": faults.num_rows}
    if faults.num_rows:
        metadata["first faults"] = MetadataValue.json([str(row) for row in faults.slice(0, _SHOWN).to_pylist()])
    return AssetCheckResult(
        passed=not faults.num_rows,
        check_name=rule.name,
        asset_key=rule.table,
        severity=AssetCheckSeverity.ERROR,
        metadata=metadata,
    )


def _intact(lake: Lake, manifests: Sequence[Manifest], table: str) -> AssetCheckResult:
    short = short_files(lake, manifests, table)
    return AssetCheckResult(
        passed=not short,
        check_name="rows_are_those_of_the_manifest",
        asset_key=table,
        severity=AssetCheckSeverity.ERROR,
        metadata={"partitions": len(manifests), "faults": MetadataValue.json(short[:_SHOWN])},
    )


def _fresh(lake: Lake, family: Family, table: str) -> AssetCheckResult:
    written = [manifest.written_at for manifest in lake.manifests() if manifest.family == family.name]
    newest = max(written, default=None)
    return AssetCheckResult(
        passed=newest is not None and utc_now() - newest <= DUE,
        check_name="is_fresh",
        asset_key=table,
        severity=AssetCheckSeverity.WARN,
        metadata={"last learnt": f"{newest.isoformat(timespec='seconds')}Z" if newest else "never"},
    )
