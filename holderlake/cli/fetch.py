"""Commands that fetch: ``holderlake demo``, ``ingest``, ``plan``, ``backfill``, ``retry-failures`` and ``credits``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal

import typer

from holderlake.cli import shared
from holderlake.cli.exit_codes import ExitCode
from holderlake.cli.shared import (
    GROUP_BY,
    Chains,
    Every,
    FilledTables,
    From,
    Instants,
    Json,
    Open,
    Refresh,
    SeveralAt,
    To,
    Tokens,
)
from holderlake.core.contract.prices import parse_credits


def demo(
    opening: Open = False,
    json: Json = False,
) -> None:
    """Run the main job on the built-in sample world: chains, tokens and instants, through Dagster to DuckDB.

    With --open it then serves the explorer. Stop it with Ctrl-C.

    Example: holderlake demo

    Example: holderlake demo --open
    """
    from holderlake.cli.demo import run_demo, show_story

    workspace = shared.workspace(shared.settings().without_provider())
    run_demo(workspace, as_json=json)
    if opening:
        show_story(workspace)


def ingest(
    chain: Chains = None,
    token: Tokens = None,
    at: SeveralAt = None,
    refresh: Refresh = False,
    json: Json = False,
) -> None:
    """Fetch the tokens of each chain through Dagster, now or as of past instants, and load the warehouse.

    A day that lacks nothing, and that Dagster has, needs no run.

    Example: holderlake ingest

    Example: holderlake ingest --chain eth --at 2026-05-01 --at 2026-06-01
    """
    from holderlake.cli.launch import fill, ingest_day, needs_run
    from holderlake.cli.outcome import Outcome
    from holderlake.operations.backfill.instants import past_instants
    from holderlake.operations.history.instance import dagster_instance

    workspace = shared.workspace()
    instants = past_instants(at or ["now"])
    chains = shared.chains_of(workspace, chain, token)
    options: dict[str, Any] = {"tokens": shared.tokens_of(chains, token) or [], "refresh": refresh}
    workspace.check()
    outcome = Outcome(workspace, chains, instants)
    with dagster_instance(workspace.settings.dagster_home) as instance:
        if len({instant.date() for instant in instants}) > 1:
            outcome.run(lambda: fill(workspace, instance, chains, instants, **options))
        else:
            pending: list[str] = []

            def examine(name: str) -> None:
                if needs_run(workspace, instance, name, instants, **options):
                    pending.append(name)

            for name in chains:
                outcome.run(partial(examine, name))
            for chain_name in pending:
                loads = pending if chain_name == pending[-1] else ()
                outcome.run(partial(ingest_day, workspace, instance, chain_name, instants, loads=loads, **options))
            workspace.warehouse.load(workspace.lake)
    outcome.conclude(json)


def plan(  # noqa: PLR0913, PLR0917 - a command's options
    start: From = None,
    end: To = None,
    every: Every = None,
    instants: Instants = None,
    chain: Chains = None,
    token: Tokens = None,
    table: FilledTables = None,
    refresh: Refresh = False,
    json: Json = False,
) -> None:
    """Show what a backfill would cost at most: calls, credits, minutes, and cheaper variants. It sends no request.

    Example: holderlake plan --from 2026-01-01 --every 1w --chain eth
    """
    from holderlake.cli.plan_report import plan_report
    from holderlake.operations.backfill.instants import chosen_instants
    from holderlake.operations.backfill.plan import make_plan

    workspace = shared.workspace()
    plan_instants = chosen_instants(start, end, every, instants)
    chains = shared.chains_of(workspace, chain, token)
    token = shared.tokens_of(chains, token)
    planned = make_plan(workspace, workspace.provider_id, chains, plan_instants, token, tables=table, refresh=refresh)
    listed = instants.name if instants else None
    options = {"--from": [start], "--to": [end], "--every": [every], "--instants": [listed], "--chain": chain}
    plan_report(planned, json, _backfill_command({**options, "--token": token, "--table": table}, refresh))


def _backfill_command(options: Mapping[str, Sequence[str | None] | None], refresh: bool) -> str:
    """Return the command line that runs the planned backfill. ``options`` has the values by option, as in ``--to``."""
    given_options = [(name, value) for name, values in options.items() for value in values or () if value is not None]
    once = dict.fromkeys(given_options)
    words = (f"{name} {shlex.quote('-' if value == '<stdin>' else value)}" for name, value in once)
    return " ".join(["holderlake backfill", *words, *(["--refresh"] if refresh else [])])


def backfill(  # noqa: PLR0913, PLR0917 - a command's options
    start: From = None,
    end: To = None,
    every: Every = None,
    instants: Instants = None,
    chain: Chains = None,
    token: Tokens = None,
    table: FilledTables = None,
    max_credits: Annotated[str | None, typer.Option(help="Stop before spending more credits than this.")] = None,
    refresh: Refresh = False,
    stale: Annotated[
        bool,
        typer.Option(
            "--stale", help="Instead, compute the partitions again that are older than your store; it is free."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Fetch past instants in one run, newest first. Repeat the command after an interruption: it resumes.

    Example: holderlake backfill --from 2026-01-01 --every 1w --chain eth --max-credits 5000

    Example: holderlake backfill --stale
    """
    from holderlake.cli.backfill import recompute, run_backfill
    from holderlake.operations.backfill.instants import chosen_instants

    settings = shared.settings()
    if max_credits is not None:
        settings = settings.with_run_ceiling(parse_credits(max_credits))
    workspace = shared.workspace(settings)
    if stale:
        times = {"--from": start, "--to": end, "--every": every, "--instants": instants}
        subjects = {"--chain": chain, "--token": token, "--table": table, "--refresh": refresh}
        if given_options := [name for name, value in (times | subjects).items() if value]:
            raise ValueError(f"--stale cannot be combined with {', '.join(given_options)}: use --stale alone")
        recompute(workspace, json)
        return
    fill_instants = chosen_instants(start, end, every, instants)
    chains = shared.chains_of(workspace, chain, token)
    run_backfill(workspace, chains, fill_instants, shared.tokens_of(chains, token) or (), table or (), json, refresh)


def retry_failures(
    chain: Chains = None,
    code: Annotated[
        list[str] | None, typer.Option("--code", help="Only this code, final ones too; may be given again.")
    ] = None,
    pay_again: Annotated[
        bool, typer.Option("--pay-again", help="Pay again for answers that still cannot be read.")
    ] = False,
    json: Json = False,
) -> None:
    """Repeat failed requests. Paid answers that could not be read are decoded again first, at no cost.

    Example: holderlake retry-failures --chain eth
    """
    from holderlake.cli.home_reports import retry_report
    from holderlake.operations.history.instance import dagster_instance
    from holderlake.operations.maintenance.retry_failures import failures, log_complete, retry

    workspace = shared.workspace()
    workspace.check()
    report = retry(workspace, failures(workspace, chain or (), code or ()), pay_again)
    if report.landed:
        with dagster_instance(workspace.settings.dagster_home) as instance:
            log_complete(workspace, instance, report.landed)
    retry_report(report, json)
    if report.failed or report.left:
        raise typer.Exit(ExitCode.SOME_FAILED if report.landed else ExitCode.NOTHING_DONE)


def credits(
    by: Annotated[Literal["endpoint", "day", "run", "token"], GROUP_BY] = "endpoint",
    json: Json = False,
) -> None:
    """Show the ledger: credits spent, reserved and left, and the renewal date.

    Example: holderlake credits --by day
    """
    from holderlake.cli.credits import credits_report

    credits_report(shared.reading(), by, json)
