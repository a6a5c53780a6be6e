"""The ``holderlake`` command: a thin layer over the same functions that the assets use."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from holderlake import console
from holderlake.contract.prices import parse_credits
from holderlake.units import parse_duration
from pipelines.cli import shared
from pipelines.cli.exit_codes import EXIT_CODES, ExitCode
from pipelines.cli.lake import lake
from pipelines.cli.lake.alerts import alerts
from pipelines.cli.lake.export import export
from pipelines.cli.lake.report import report
from pipelines.cli.own_data import cluster, keys, store
from pipelines.cli.own_data.balances import import_balances
from pipelines.cli.own_data.imports import import_files, import_rpc, labels
from pipelines.cli.own_data.index import index
from pipelines.cli.own_data.negatives import negative_balances
from pipelines.cli.shared import (
    Chains,
    Every,
    FilledTables,
    From,
    Instants,
    Json,
    Refresh,
    To,
    Tokens,
    chains_of,
    tokens_of,
)
from pipelines.cli.shared import reading as _reading
from pipelines.cli.shared import settings as _settings
from pipelines.cli.shared import workspace as _workspace

if TYPE_CHECKING:
    pass

_HELP = "A time-travelling warehouse of token holders, the transfers between them, their clusters and labels."
_EPILOG = "Exit codes: " + " ".join(f"{code} {sentence}" for code, sentence in EXIT_CODES.items())

app = typer.Typer(
    name="holderlake",
    help=_HELP,
    epilog=_EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(keys.app, name="keys")
app.add_typer(cluster.app, name="cluster")
app.add_typer(lake.app, name="lake")
app.add_typer(store.app, name="store")


def main() -> None:
    """Run a command. An expected error is printed as one sentence, without a traceback, and sets the exit code."""
    logging.getLogger("stamina").addHandler(logging.NullHandler())  # a retry that helped is no news
    console.prepare_streams()
    try:
        app(standalone_mode=True)
    except Exception as error:
        if not isinstance(error, _expected_errors()):
            raise
        console.err.print(f"holderlake: {_sentence(error)}", style="red", soft_wrap=True)
        sys.exit(exit_code(error))


def _sentence(error: Exception) -> str:
    """Return an error as a sentence. The system's errors name the file and the reason, without their number."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def exit_code(error: Exception) -> ExitCode:
    """The exit code of an error. A plain ``ValueError`` is about the command's own options or arguments."""
    from holderlake.contract.times import InstantAhead
    from holderlake.errors import SomeFailed

    if isinstance(error, SomeFailed):
        return ExitCode.SOME_FAILED
    return ExitCode.WRONG_USAGE if type(error) in (ValueError, InstantAhead) else ExitCode.NOTHING_DONE


def _expected_errors() -> tuple[type[Exception], ...]:
    """The errors of all packages. They are imported here so that ``--help`` does not wait for them."""
    from holderlake.engine.errors import EngineError
    from holderlake.errors import RunFailed
    from holderlake.lake.lake import LakeError
    from holderlake.provider.errors import ProviderError
    from holderlake.service.database.errors import KeysError
    from holderlake.settings import SettingsError
    from holderlake.storage.sqlite import DatabaseError
    from holderlake.warehouse.warehouse import WarehouseError

    own = (DatabaseError, EngineError, KeysError, LakeError, ProviderError, RunFailed, SettingsError, WarehouseError)
    return (*own, OSError, ValueError)


@app.callback(help=_HELP, epilog=_EPILOG)
def _each_command(context: typer.Context) -> None:
    context.call_on_close(shared.close)  # what the command opened


@app.command()
def demo(json: Json = False) -> None:
    """The main job on the built-in sample world: several chains, tokens and pasts, through Dagster into DuckDB."""
    from pipelines.demo import run_demo

    run_demo(_workspace(_settings().without_provider()), as_json=json)


@app.command()
def ingest(
    chain: Chains = None,
    token: Tokens = None,
    at: Annotated[
        list[str] | None, typer.Option("--at", help="As-of instant, may be given again; the present one by default.")
    ] = None,
    refresh: Refresh = False,
    json: Json = False,
) -> None:
    """Fetches one partition of each chain through Dagster, now or as of past instants, and loads the warehouse."""
    from holderlake.backfill.instants import past_instants
    from pipelines.cli.ingest.outcome import Outcome
    from pipelines.runs import dagster_instance, fill, ingest_day, loads_once

    workspace = _workspace()
    instants = past_instants(at or ["now"])
    chains = chains_of(workspace, chain, token)
    token = tokens_of(chains, token)
    workspace.check()
    outcome = Outcome(workspace, chains, instants)
    workspace.on_result = outcome.note
    with dagster_instance(workspace.settings.dagster_home) as instance:
        if len({instant.date() for instant in instants}) > 1:
            outcome.run(lambda: fill(workspace, instance, chains, instants, token or (), refresh))
        else:
            for one, loading in loads_once(workspace, chains):
                with loading:
                    outcome.run(partial(ingest_day, workspace, instance, one, instants, token or (), refresh))
            workspace.warehouse.load(workspace.lake)
    outcome.conclude(json)


@app.command()
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
    """What a backfill will cost before it costs it, what is there already, when it can be paid for, what is cheaper."""
    from holderlake.backfill.instants import chosen_instants
    from holderlake.backfill.plan import make_plan
    from holderlake.backfill.report import plan_report

    workspace = _workspace()
    chosen = chosen_instants(start, end, every, instants)
    chains = chains_of(workspace, chain, token)
    token = tokens_of(chains, token)
    made = make_plan(workspace, workspace.provider_id, chains, chosen, token, tables=table, refresh=refresh)
    listed = instants.name if instants else None
    options = {"--from": [start], "--to": [end], "--every": [every], "--instants": [listed], "--chain": chain}
    plan_report(made, json, _backfill_command({**options, "--token": token, "--table": table}, refresh))


def _backfill_command(options: Mapping[str, Sequence[str | None] | None], refresh: bool) -> str:
    """The backfill of a plan, as it is typed."""
    given = [(name, value) for name, values in options.items() for value in values or () if value is not None]
    said = (f"{name} {shlex.quote('-' if value == '<stdin>' else value)}" for name, value in given)
    return " ".join(["holderlake backfill", *said, *(["--refresh"] if refresh else [])])


@app.command()
def backfill(  # noqa: PLR0913, PLR0917 - a command's options
    start: From = None,
    end: To = None,
    every: Every = None,
    instants: Instants = None,
    chain: Chains = None,
    token: Tokens = None,
    table: FilledTables = None,
    max_credits: Annotated[str | None, typer.Option(help="Stop before more than this is spent.")] = None,
    refresh: Refresh = False,
    parked: Annotated[bool, typer.Option("--parked", help="Go on with what ran out of credits, instead.")] = False,
    json: Json = False,
) -> None:
    """Carries the plan out in one run, newest first. Interrupted, it goes on where it stopped when started again."""
    from holderlake.backfill.instants import chosen_instants
    from pipelines.cli.ingest.backfill import carry_out, go_on

    settings = _settings()
    if max_credits is not None:
        settings = settings.with_run_ceiling(parse_credits(max_credits))
    workspace = _workspace(settings)
    if parked:
        options = {"--from": start, "--to": end, "--every": every, "--instants": instants}
        chosen_ones = {"--chain": chain, "--token": token, "--table": table, "--refresh": refresh}
        given = [name for name, value in {**options, **chosen_ones}.items() if value]
        if given:
            raise ValueError(f"--parked knows what it is for; leave out {', '.join(given)}")
        go_on(workspace, json)
        return
    chosen = chosen_instants(start, end, every, instants)
    chains = chains_of(workspace, chain, token)
    carry_out(workspace, chains, chosen, tokens_of(chains, token) or (), table or (), json, refresh)


@app.command("rebuild")
def rebuild_command(
    provider: Annotated[
        str | None, typer.Option(help="Whose answers, where the archive holds several providers'.")
    ] = None,
    partition: Annotated[
        list[str] | None,
        typer.Option("--partition", help="Only this partition: FAMILY/CHAIN/INSTANT; may be given again."),
    ] = None,
    damaged: Annotated[bool, typer.Option("--damaged", help="Only partitions with damaged files.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    json: Json = False,
) -> None:
    """Makes lake and warehouse again from the archived answers, at no cost. The old ones stay until it is done."""
    from holderlake.maintenance.rebuild import rebuild, survey
    from holderlake.maintenance.rebuild_report import report_rebuilt
    from holderlake.maintenance.repair import repair_command

    workspace = _reading()
    if partition or damaged:
        if provider is not None or (partition and damaged):
            raise ValueError("--partition and --damaged cannot be combined with each other or with --provider")
        repaired = repair_command(workspace, partition or (), dry_run, json)
        if not repaired.is_complete:
            raise typer.Exit(ExitCode.SOME_FAILED if repaired.repaired else ExitCode.NOTHING_DONE)
        return
    report = survey(workspace, provider) if dry_run else rebuild(workspace, provider)
    report_rebuilt(report, json, dry_run)
    if not report.is_whole:
        raise typer.Exit(ExitCode.SOME_FAILED if report.partitions else ExitCode.NOTHING_DONE)


@app.command("retry-failures")
def retry_failures(
    chain: Chains = None,
    family: Annotated[list[str] | None, typer.Option("--family", help="Only this family; may be given again.")] = None,
    code: Annotated[
        list[str] | None, typer.Option("--code", help="Only this code, final ones too; may be given again.")
    ] = None,
    refresh: Annotated[bool, typer.Option(help="Pay anew for answers that still can't be read.")] = False,
    json: Json = False,
) -> None:
    """Asks again for what failed. Paid answers that could not be read are read again first, at no cost."""
    from holderlake.maintenance.retry import failures, report_retried, retry

    workspace = _workspace()
    workspace.check()
    report = retry(workspace, failures(workspace, chain or (), family or (), code or ()), refresh)
    report_retried(report, json)
    left = len(report.failed) + len(report.left)
    if left:
        raise typer.Exit(ExitCode.SOME_FAILED if report.landed else ExitCode.NOTHING_DONE)


@app.command()
def archive(
    prune_older_than: Annotated[
        str | None, typer.Option(help="Remove answers older than this whose rows are in the lake: 180d.")
    ] = None,
    keep_failed: Annotated[
        bool, typer.Option("--keep-failed", help="Leave all answers of partitions with failures.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be removed, and remove nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Remove them: they can't be had back without paying.")] = False,
    json: Json = False,
) -> None:
    """What the archive of answers holds, and removing old ones: their partitions can't be rebuilt any more."""
    from holderlake.maintenance.prune import archive_report, prunable, prune, prune_report

    workspace = _reading()
    if prune_older_than is None:
        archive_report(workspace.archive, json)
        return
    found = prunable(workspace, parse_duration(prune_older_than), keep_failed)
    removing = yes and not dry_run
    if removing:
        prune(workspace.archive, found)
    prune_report(found, removing, json)
    if found.answers and not removing and not dry_run:
        raise ValueError("nothing was removed; add --yes to remove them")


@app.command()
def credits(
    by: Annotated[Literal["endpoint", "day", "run", "token"], typer.Option(help="What a line is.")] = "endpoint",
    json: Json = False,
) -> None:
    """The ledger: credits spent, reserved and left, and the renewal date."""
    from pipelines.cli.ingest.credits import credits_report

    credits_report(_reading(), by, json)


app.command("import")(import_files)
app.command("import-rpc")(import_rpc)
app.command("import-balances")(import_balances)
app.command()(labels)
app.command()(index)
app.command("negative-balances")(negative_balances)


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on; the settings' by default.")] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65_535, help="Port to listen on; the settings' by default.")
    ] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Serve the sample world instead of what was imported.")
    ] = False,
    processes: Annotated[
        int | None, typer.Option(min=1, max=1_024, help="Processes that answer; the settings' by default.")
    ] = None,
    log: Annotated[
        Literal["json", "text", "off"] | None,
        typer.Option(help="A line a request: json, text or off; the settings' by default."),
    ] = None,
) -> None:
    """Serves the /v0 API over the engine's store until it is stopped."""
    from holderlake.local.serve import serve as run_service

    settings = _settings().with_service(host=host, port=port, processes=processes, log=log)
    raise typer.Exit(run_service(settings, sample))


app.command()(keys.usage)


@app.command()
def sql(
    query: Annotated[str | None, typer.Argument(help="SQL; read from standard input where none is given.")] = None,
    files: Annotated[bool, typer.Option("--files", help="Let the query read files; it never writes any.")] = False,
    json: Json = False,
) -> None:
    """Asks the warehouse, read-only: no files, no other databases, no extensions."""
    answer = _reading().warehouse.read(query or sys.stdin.read(), files=files)
    if json:
        console.as_json(answer.to_pylist())
    else:
        console.arrow("", answer)


@app.command()
def tables(json: Json = False) -> None:
    """The warehouse's tables, views and macros: rows, and what each is for."""
    from pipelines.cli.ingest.credits import tables_report

    tables_report(_reading(), json)


@app.command("lake-views")
def lake_views() -> None:
    """Prints SQL that makes the warehouse's tables, views and macros over the lake's Parquet files, for any DuckDB.

    It reads every byte of the lake once, and names damaged files on standard error. The SQL leaves their partitions
    out.
    """
    from holderlake.lake.damage import damages
    from holderlake.warehouse.lake_views import script

    lake = _reading().lake
    damaged = [one for one in damages(lake, every_byte=True) if one.place]
    for one in damaged:
        console.err.print(f"Left out, because it is damaged: {one}", soft_wrap=True)
    if damaged:
        console.err.print("'holderlake rebuild --damaged' repairs damaged partitions at no cost", soft_wrap=True)
    sys.stdout.write(script(lake, damaged))


@app.command()
def explore(
    host: Annotated[str, typer.Option(help="Address to listen on; others than this machine's are open to all.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 takes a free one.")] = 8015,
    opening: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Serves a web page over the warehouse, read-only: maps through time, holders, clusters; stop with Ctrl-C."""
    from holderlake.explorer.server import serve as serve_page

    def say(text: str) -> None:
        console.err.print(text, soft_wrap=True)

    serve_page(_reading().warehouse, host, port, opening, say)


@app.command()
def ui(port: Annotated[int, typer.Option(help="Port to listen on, on this machine only.")] = 3000) -> None:
    """Opens Dagster's web UI and daemon on this home; stop with Ctrl-C."""
    from pipelines.runs import prepare_dagster_home

    prepare_dagster_home(_settings().dagster_home)
    workspace = Path(__file__).parents[2] / "workspace.yaml"
    dagster = str(Path(sys.executable).with_name("dagster"))
    where = ["--workspace", str(workspace), "--host", "127.0.0.1", "--port", str(port)]
    os.execv(dagster, [dagster, "dev", *where])  # noqa: S606 - replaces this process by Dagster's own command


@app.command()
def doctor(
    quiet: Annotated[bool, typer.Option("--quiet", help="Only what is wrong.")] = False, json: Json = False
) -> None:
    """Checks settings, provider, key, disk and versions, and says what to do."""
    from pipelines.doctor.doctor import examine

    if not examine(quiet, json):
        raise typer.Exit(ExitCode.SOME_FAILED)


for _command in (export, report, alerts):
    app.command()(_command)


if __name__ == "__main__":
    main()
