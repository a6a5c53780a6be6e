"""``holderlake upgrade``, ``backup``, ``restore`` and ``prune``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holderlake.cli import shared
from holderlake.cli.exit_codes import ExitCode
from holderlake.cli.shared import Json
from holderlake.units import counted

if TYPE_CHECKING:
    from holderlake.maintenance.upgrade import Step

Backups = Annotated[Path, typer.Argument(help="The folder of the backups, best on another disk.", metavar="FOLDER")]


def upgrade_command(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan without changing anything.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
    json: Json = False,
) -> None:
    """Bring a home of an earlier version to the formats of this one. It shows its plan first, and can be repeated."""
    from holderlake.dagster.history_steps import history_steps
    from holderlake.maintenance.upgrade import plan, plan_report, upgrade

    workspace = shared.reading()
    home = workspace.settings.home
    if not home.is_dir():
        raise ValueError(f"the folder {home} (HOLDERLAKE_HOME) does not exist: set HOLDERLAKE_HOME to your home")

    def dagster_steps() -> Iterator[Step]:
        return history_steps(workspace.settings.dagster_home)

    steps = plan(workspace, dagster_steps)
    if dry_run or not steps or not (json and yes):
        plan_report(steps, home, json, done=False)
    if dry_run or not steps:
        return
    if not yes and (json or not sys.stdin.isatty() or not typer.confirm("Upgrade now?")):
        raise ValueError("nothing was upgraded; add --yes to upgrade")
    plan_report(upgrade(workspace, dagster_steps), home, json, done=True)


def backup_command(
    folder: Backups,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read the existing backups and compare them with their checksums, instead.")
    ] = False,
    json: Json = False,
) -> None:
    """Copy the home into a folder, also while runs write to it. Files in the previous backup are not copied again."""
    from holderlake import console
    from holderlake.maintenance.backup.backup import backup, backup_report, verify_backups

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


def restore_command(
    folder: Backups,
    backup: Annotated[str | None, typer.Option("--backup", help="Name of the backup; default: the newest one.")] = None,
    json: Json = False,
) -> None:
    """Restore a backup into an empty home. Every file is compared with its checksum."""
    from holderlake.maintenance.backup.restore import restore, restore_report

    report = restore(shared.reading(), folder, backup)
    restore_report(report, json)
    if report.missing:
        raise typer.Exit(ExitCode.SOME_FAILED)


def prune_command(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the data without deleting them.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Delete them; they cannot be restored.")] = False,
    without_rebuild: Annotated[
        bool, typer.Option("--without-rebuild", help="Delete answers too, which 'holderlake rebuild' needs.")
    ] = False,
    json: Json = False,
) -> None:
    """Delete runs, failures and answers that are older than the ages in the section retention of the settings."""
    from holderlake import console
    from holderlake.dagster.history import expired_runs
    from holderlake.dagster.launch import dagster_instance, own_dagster_home
    from holderlake.maintenance.retention import delete_expired, expired, retention_report

    workspace = shared.reading()
    folder, age = workspace.settings.dagster_home, workspace.settings.retention.history
    if age is not None and own_dagster_home(folder):
        console.err.print(
            "Runs stay: DAGSTER_HOME may have other projects; the schedule retention deletes our own.", soft_wrap=True
        )
        age = None
    with dagster_instance(folder) as instance:
        expired_data = expired(workspace)
        expired_data += expired_runs(instance, folder, age)
        if not (yes and json) or not expired_data:
            retention_report(expired_data, None, json)
        if dry_run or not expired_data:
            return
        if not yes:
            raise ValueError("nothing was deleted; add --yes to delete")
        result = delete_expired(expired_data, without_rebuild=without_rebuild)
    retention_report(expired_data, result, json)
    if result.kept:
        raise typer.Exit(ExitCode.SOME_FAILED)
