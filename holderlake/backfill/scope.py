"""The families that a plan and a backfill cover: those of the wanted tables that the key's plan includes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holderlake.ingest.stream import Stream
from holderlake.provider.plan_limits import PlanLimit
from holderlake.workspace import Workspace


@dataclass(frozen=True)
class LeftOut:
    """A family that the key's plan does not include, with the provider's reason and when it was given (UTC)."""

    family: str
    tables: tuple[str, ...]
    reason: str
    since: datetime
    until: datetime

    def as_json(self) -> dict[str, Any]:
        """The family as plain data."""
        times = {"since": f"{self.since.isoformat()}Z", "until": f"{self.until.isoformat()}Z"}
        return {"family": self.family, "tables": list(self.tables), "reason": self.reason, **times}

    def __str__(self) -> str:
        return (
            f"Left out: {', '.join(self.tables)}. The key's plan does not include it: {self.reason} "
            f"({self.since:%Y-%m-%d}). The next 'holderlake ingest' asks again, plans from {self.until:%Y-%m-%d} on."
        )


def within_plan(workspace: Workspace, streams: Sequence[Stream]) -> tuple[tuple[Stream, ...], tuple[LeftOut, ...]]:
    """Return the families that the key's plan includes as far as is known, and those that it does not.

    Raises ``SettingsError`` where no provider is configured.
    """
    with closing(workspace.plan_limits()) as known:
        limits = known.limits
    kept = tuple(stream for stream in streams if stream.endpoint not in limits)
    left_out = tuple(_left_out(stream, limits[stream.endpoint]) for stream in streams if stream not in kept)
    return kept, left_out


def _left_out(stream: Stream, limit: PlanLimit) -> LeftOut:
    return LeftOut(stream.name, stream.tables, limit.reason, limit.at, limit.until)
