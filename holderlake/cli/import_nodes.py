"""``holderlake import node`` and ``import portal``: import transfers with a progress bar, and print a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holderlake.core.contract.times import from_unix
from holderlake.core.settings import Settings
from holderlake.core.signals import until_stopped
from holderlake.core.units import counted
from holderlake.core.workspace import Workspace
from holderlake.operations.follow.follow import Callbacks, follow
from holderlake.presentation import console
from holderlake.sources.nodes.connection import ImportOptions
from holderlake.sources.nodes.imports import import_from_nodes
from holderlake.sources.rpc.run import NodeReport


def import_blocks(settings: Settings, urls: Sequence[str], import_options: ImportOptions, as_json: bool) -> None:
    """Import transfers from nodes into the user's own store, and print a report. Raises as ``import_from_nodes``."""
    with console.progress("importing", 0) as bar:

        def on_progress(report: NodeReport, blocks: int) -> None:
            note = f"blocks, {report.logs:,} logs, {report.logs / max(report.seconds, 0.001):,.0f}/s"
            bar.update(bar.task_ids[0], total=blocks, completed=report.blocks, note=note)

        report = import_from_nodes(settings, urls, import_options, on_progress)
    if as_json:
        console.as_json(report.plain())
    else:
        _print_report(report)


def follow_nodes(workspace: Workspace, urls: Sequence[str], import_options: ImportOptions, as_json: bool) -> None:
    """Import transfers as soon as the nodes have new blocks, until SIGTERM or Ctrl-C, and print a line for each import.

    Failures that a retry may solve are printed. Raises the errors of ``follow``.
    """

    def on_report(report: NodeReport) -> None:
        if as_json:
            console.as_json(report.plain(), one_line=True)
        elif report.added or report.removed:
            undone = f", {report.removed:,} undone by a reorganisation" if report.removed else ""
            console.out.print(f"block {report.last_block:,}: {counted(report.added, 'row')}{undone}")

    def on_failure(error: Exception, pause: float | None) -> None:
        next_step = (
            "alerts are evaluated again at the next block" if pause is None else f"trying again in {pause:.0f} s"
        )
        console.err.print(f"{error}; {next_step}", soft_wrap=True)

    with until_stopped():
        follow(workspace, urls, import_options, Callbacks(on_report, on_failure=on_failure))


def _print_report(report: NodeReport) -> None:
    columns = ("chain", "blocks", "to block", "logs", "rows added", "rows removed", "requests", "seconds")
    counts = (report.blocks, report.last_block, report.logs, report.added, report.removed, report.requests)
    console.rows("Imported", columns, [(report.chain, *counts, round(report.seconds, 1))])
    if report.balances_read:
        console.rows(
            "Balances read",
            ("token", "block", "time", "holders", "corrected", "no answer"),
            (
                (read.token, read.block, from_unix(read.second), read.holders, read.corrected, read.unread)
                for read in report.balances_read
            ),
        )
    for sentence in _sentences(report):
        console.err.print(sentence, soft_wrap=True)


def _sentences(report: NodeReport) -> Iterator[str]:
    for reading in report.balances_read:
        if (reading.unlisted or 0) > 0:
            yield (
                f"{reading.unlisted:,} of the supply of {reading.token} at block {reading.block:,} is not held by any "
                "address with a transfer."
            )
    if report.reorgs:
        yield (
            f"The chain was reorganised: {counted(report.removed, 'row')} from block "
            f"{(report.undone_after or 0) + 1:,} on removed, and the node's rows were read again. Import files "
            "that have rows of these blocks again."
        )
    if report.conflicts:
        conflicts = counted(report.conflicts, "row", "differs")
        yield f"{conflicts} from a stored row with the same key; the stored ones were kept."
    if report.passed_over:
        yield f"Skipped {counted(report.passed_over, 'event')} that resemble transfers but are none."
    yield from report.notices
    yield from (f"An endpoint was not used: {reason}" for reason in report.rejected)
    if report.values_from == "receipts":
        yield "The node has no traces: transfers of the chain's coin by contracts are missing."
