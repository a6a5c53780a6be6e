"""Result of a command that fetches: committed rows, failures, and the error that sets the exit code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from holderlake import console
from holderlake.backfill.scope import streams_of
from holderlake.contract.chains import from_first_day
from holderlake.contract.prices import credits_text
from holderlake.contract.tables import TABLES
from holderlake.contract.times import utc_now
from holderlake.errors import RunCancelled, RunFailed, SomeFailed
from holderlake.ingest.partition import FINAL_FAILURES
from holderlake.ingest.stream import PartitionResult, Stream
from holderlake.ingest.streams.all import STREAMS
from holderlake.lake.lake import FAILURES
from holderlake.units import counted
from holderlake.workspace import Workspace


@dataclass(frozen=True)
class Stored:
    """Contents of some partitions in the lake.

    ``partitions`` is the number of partitions with answers, and ``new`` is how many of them this command wrote.
    ``rows`` are row counts by table. ``failures`` has one dictionary for each error code: ``code``, number of
    ``requests``, and the ``reason`` of the first failure.
    """

    partitions: int
    new: int
    rows: dict[str, int]
    failures: list[dict[str, Any]]


def stored_rows(
    workspace: Workspace,
    chains: Sequence[str],
    instants: Sequence[datetime],
    streams: Sequence[Stream],
    since: datetime,
) -> Stored:
    """Return the contents of the lake for these streams, chains and instants.

    Partitions that were written at or after ``since`` count as new.
    """
    wanted = {(stream.name, chain, instant) for stream in streams for chain in chains for instant in instants}
    held = [one for one in workspace.lake.manifests() if (one.family, one.chain, one.as_of) in wanted]
    rows = dict.fromkeys((table for stream in streams for table in stream.tables), 0)
    kinds: dict[str, dict[str, Any]] = {}
    for manifest in held:
        for name in rows.keys() & manifest.tables.keys():
            rows[name] += manifest.tables[name].rows
        for row in workspace.lake.rows(manifest, FAILURES).to_pylist() if manifest.failures else ():
            kind = kinds.setdefault(row["code"], {"code": row["code"], "requests": 0, "reason": row["reason"]})
            kind["requests"] += 1
    new = sum(one.written_at >= since and bool(one.covered) for one in held)
    return Stored(sum(bool(one.covered) for one in held), new, rows, list(kinds.values()))


def report_stored(
    found: Stored,
    chains: Sequence[str],
    instants: Sequence[datetime],
    spent: int,
    skipped_families: Mapping[str, str],
    as_json: bool,
) -> None:
    """Print rows by table, tables that the key's plan excludes, failures by code, and the credits spent this month.

    ``spent`` is in hundredths of a credit. ``skipped_families`` has the provider's reason by family of tables.
    """
    tables = {stream.name: stream.tables for stream in STREAMS}
    skipped = {table: reason for name, reason in skipped_families.items() for table in tables[name]}
    if as_json:
        plain = {"partitions": found.partitions, "rows": found.rows, "skipped": skipped, "failures": found.failures}
        console.as_json(plain | {"credits_spent_hundredths": spent})
        return
    console.rows(
        f"In the lake: {counted(len(chains), 'chain')}, {counted(len(instants), 'instant')}",
        ("table", "rows", "a row is"),
        ((name, count, TABLES[name].row) for name, count in found.rows.items()),
    )
    if skipped:
        console.rows("Skipped", ("table", "the reason"), skipped.items())
    if found.failures:
        console.rows(
            "Failed requests and unreadable answers",
            ("code", "requests", "first reason"),
            (list(kind.values()) for kind in found.failures),
        )
    console.out.print(f"Credits spent this month: {credits_text(spent)}")


@dataclass
class Outcome:
    """The errors of a command's runs, and the families of tables that the key's plan excludes.

    The provider's reason is given for each family.
    """

    workspace: Workspace
    chains: Sequence[str]
    instants: Sequence[datetime]
    tables: Sequence[str] = ()
    began: datetime = field(default_factory=utc_now)
    errors: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    is_cancelled: bool = False

    def run(self, work: Callable[[], None]) -> None:
        """Call ``work``, which does one run, and keep its error for ``conclude``. Do nothing if a run was cancelled."""
        if self.is_cancelled:
            return
        try:
            work()
        except RunFailed as error:
            self.errors.append(str(error))
            self.is_cancelled = isinstance(error, RunCancelled)

    def add(self, one: PartitionResult) -> None:
        """Record a finished partition."""
        if one.skipped:
            self.skipped[one.family] = one.skipped

    def conclude(self, as_json: bool) -> None:
        """Print the committed rows. Raises ``SomeFailed`` or ``RunFailed`` if partitions or requests failed."""
        streams = streams_of(self.tables, self.workspace.settings)
        found = stored_rows(self.workspace, self.chains, self.instants, streams, self.began)
        skipped = self.skipped | self.workspace.skipped
        report_stored(found, self.chains, self.instants, self.workspace.ledger.totals().spent, skipped, as_json)
        partitions = sum(len(from_first_day(chain, self.instants)) for chain in self.chains)
        self._raise_failures(found, partitions * len(streams))

    def _raise_failures(self, found: Stored, wanted: int) -> None:
        failed = sum(one["requests"] for one in found.failures if one["code"] not in FINAL_FAILURES)
        where = "holderlake sql \"FROM failures\" lists them, 'holderlake retry-failures' requests them again"
        if self.errors:
            errors = " ".join(dict.fromkeys(self.errors))
            if not found.new:
                raise RunFailed(errors)
            raise SomeFailed(f"{found.partitions:,} of {wanted:,} partitions are in the lake. {errors}")
        if not sum(found.rows.values()):
            raise RunFailed(f"no rows were committed: {_reasons(found, self.skipped) or 'no answer has rows'}")
        if failed:
            raise SomeFailed(f"{counted(failed, 'request')} failed; {where}")


def _reasons(found: Stored, skipped: dict[str, str]) -> str:
    failures: list[Any] = [f"{one['requests']:,} times {one['code']}: {one['reason']}" for one in found.failures]
    return "; ".join([*failures, *skipped.values()])
