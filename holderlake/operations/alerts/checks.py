"""Alert rules as asset checks: a check warns if its rule gives alerts about a run's partitions, with the evidence.

The rules query the warehouse, so the checks run after it is loaded. They send no alerts: the job ``alerts`` does.
"""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, time
from typing import Any, Final

from dagster import (
    AssetCheckEvaluation,
    AssetCheckExecutionContext,
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    AssetCheckSpec,
    MetadataValue,
    multi_asset_check,
)

from holderlake.assets.checks import as_results, days_of_run, selected
from holderlake.core.contract.times import utc_now
from holderlake.core.dagster.metadata import asset_key
from holderlake.core.dagster.runs import chains_to_load
from holderlake.core.settings import Settings
from holderlake.core.settings.cron import interval_of
from holderlake.core.workspace import Workspace
from holderlake.operations.alerts.rules import Span, evaluate, tokens_of
from holderlake.operations.alerts.settings import AlertRule, AlertSettings
from holderlake.resources.workspace import WORKSPACE, workspace_of

ALERT_PREFIX: Final = "alert_"
"""Prefix of the names of these checks. The name of the rule follows."""
_LISTED: Final = 20
_END_OF_DAY: Final = time(23, 59, 59, 999_999)


def alert_checks(
    settings: Settings,
    *,
    tables: Collection[str] | None = None,
    key_prefix: Sequence[str] = (),
    resource: str = WORKSPACE,
) -> list[AssetChecksDefinition]:
    """Return one multi-asset check that evaluates all alert rules; an empty list if there are no rules.

    ``tables`` are the assets of the project: rules about other tables are left out. By default all are included. The
    check needs a workspace as the resource ``resource``.
    """
    rules = {
        name: rule
        for name, rule in settings.section(AlertSettings).in_force.items()
        if tables is None or rule.kind.table in tables
    }
    if not rules:
        return []
    specs = [_spec(name, rule, key_prefix) for name, rule in rules.items()]

    @multi_asset_check(
        name="__".join([*key_prefix, "alert_checks"]), specs=specs, can_subset=True, required_resource_keys={resource}
    )
    def check(context: AssetCheckExecutionContext) -> Iterator[AssetCheckResult]:
        workspace = workspace_of(context, resource)
        days, chains = days_of_run(context), chains_to_load(context.run.tags)
        if days is not None and chains is not None:
            days = [(chain, day) for chain in chains for _, day in days]
        if days == []:
            postponed = (_postponed(name, rule, key_prefix) for name, rule in rules.items())
            yield from selected(context, as_results(postponed))
        else:
            yield from selected(context, as_results(evaluate_alerts(workspace, days, key_prefix)))

    return [check]


def evaluate_alerts(
    workspace: Workspace, days: Collection[tuple[str, str]] | None, key_prefix: Sequence[str] = ()
) -> Iterator[AssetCheckEvaluation]:
    """Evaluate each alert rule over the time from the first to the last of ``days``, and yield the check results.

    ``days`` are pairs of chain and day (YYYY-MM-DD). None means all chains, for the last ``alerts.max_age``.
    """
    span = _span(workspace, None if days is None else [day for _, day in days])
    chains = None if days is None else {chain for chain, _ in days}
    watched, rules = workspace.settings.watchlist, workspace.settings.section(AlertSettings).in_force
    with workspace.warehouse.connect() as warehouse:
        alerts_by_rule = {
            name: evaluate(warehouse, name, rule, tokens_of(rule, watched, chains), span)
            for name, rule in rules.items()
        }
    for name, alerts in alerts_by_rule.items():
        rule = rules[name]
        metadata: dict[str, Any] = {"alerts": len(alerts), "threshold": rule.limit}
        if alerts:
            metadata["first alerts"] = MetadataValue.json(
                [
                    {"alert": alert.sentence, "measured": alert.measured, "evidence": dict(alert.evidence)}
                    for alert in alerts[:_LISTED]
                ]
            )
        yield _evaluation(name, rule, key_prefix, passed=not alerts, metadata=metadata)


def _span(workspace: Workspace, days: list[str] | None) -> Span:
    """Return the period that the rules evaluate: the given days (YYYY-MM-DD), or ``alerts.max_age`` until now."""
    settings = workspace.settings
    interval = interval_of(settings.schedule.cron)
    now = utc_now()
    if not days:
        return Span(now - settings.section(AlertSettings).max_age, now, interval)
    last_instant = datetime.combine(datetime.fromisoformat(max(days)), _END_OF_DAY)
    return Span(datetime.fromisoformat(min(days)), min(now, last_instant), interval)


def _spec(name: str, rule: AlertRule, key_prefix: Sequence[str]) -> AssetCheckSpec:
    table = rule.kind.table
    return AssetCheckSpec(
        f"{ALERT_PREFIX}{name}",
        asset=asset_key(table, key_prefix),
        additional_deps=[] if table == "warehouse" else [asset_key("warehouse", key_prefix)],
        description=f"Alert {name}: {rule.rule.replace('_', ' ')}, threshold {rule.limit:g}.",
    )


def _postponed(name: str, rule: AlertRule, key_prefix: Sequence[str]) -> AssetCheckEvaluation:
    """Return a passed check for a run that does not load the warehouse.

    A command with several runs loads the warehouse in its last run, which evaluates the rule for all of these runs.
    """
    metadata = {"evaluated": "in the last run of this command, for all its chains"}
    return _evaluation(name, rule, key_prefix, passed=True, metadata=metadata)


def _evaluation(
    name: str, rule: AlertRule, key_prefix: Sequence[str], *, passed: bool, metadata: dict[str, Any]
) -> AssetCheckEvaluation:
    return AssetCheckEvaluation(
        passed=passed,
        check_name=f"{ALERT_PREFIX}{name}",
        asset_key=asset_key(rule.kind.table, key_prefix),
        severity=AssetCheckSeverity.WARN,
        metadata=metadata,
    )
