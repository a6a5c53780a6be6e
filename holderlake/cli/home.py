"""``holderlake home``: backup, restore, upgrade and rebuild a home; show its metrics."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holderlake.cli import shared
from holderlake.cli.exit_codes import ExitCode
from holderlake.cli.shared import Host, Json, Port, Yes
from holderlake.core.units import counted
from holderlake.presentation import console

if TYPE_CHECKING:
    from holderlake.operations.maintenance.upgrade import Step

app = typer.Typer(help="Back up, restore, upgrade, rebuild and watch a home.", no_args_is_help=True)

Backups = Annotated[Path, typer.Argument(help="The folder of the backups, best on another disk.", metavar="FOLDER")]


@app.command("backup")
def backup_home(
    folder: Backups,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read the existing backups and compare them with their checksums, instead.")
    ] = False,
    json: Json = False,
) -> None:
    """Copy the home into a folder, also while runs write to it. Files in the previous backup are not copied again.

    Example: holderlake home backup /mnt/backups

    Example: holderlake home backup /mnt/backups --verify
    """
    from holderlake.cli.home_reports import backup_report
    from holderlake.operations.maintenance.backup.backup import backup, verify_backups

    if not verify:
        report = backup(shared.reading(), folder)
        backup_report(report, json)
        if report.problems:
            raise typer.Exit(ExitCode.SOME_FAILED)
        return
    damaged = verify_backups(folder)
    if json:
        console.as_json({"damaged": damaged})
    else:
        for path in damaged:
            console.err.print(f"Damaged or missing: {path}", soft_wrap=True)
        console.out.print(
            f"{counted(len(damaged), 'file', 'is')} damaged." if damaged else "Every file matches its checksum."
        )
    if damaged:
        raise typer.Exit(ExitCode.SOME_FAILED)


@app.command("restore")
def restore_home(
    folder: Backups,
    backup: Annotated[str | None, typer.Option("--backup", help="Name of the backup; default: the newest one.")] = None,
    json: Json = False,
) -> None:
    """Restore a backup into an empty home. Every file is compared with its checksum.

    Example: HOLDERLAKE_HOME=restored holderlake home restore /mnt/backups
    """
    from holderlake.cli.home_reports import restore_report
    from holderlake.operations.maintenance.backup.restore import restore

    report = restore(shared.reading(), folder, backup)
    restore_report(report, json)
    if report.missing:
        raise typer.Exit(ExitCode.SOME_FAILED)


@app.command("upgrade")
def upgrade_home(yes: Yes = False, json: Json = False) -> None:
    """Bring a home of an earlier version to the formats of this one. It can be repeated.

    Example: holderlake home upgrade --yes
    """
    from holderlake.cli.home_reports import upgrade_report
    from holderlake.operations.history.steps import history_steps
    from holderlake.operations.maintenance.upgrade import plan, upgrade

    workspace = shared.reading()
    home = workspace.settings.home
    if not home.is_dir():
        raise ValueError(f"the folder {home} (HOLDERLAKE_HOME) does not exist: set HOLDERLAKE_HOME to your home")

    def dagster_steps() -> Iterator[Step]:
        return history_steps(workspace.settings.dagster_home)

    steps = plan(workspace, dagster_steps)
    if not steps or not (json and yes):
        upgrade_report(steps, home, json, done=False)
    if not steps:
        return
    if not yes:
        shared.say_not_done("upgraded")
        return
    upgrade_report(upgrade(workspace, dagster_steps), home, json, done=True)


@app.command("rebuild")
def rebuild_home(
    provider: Annotated[
        str | None, typer.Option(help="The provider whose answers to use, if the archive holds several providers'.")
    ] = None,
    partition: Annotated[
        list[str] | None,
        typer.Option("--partition", help="Only this partition: FAMILY/CHAIN/INSTANT; may be given again."),
    ] = None,
    damaged: Annotated[
        bool, typer.Option("--damaged", help="Only what is damaged: partitions, databases, the warehouse.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --damaged: only name the damaged files.")] = False,
    json: Json = False,
) -> None:
    """Rebuild lake and warehouse from the archived answers, at no cost. The old ones stay until it is done.

    Example: holderlake home rebuild

    Example: holderlake home rebuild --damaged --dry-run
    """
    from holderlake.cli.home_reports import rebuild_report, repair_report
    from holderlake.operations.doctor.file_checks import set_databases_aside
    from holderlake.operations.maintenance.rebuild_lake import rebuild
    from holderlake.operations.maintenance.repair_partitions import Repaired, find_damage, repair_home

    workspace = shared.reading()
    if dry_run and not damaged:
        raise ValueError(
            "--dry-run needs --damaged: a complete rebuild is free, and keeps the old lake until it is done"
        )
    if partition or damaged:
        if provider is not None or (partition and damaged):
            raise ValueError("--partition, --damaged and --provider cannot be combined: give one of them")
        if dry_run:
            repaired = Repaired(find_damage(workspace.lake))
        else:
            for message in set_databases_aside(workspace) if damaged else ():
                console.err.print(message, soft_wrap=True)
            repaired = repair_home(workspace, partition or ())
        repair_report(repaired, json)
        if not repaired.is_complete:
            raise typer.Exit(ExitCode.SOME_FAILED if repaired.repaired else ExitCode.NOTHING_DONE)
        return
    report = rebuild(workspace, provider)
    rebuild_report(report, json)
    if not report.is_whole:
        raise typer.Exit(ExitCode.SOME_FAILED if report.partitions else ExitCode.NOTHING_DONE)


@app.command("metrics")
def serve_metrics(
    host: Host = "127.0.0.1",
    port: Port = 8016,
    once: Annotated[bool, typer.Option("--once", help="Print the metrics and end.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write the metrics to this file and end; for the node exporter.")
    ] = None,
) -> None:
    """Serve Prometheus metrics of lake, ledger and runs. Stop it with Ctrl-C.

    Port 0 takes a free port.

    Example: holderlake home metrics --host 0.0.0.0

    Example: holderlake home metrics --once
    """
    from holderlake.cli import metrics

    if once or out:
        metrics.print_metrics(shared.workspace(), out)
    else:
        metrics.serve_metrics(shared.workspace(), host, port, partial(console.err.print, soft_wrap=True))
