"""Alert rules as asset checks: a rule that finds something in a run's partitions warns, with the evidence.

They look into the warehouse, so they wait for it. A check tells what is so; who is told, and just once, is the alerts'
sensor's matter.
"""

from collections.abc import Collection, Iterator
from datetime import datetime, time
from typing import Any, Final

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

from holderlake.alerts.rules import TABLE_OF, Alert, Span, evaluate, tokens_of
from holderlake.contract.times import utc_now
from holderlake.dagster.checks import days_of_run, results
from holderlake.settings.cron import interval_of
from holderlake.settings.sections.alerts import AlertRule
from holderlake.workspace import Workspace

ALERT_PREFIX: Final = "alert_"
"""Checks of alert rules are named by the rule, behind this."""
_SHOWN: Final = 20
_END_OF_DAY: Final = time(23, 59, 59, 999_999)


def alert_checks(workspace: Workspace) -> list[AssetChecksDefinition]:
    """One step that tries all rules in force; none where none is."""
    rules = workspace.settings.alerts.in_force
    if not rules:
        return []

    @multi_asset_check(name="alerts", specs=[_spec(name, rule) for name, rule in rules.items()])
    def check(context: AssetCheckExecutionContext, workspace: ResourceParam[Workspace]) -> Iterator[AssetCheckResult]:
        days, warehouse = days_of_run(context), workspace.warehouse
        if warehouse.is_postponed and days is not None:
            warehouse.postponed_days |= set(days)
            yield from results(_later(name, rule) for name, rule in rules.items())
            return
        if days is not None:
            days = sorted({*days, *warehouse.postponed_days})
            warehouse.postponed_days.clear()
        yield from results(evaluate_alerts(workspace, days))

    return [check]


def evaluate_alerts(workspace: Workspace, days: Collection[tuple[str, str]] | None) -> Iterator[AssetCheckEvaluation]:
    """The outcome of each rule from the first to the last of the (chain, day) pairs; of what is news without any."""
    span = _span(workspace, None if days is None else [day for _, day in days])
    chains = None if days is None else {chain for chain, _ in days}
    for name, rule in workspace.settings.alerts.in_force.items():
        tokens = tokens_of(rule, workspace.settings.watchlist, chains)
        yield _outcome(name, rule, evaluate(workspace.warehouse, name, rule, tokens, span))


def _span(workspace: Workspace, days: list[str] | None) -> Span:
    """The days of a run's partitions; without any, all that is news."""
    settings = workspace.settings
    interval = interval_of(settings.schedule.cron)
    now = utc_now()
    if not days:
        return Span(now - settings.alerts.max_age, now, interval)
    last = datetime.combine(datetime.fromisoformat(max(days)), _END_OF_DAY)
    return Span(datetime.fromisoformat(min(days)), min(now, last), interval)


def _spec(name: str, rule: AlertRule) -> AssetCheckSpec:
    table = TABLE_OF[rule.rule]
    return AssetCheckSpec(
        f"{ALERT_PREFIX}{name}",
        asset=table,
        additional_deps=[] if table == "warehouse" else ["warehouse"],
        description=f"Alert {name}: {rule.rule.replace('_', ' ')}, threshold {rule.limit:g}.",
    )


def _later(name: str, rule: AlertRule) -> AssetCheckEvaluation:
    """The outcome of a rule in a run whose rows a later run of the same command loads, and tries the rule on."""
    return AssetCheckEvaluation(
        passed=True,
        check_name=f"{ALERT_PREFIX}{name}",
        asset_key=AssetKey(TABLE_OF[rule.rule]),
        severity=AssetCheckSeverity.WARN,
        metadata={"tried": "in the last run of this command, for all its chains"},
    )


def _outcome(name: str, rule: AlertRule, found: list[Alert]) -> AssetCheckEvaluation:
    metadata: dict[str, Any] = {"alerts": len(found), "threshold": rule.limit}
    if found:
        told = [
            {"alert": one.sentence, "measured": one.measured, "evidence": dict(one.evidence)} for one in found[:_SHOWN]
        ]
        metadata["first alerts"] = MetadataValue.json(told)
    return AssetCheckEvaluation(
        passed=not found,
        check_name=f"{ALERT_PREFIX}{name}",
        asset_key=AssetKey(TABLE_OF[rule.rule]),
        severity=AssetCheckSeverity.WARN,
        metadata=metadata,
    )
