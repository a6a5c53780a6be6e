"""What a rebuild of the lake made again, and what it could not: the report, and how it is printed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from holderlake import console


@dataclass(frozen=True)
class Missing:
    """An answer that a partition was made of and that is not there, or damaged. ``kept``: the partition is in the lake
    as it was before, for the old lake had it."""

    partition: str
    endpoint: str
    digest: str
    kept: bool = False


@dataclass
class Rebuilt:
    """What was made again: partitions, commits replayed, answers read, rows by table.

    ``carried`` names partitions that are older than the journal (or whose answers are gone) and were taken over from
    the old lake as they were; ``damaged`` names files of the journal and the old lake that can't be read; ``unnamed``
    counts answers that no commit was made of. Of partitions that a local engine told of, ``kept`` counts those
    that were taken over as they were, ``computed`` those that the old lake lacked and the engine told again;
    ``uncomputed`` names those that it lacked while that engine is not at hand.
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
        """Whether all that was ever committed could be made again."""
        return not self.missing and not self.damaged and not self.uncomputed

    def as_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return asdict(self) | {"whole": self.is_whole}


def report_rebuilt(report: Rebuilt, as_json: bool, dry_run: bool) -> None:
    """Prints what was done, or with ``dry_run`` what would be."""
    if as_json:
        console.as_json(report.as_json() | {"dry_run": dry_run})
        return
    if report.rows:
        console.rows("Made again from the archive", ("table", "rows"), report.rows.items())
    if report.kept:
        console.out.print(
            f"{report.kept:,} partitions of the local engine are taken over from the old lake as they are."
        )
    if report.computed:
        console.out.print(
            f"{report.computed:,} that it lacks are computed anew by the local engine, as of the same instants."
        )
    if report.uncomputed:
        console.err.print(
            f"{len(report.uncomputed):,} partitions that it lacks were computed by a local engine that is not at hand "
            f"({report.uncomputed[0]}, …): their rows are left out. Set [provider] as it was then, direct = true.",
            soft_wrap=True,
        )
    for name in report.carried:
        console.out.print(f"Taken over from the old lake as it is, for the journal does not tell of it: {name}")
    for one in report.missing:
        fate = "the old lake's rows stay" if one.kept else "it lacks these rows"
        console.err.print(f"Not in the archive: {one.endpoint} answer {one.digest} of {one.partition}; {fate}")
    for name in report.damaged:
        console.err.print(f"Damaged, and what only it holds is left out: {name}", soft_wrap=True)
    if report.unnamed:
        console.out.print(f"{report.unnamed:,} answers belong to no commit of the journal; they stay in the archive.")
    did = "Would make" if dry_run else "Made"
    took = "" if dry_run else f", {report.seconds:.1f} s"
    console.out.print(
        f"{did} {report.partitions:,} partitions again from {report.commits:,} commits and {report.answers:,} answers: "
        f"no call, 0 credits{took}."
    )
