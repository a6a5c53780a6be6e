"""Run a planned backfill, or resume the paused ones, and report the results."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from holderlake import console
from holderlake.backfill.paused import forget_paused, paused_backfills
from holderlake.backfill.plan import make_plan
from holderlake.backfill.report import plan_markdown, plan_report
from holderlake.cli.outcome import Outcome
from holderlake.contract.times import parse_when
from holderlake.dagster.launch import dagster_instance, fill
from holderlake.units import counted
from holderlake.workspace import Workspace


def run_backfill(
    workspace: Workspace,
    chains: Sequence[str],
    instants: Sequence[datetime],
    tokens: Sequence[str],
    tables: Sequence[str],
    as_json: bool,
    refresh: bool = False,
    refresh_since: str = "",
) -> None:
    """Print the plan, run the backfill, and print the committed rows.

    Raises ``RunFailed`` if it stops early. Its finished partitions stay in the lake.
    """
    workspace.check()
    plan = make_plan(
        workspace, workspace.provider_id, chains, instants, tokens or None, tables=tables or None, refresh=refresh
    )
    if not as_json:
        plan_report(plan, False)
    outcome = Outcome(workspace, chains, instants, tables)
    if plan.is_finished:
        workspace.warehouse.load(workspace.lake)  # the run that fetched it may have been killed before
    else:
        summary = plan_markdown(plan)
        with dagster_instance(workspace.settings.dagster_home) as instance:
            outcome.run(
                lambda: fill(workspace, instance, chains, instants, tokens, refresh, tables, summary, refresh_since)
            )
    outcome.conclude(as_json)


def resume_paused(workspace: Workspace, as_json: bool) -> None:
    """Run the paused backfills that are due. Raises ``RunFailed`` if one stops again; it then stays paused."""
    paused = paused_backfills(workspace)
    for backfill in paused:
        if backfill.is_due(workspace) or backfill.has_credits_again(workspace):
            instants = list(map(parse_when, backfill.of.instants))
            run_backfill(
                workspace,
                backfill.of.chains,
                instants,
                backfill.of.tokens,
                backfill.of.tables,
                as_json,
                bool(backfill.of.refresh_since),
                backfill.of.refresh_since,
            )
            forget_paused(workspace, backfill.of)  # the run did so already, unless it had nothing to do
        else:
            console.err.print(
                f"{counted(len(backfill.of.instants), 'instant', 'waits')} until {backfill.resume_on}: "
                f"{backfill.reason}"
            )
    if not paused and not as_json:
        console.out.print("No backfill is paused.")
