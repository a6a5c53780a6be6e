"""How a command that fetches ends: what landed, what failed and where to look, as a report and an exit code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from holderlake.backfill.scope import streams_of
from holderlake.contract.chains import from_first_day
from holderlake.contract.times import utc_now
from holderlake.errors import RunCancelled, RunFailed, SomeFailed
from holderlake.ingest.partition import FINAL_FAILURES
from holderlake.ingest.stream import PartitionResult
from holderlake.workspace import Workspace
from pipelines.cli.ingest.credits import InLake, in_lake, landed_report


@dataclass
class Outcome:
    """What became of a command's runs: their errors, and the families that the key's plan excludes."""

    workspace: Workspace
    chains: Sequence[str]
    instants: Sequence[datetime]
    tables: Sequence[str] = ()
    began: datetime = field(default_factory=utc_now)
    errors: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    is_cancelled: bool = False

    def run(self, work: Callable[[], None]) -> None:
        """Do one run. Its error is reported at the end, after the other runs; a cancelled run is the last."""
        if self.is_cancelled:
            return
        try:
            work()
        except RunFailed as error:
            self.errors.append(str(error))
            self.is_cancelled = isinstance(error, RunCancelled)

    def note(self, one: PartitionResult) -> None:
        """Take a finished partition into account."""
        if one.skipped:
            self.skipped[one.family] = one.skipped

    def conclude(self, as_json: bool) -> None:
        """Report what landed. Raises ``SomeFailed`` or ``RunFailed`` if it is not all that was wanted."""
        streams = streams_of(self.tables, self.workspace.settings)
        found = in_lake(self.workspace, self.chains, self.instants, streams, self.began)
        skipped = self.skipped | self.workspace.skipped
        landed_report(found, self.chains, self.instants, self.workspace.ledger.totals().spent, skipped, as_json)
        partitions = sum(len(from_first_day(chain, self.instants)) for chain in self.chains)
        self._raise_failures(found, partitions * len(streams))

    def _raise_failures(self, found: InLake, wanted: int) -> None:
        failed = sum(one["requests"] for one in found.failures if one["code"] not in FINAL_FAILURES)
        where = "holderlake sql \"FROM failures\" lists them, 'holderlake retry-failures' requests them again"
        if self.errors:
            said = " ".join(dict.fromkeys(self.errors))
            if not found.new:
                raise RunFailed(said)
            raise SomeFailed(f"{found.partitions:,} of {wanted:,} partitions are in the lake. {said}")
        if not sum(found.rows.values()):
            raise RunFailed(f"nothing landed: {_reasons(found, self.skipped) or 'no answer has rows'}")
        if failed:
            raise SomeFailed(f"{failed:,} requests failed; {where}")


def _reasons(found: InLake, skipped: dict[str, str]) -> str:
    failures: list[Any] = [f"{one['requests']:,} times {one['code']}: {one['reason']}" for one in found.failures]
    return "; ".join([*failures, *skipped.values()])
