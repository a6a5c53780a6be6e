"""Print what commands did to a home (backups, rebuilds, repairs, retries, deletions): tables and sentences, or JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from holderlake.core.contract.prices import credits_text
from holderlake.core.provider.errors import PAY_AGAIN
from holderlake.core.units import counted
from holderlake.presentation import console

if TYPE_CHECKING:
    from holderlake.core.workspace import Workspace
    from holderlake.operations.maintenance.backup.backup import BackupReport
    from holderlake.operations.maintenance.backup.restore import RestoreReport
    from holderlake.operations.maintenance.move_to_bucket import MovedHome
    from holderlake.operations.maintenance.rebuild_lake import RebuildReport
    from holderlake.operations.maintenance.repair_partitions import Repaired
    from holderlake.operations.maintenance.retention import Deleted, Expired
    from holderlake.operations.maintenance.retry_failures import Retried
    from holderlake.operations.maintenance.upgrade import Step


def rebuild_report(report: RebuildReport, as_json: bool) -> None:
    """Print the report of a rebuild."""
    if as_json:
        console.as_json(report.as_json())
        return
    if report.rows:
        console.rows("Rebuilt from the archive", ("table", "rows"), report.rows.items())
    if report.kept:
        console.out.print(f"Copied {counted(report.kept, 'partition')} of the local engine from the old lake.")
    if report.computed:
        console.out.print(f"Computed {report.computed:,} that the old lake lacks again, as of the same instants.")
    if report.uncomputed:
        console.err.print(
            f"The rows of {counted(len(report.uncomputed), 'partition')} are missing ({report.uncomputed[0]}, …): "
            "the old lake "
            "lacks them, and the local engine that computed them is not available. Restore the [provider] settings of "
            "that engine, with direct = true, and rebuild again.",
            soft_wrap=True,
        )
    for name in report.carried:
        console.out.print(f"Copied from the old lake, because the archive has no commit record of it: {name}")
    for answer in report.missing:
        fate = "the old lake's rows are kept" if answer.kept else "its rows are missing"
        console.err.print(f"Not in the archive: {answer.endpoint} answer {answer.digest} of {answer.partition}; {fate}")
    for name in report.damaged:
        console.err.print(f"Damaged, so the rebuild left it out: {name}", soft_wrap=True)
    if report.unnamed:
        console.out.print(f"{report.unnamed:,} answers belong to no commit; they stay in the archive.")
    console.out.print(
        f"Rebuilt {counted(report.partitions, 'partition')} from {counted(report.commits, 'commit')} "
        f"and {counted(report.answers, 'answer')}: no call, 0 credits, {report.seconds:.1f} s."
    )


def repair_report(report: Repaired, as_json: bool) -> None:
    """Print the damage and the repaired partitions."""
    if as_json:
        console.as_json({**vars(report), "found": [str(damage) for damage in report.found]})
        return
    for damage in report.found:
        console.err.print(str(damage), soft_wrap=True)
    for name, reason in report.failed.items():
        console.err.print(f"Not repaired: {name}: {reason}", soft_wrap=True)
    for reason in report.incomplete:
        console.err.print(f"Repaired with missing rows, because the archive lacks an answer: {reason}", soft_wrap=True)
    for reason in report.still_damaged:
        console.err.print(f"Not repaired: {reason}", soft_wrap=True)
    files = f", {counted(len(report.warehouse), 'warehouse file')} made again" if report.warehouse else ""
    console.out.print(
        f"{counted(len(report.repaired), 'partition')} repaired from the archive{files}: no call, 0 credits."
    )


def retry_report(report: Retried, as_json: bool) -> None:
    """Print the number of subjects that succeeded, and the subjects that failed again with the reason."""
    if as_json:
        console.as_json(report.as_json())
        return
    columns = ("family", "chain", "as of", "subject", "code", "reason")
    for title, listed_failures in (
        ("Failed again", report.failed),
        (f"Not retried, because the paid answer is unreadable; {PAY_AGAIN}", report.left),
    ):
        if listed_failures:
            console.rows(title, columns, ((*failure.name, failure.code, failure.reason) for failure in listed_failures))
    by_code = Counter(failure.code for failure in report.landed)
    codes = ", ".join(f"{count:,} {code}" for code, count in sorted(by_code.items())) or "none"
    console.out.print(
        f"Retried {counted(len(report.retried), 'failure')}: {len(report.landed):,} succeeded "
        f"({codes}), {len(report.failed):,} "
        f"failed again. {report.reread:,} were decoded again from the archive; {counted(report.calls, 'call')}, "
        f"{credits_text(report.credits)} credits."
    )


def retention_report(expired_data: Sequence[Expired], result: Deleted | None, as_json: bool) -> None:
    """Print ``expired_data`` and their loss, or after a deletion its ``result``."""
    kept_kinds = [data.kind for data in result.kept] if result else []
    if as_json:
        plain = [{name: value for name, value in vars(data).items() if name != "delete"} for data in expired_data]
        console.as_json(
            {"found": plain, "deleted": [data.kind for data in result.deleted] if result else [], "kept": kept_kinds}
        )
        return
    if not expired_data:
        console.out.print("Nothing is old enough to delete; [retention] in holderlake.toml has the ages.", markup=False)
        return
    if result is None:
        lines = [(data.kind, data.what, data.count, data.bytes, data.lost) for data in expired_data]
        console.rows("Old enough to delete", ("kind", "what", "count", "bytes", "what is lost"), lines)
        return
    for data in result.deleted:
        console.out.print(f"Deleted {data.count:,} {data.what}, {data.bytes:,} bytes.")
    for data in result.kept:
        console.err.print(
            f"Kept {data.count:,} {data.what}: {data.lost}. --without-rebuild deletes them", soft_wrap=True
        )


def upgrade_report(steps: Sequence[Step], home: Path, as_json: bool, done: bool) -> None:
    """Print the steps, before or after they were taken (``done``)."""
    if as_json:
        console.as_json({"steps": [{"part": step.part, "what": step.what} for step in steps], "done": done})
        return
    if not steps:
        console.out.print(f"{home} has the formats of this version; there is nothing to upgrade.", soft_wrap=True)
        return
    lines = ((step.part, step.what) for step in steps)
    console.rows(f"{'Upgraded' if done else 'Upgrade of'} {home}", ("part", "step"), lines)
    if not done:
        console.out.print(
            "Stop the service, schedules and runs of this home first, and make a copy: "
            "'holderlake home backup FOLDER'.",
            soft_wrap=True,
        )


def backup_report(report: BackupReport, as_json: bool) -> None:
    """Print the result of a backup."""
    if as_json:
        console.as_json(asdict(report))
        return
    for problem in report.problems:
        console.err.print(f"Problem: {problem}", soft_wrap=True)
    for part in report.elsewhere:
        console.err.print(f"Not in this backup: {part}", soft_wrap=True)
    console.out.print(
        f"{report.folder}: {counted(report.files, 'file')}, {report.bytes / 1e6:,.1f} MB, of which "
        f"{report.copied_bytes / 1e6:,.1f} MB are new since the backup before, in {report.seconds} s",
        soft_wrap=True,
    )


def restore_report(report: RestoreReport, as_json: bool) -> None:
    """Print the result of a restore."""
    if as_json:
        console.as_json(asdict(report))
        return
    for problem in report.problems:
        console.err.print(f"Problem at the time of the backup: {problem}", soft_wrap=True)
    for part in report.missing:
        console.err.print(f"Missing: {part}", soft_wrap=True)
    console.out.print(
        f"{report.home}: {counted(report.files, 'file')}, {report.bytes / 1e6:,.1f} MB as of {report.taken_at} UTC, in "
        f"{report.seconds} s. Every file matches its checksum.",
        soft_wrap=True,
    )


def moved_report(report: MovedHome, workspace: Workspace, as_json: bool) -> None:
    """Print the result of a move to the bucket of the settings."""
    if as_json:
        console.as_json(vars(report))
        return
    for reason in report.refused:
        console.err.print(f"Not copied: {reason}", soft_wrap=True)
    console.out.print(
        f"Copied {counted(report.segments, 'segment')} of the archive and "
        f"{counted(report.partitions, 'partition')} to {workspace.lake.storage.name}. The folders "
        f"{workspace.settings.lake_folder} and {workspace.settings.archive} "
        "are not used any more."
    )
