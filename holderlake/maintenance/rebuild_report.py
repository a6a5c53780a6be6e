"""Report of a rebuild: rebuilt and missing partitions."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from holderlake import console
from holderlake.units import counted


@dataclass(frozen=True)
class Missing:
    """An answer of a partition that is missing or damaged in the archive.

    ``digest`` is its name in the archive. ``kept``: the partition's rows were copied from the old lake instead.
    """

    partition: str
    endpoint: str
    digest: str
    kept: bool = False


@dataclass
class RebuildReport:
    """Result of a rebuild: numbers of rebuilt partitions, replayed commits, decoded answers, and rows by table.

    ``carried``: names of partitions copied from the old lake, because the archive has no record of them.
    ``damaged``: unreadable commit records, and damaged files of the old lake.
    ``unnamed``: number of archived answers that no commit used.
    Of the local engine's partitions, ``kept`` were copied and ``computed`` were computed again. ``uncomputed`` names
    those that have no rows now: the old lake lacks them, and the engine that computed them is not available.
    """

    partitions: int = 0
    commits: int = 0
    answers: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    carried: list[str] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    kept: int = 0
    computed: int = 0
    uncomputed: list[str] = field(default_factory=list)
    unnamed: int = 0
    seconds: float = 0.0

    @property
    def is_whole(self) -> bool:
        """True if nothing is missing, damaged or uncomputed."""
        return not self.missing and not self.damaged and not self.uncomputed

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return asdict(self) | {"whole": self.is_whole}


def report_rebuilt(report: RebuildReport, as_json: bool, dry_run: bool) -> None:
    """Print the report of a rebuild, or of one that would be made (``dry_run``)."""
    if as_json:
        console.as_json(report.as_json() | {"dry_run": dry_run})
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
    did = "Would rebuild" if dry_run else "Rebuilt"
    took = "" if dry_run else f", {report.seconds:.1f} s"
    console.out.print(
        f"{did} {counted(report.partitions, 'partition')} from {counted(report.commits, 'commit')} "
        f"and {counted(report.answers, 'answer')}: "
        f"no call, 0 credits{took}."
    )
