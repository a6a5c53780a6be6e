"""``holderlake rebuild``, ``retry-failures`` and ``archive``."""

from __future__ import annotations

from typing import Annotated

import typer

from holderlake import console
from holderlake.cli import shared
from holderlake.cli.exit_codes import ExitCode
from holderlake.cli.shared import Chains, Json
from holderlake.units import parse_duration


def rebuild_command(
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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the changes without making them.")] = False,
    json: Json = False,
) -> None:
    """Rebuild lake and warehouse from the archived answers, at no cost. The old ones stay until it is done."""
    from holderlake.doctor.file_checks import set_databases_aside
    from holderlake.maintenance.rebuild import rebuild, report_rebuilt, survey
    from holderlake.maintenance.repair import repair_command

    workspace = shared.reading()
    if partition or damaged:
        if provider is not None or (partition and damaged):
            raise ValueError("--partition, --damaged and --provider cannot be combined: give one of them")
        for message in set_databases_aside(workspace) if damaged and not dry_run else ():
            console.err.print(message, soft_wrap=True)
        repaired = repair_command(workspace, partition or (), dry_run, json)
        if not repaired.is_complete:
            raise typer.Exit(ExitCode.SOME_FAILED if repaired.repaired else ExitCode.NOTHING_DONE)
        return
    report = survey(workspace, provider) if dry_run else rebuild(workspace, provider)
    report_rebuilt(report, json, dry_run)
    if not report.is_whole:
        raise typer.Exit(ExitCode.SOME_FAILED if report.partitions else ExitCode.NOTHING_DONE)


def retry_failures(
    chain: Chains = None,
    family: Annotated[list[str] | None, typer.Option("--family", help="Only this family; may be given again.")] = None,
    code: Annotated[
        list[str] | None, typer.Option("--code", help="Only this code, final ones too; may be given again.")
    ] = None,
    refresh: Annotated[bool, typer.Option(help="Pay again for answers that still cannot be read.")] = False,
    json: Json = False,
) -> None:
    """Repeat failed requests. Paid answers that could not be read are decoded again first, at no cost."""
    from holderlake.maintenance.retry import failures, report_retried, retry

    workspace = shared.workspace()
    workspace.check()
    report = retry(workspace, failures(workspace, chain or (), family or (), code or ()), refresh)
    report_retried(report, json)
    if report.failed or report.left:
        raise typer.Exit(ExitCode.SOME_FAILED if report.landed else ExitCode.NOTHING_DONE)


def archive(
    prune_older_than: Annotated[
        str | None, typer.Option(help="Remove answers older than this whose rows are in the lake: 180d.")
    ] = None,
    keep_failed: Annotated[
        bool, typer.Option("--keep-failed", help="Keep all answers of partitions with failures.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the answers without removing them.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Remove them. Fetching them again costs credits.")] = False,
    json: Json = False,
) -> None:
    """Show the archive of answers, or remove old ones. A partition without answers cannot be rebuilt."""
    from holderlake.maintenance.prune import archive_report, prunable, prune, prune_report

    workspace = shared.reading()
    if prune_older_than is None:
        archive_report(workspace.archive, json)
        return
    old_answers = prunable(workspace, parse_duration(prune_older_than), keep_failed)
    removing = yes and not dry_run
    if removing:
        prune(workspace.archive, old_answers)
    prune_report(old_answers, removing, json)
    if old_answers.answers and not removing and not dry_run:
        raise ValueError(f"{len(old_answers.answers):,} answers were not removed; add --yes to remove them")
