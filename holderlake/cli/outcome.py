"""Result of a command that fetches: committed rows, failures, and the error that sets the exit code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from holderlake.assets import STREAMS
from holderlake.cli import shared
from holderlake.core.archive.provenance import UNREADABLE
from holderlake.core.contract.chains import from_first_day
from holderlake.core.contract.prices import credits_text
from holderlake.core.contract.tables import TABLES
from holderlake.core.contract.times import utc_now
from holderlake.core.ingest.partition import FINAL_FAILURES
from holderlake.core.ingest.stream import LeftOut, PartitionResult, Stream
from holderlake.core.lake.lake import FAILURES
from holderlake.core.provider.errors import PAY_AGAIN
from holderlake.core.units import counted
from holderlake.core.workspace import Workspace
from holderlake.errors import RunCancelled, RunFailed, SomeFailed
from holderlake.operations.backfill.scope import streams_of
from holderlake.presentation import console


@dataclass(frozen=True)
class _Stored:
    """The partitions with answers, those that the command wrote, their rows by table, and failures by error code."""

    partitions: int
    new_partitions: int
    rows: dict[str, int]
    failures: list[dict[str, Any]]


@dataclass
class Outcome:
    """The errors of a command's runs, and by family of tables the reason why it is not fetched (``skipped``)."""

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
            with self.workspace.observed(self._add):
                work()
        except RunFailed as error:
            self.errors.append(str(error))
            self.is_cancelled = isinstance(error, RunCancelled)

    def _add(self, event: object) -> None:
        """Record a stream that is not fetched."""
        if isinstance(event, PartitionResult) and event.skipped:
            self.skipped[event.family] = event.skipped
        elif isinstance(event, LeftOut):
            self.skipped[event.family] = event.reason

    def conclude(self, as_json: bool) -> None:
        """Print the committed rows. Raises ``SomeFailed`` or ``RunFailed`` if partitions or requests failed."""
        streams = streams_of(self.tables, self.workspace.settings)
        contents = self._stored(streams)
        self._report(contents, as_json)
        partitions = sum(len(from_first_day(chain, self.instants)) for chain in self.chains)
        self._raise_failures(contents, partitions * len(streams))
        if not as_json:
            shared.say_next(shared.EXPLORE, "the maps in the browser")

    def _stored(self, streams: Sequence[Stream]) -> _Stored:
        """Return the contents of the lake for the streams. Partitions written since the command began are new."""
        keys = {
            (stream.name, chain, instant) for stream in streams for chain in self.chains for instant in self.instants
        }
        lake = self.workspace.lake
        manifests = [part for part in lake.manifests() if (part.family, part.chain, part.as_of) in keys]
        rows = dict.fromkeys((table for stream in streams for table in stream.tables), 0)
        kinds: dict[str, dict[str, Any]] = {}
        for manifest in manifests:
            for name in rows.keys() & manifest.tables.keys():
                rows[name] += manifest.tables[name].rows
            for row in lake.rows(manifest, FAILURES).to_pylist() if manifest.failures else ():
                kind = kinds.setdefault(row["code"], {"code": row["code"], "requests": 0, "reason": row["reason"]})
                kind["requests"] += 1
        with_answers = [manifest for manifest in manifests if manifest.covered]
        new_count = sum(manifest.written_at >= self.began for manifest in with_answers)
        return _Stored(len(with_answers), new_count, rows, list(kinds.values()))

    def _report(self, contents: _Stored, as_json: bool) -> None:
        """Print rows by table, tables that the key's plan excludes, failures by code, and the month's credits."""
        tables, spent = {stream.name: stream.tables for stream in STREAMS}, self.workspace.ledger.totals().spent
        skipped = {table: reason for name, reason in self.skipped.items() for table in tables[name]}
        if as_json:
            plain = {name: getattr(contents, name) for name in ("partitions", "rows", "failures")}
            console.as_json(plain | {"skipped": skipped, "credits_spent_hundredths": spent})
            return
        console.rows(
            f"In the lake: {counted(len(self.chains), 'chain')}, {counted(len(self.instants), 'instant')}",
            ("table", "rows", "a row is"),
            ((name, count, TABLES[name].row) for name, count in contents.rows.items()),
        )
        if skipped:
            console.rows("Skipped", ("table", "the reason"), skipped.items())
        if contents.failures:
            console.rows(
                "Failed requests and unreadable answers",
                ("code", "requests", "first reason"),
                (list(kind.values()) for kind in contents.failures),
            )
        console.out.print(f"Credits spent this month: {credits_text(spent)}")

    def _raise_failures(self, contents: _Stored, partition_count: int) -> None:
        failed = sum(failure["requests"] for failure in contents.failures if failure["code"] not in FINAL_FAILURES)
        hint = "holderlake sql \"FROM failures\" lists them, 'holderlake retry-failures' requests them again"
        if any(failure["code"] == UNREADABLE for failure in contents.failures):
            hint += f"; for a paid answer that cannot be read, {PAY_AGAIN}"
        if self.errors:
            errors = " ".join(dict.fromkeys(self.errors))
            if not contents.new_partitions:
                raise RunFailed(errors)
            raise SomeFailed(
                f"the lake has {contents.partitions:,} of {counted(partition_count, 'partition')}. {errors}"
            )
        if not sum(contents.rows.values()):
            raise RunFailed(f"no rows were committed: {_reasons(contents, self.skipped) or 'no answer has rows'}")
        if failed:
            raise SomeFailed(f"{counted(failed, 'request')} failed; {hint}")


def _reasons(contents: _Stored, skipped: dict[str, str]) -> str:
    failures: list[Any] = [
        f"{counted(failure['requests'], 'time')} {failure['code']}: {failure['reason']}"
        for failure in contents.failures
    ]
    return "; ".join([*failures, *skipped.values()])
