"""Paused backfills: backfills that stopped for lack of credits, with the day on which they can resume.

Each one is a small JSON file in the home's folder ``paused``, or a row in the PostgreSQL that hosts share. ``holderlake
backfill --paused`` resumes them, and so does Dagster's sensor if the settings enable it. A resumed backfill does not
fetch its complete partitions again.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Final

import msgspec

from holderlake.core.contract.requests import ChainsRequest, Request
from holderlake.core.contract.times import parse_when
from holderlake.core.provider.errors import BudgetExceeded, CreditsExhausted, ProviderError, RateLimitPersists
from holderlake.core.settings import SettingsError
from holderlake.core.storage.documents import Documents
from holderlake.core.workspace import Workspace

COMMAND = "holderlake backfill --paused"
_PROBE_SECONDS: Final = 30.0


@dataclass(frozen=True)
class Selection:
    """The scope of a backfill, as four tuples of texts: as-of instants (ISO 8601), chains, token addresses and tables.

    An empty tuple of chains, tokens or tables means all of them.
    """

    instants: tuple[str, ...]
    chains: tuple[str, ...]
    tokens: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    refresh_since: str = field(default="", repr=False)
    """For ``--refresh``: its start (ISO). Partitions written since then are not refreshed again. Else empty."""

    @classmethod
    def of(
        cls,
        instants: Iterable[str],
        chains: Iterable[str],
        tokens: Iterable[str],
        tables: Iterable[str],
        refresh_since: str = "",
    ) -> Selection:
        """Return the selection of these values. It does not depend on their order, because they are sorted."""
        times = tuple(when.isoformat() for when in sorted({parse_when(when) for when in instants}))
        selected_values = [tuple(sorted(set(values))) for values in (chains, tokens, tables)]
        return cls(times, selected_values[0], selected_values[1], selected_values[2], refresh_since)

    @property
    def id(self) -> str:
        """The name of the backfill's file: a hash of the selection, so that equal selections are stored once."""
        return hashlib.sha256(f"{self!r}{self.refresh_since}".encode()).hexdigest()[:12]


@dataclass(frozen=True, kw_only=True)
class Pause:
    """The reason that work waits for credits: the text of the error that stopped it, and when it can resume.

    ``resume_on`` is the UTC day on which it can resume. It is None if another run can resume it immediately. ``since``
    is the time (naive UTC) at which it was paused.
    """

    reason: str
    resume_on: date | None
    asked: int | None = None
    """Cost (hundredths of a credit) of the call that exceeded a ceiling of the settings; None for another reason."""
    refused: int | None = None
    """Cost (hundredths of a credit) of the call that the provider refused for lack of credits; None for another
    reason."""
    since: datetime

    def has_credits_again(self, workspace: Workspace) -> bool:
        """Ask the provider whether the refused call can be paid again: see ``credits_again``."""
        return self.refused is not None and credits_again(workspace, self.refused)

    def is_due(self, workspace: Workspace) -> bool:
        """Return True if the work can resume: its day has come, or raised ceilings allow the refused call.

        ``has_credits_again`` asks the provider, too.
        """
        if self.resume_on is None or workspace.now().date() >= self.resume_on:
            return True
        room_left = [ceiling.left for ceiling in workspace.ledger.totals().ceilings if ceiling.name != "per_run"]
        return self.asked is not None and all(room is None or room >= self.asked for room in room_left)


@dataclass(frozen=True, kw_only=True)
class PausedBackfill(Pause):
    """A backfill that waits for credits. ``of`` is its scope."""

    of: Selection

    @property
    def advice(self) -> str:
        """A sentence that says when and how to resume."""
        when = "with another run" if self.resume_on is None else f"from {self.resume_on} on"
        return f"The rest is paused; resume it {when}: {COMMAND}"


def pause(workspace: Workspace, error: Exception, selection: Selection) -> PausedBackfill | None:
    """Store a backfill that ``error`` stopped, and return it.

    Returns None, and stores nothing, if the error is not about credits, a ceiling or the rate limit.
    """
    stopped = pause_after(workspace, error)
    if stopped is None:
        return None
    paused = PausedBackfill(of=selection, **vars(stopped))
    _documents(workspace).put(selection.id, msgspec.json.encode(paused))
    return paused


def pause_after(workspace: Workspace, error: Exception) -> Pause | None:
    """Return why and until when work waits that ``error`` stopped; None for other errors than those of ``pause``."""
    if not isinstance(error, BudgetExceeded | CreditsExhausted | RateLimitPersists):
        return None
    exceeding_cost = error.call_cost if isinstance(error, BudgetExceeded) else None
    is_refused = isinstance(error, CreditsExhausted) and isinstance(error.request, Request)
    return Pause(
        reason=str(error),
        resume_on=_resume_on(workspace, error),
        asked=exceeding_cost,
        refused=error.request.cost if is_refused else None,
        since=workspace.now(),
    )


def credits_again(workspace: Workspace, cost: int) -> bool:
    """Return whether the provider has credits for a call of ``cost`` hundredths of a credit, after a top-up.

    This sends one request, for the chains. It costs 0.01 credit, and nothing while there are no credits.
    """

    async def probe() -> None:
        async with workspace.provider("probe of credits") as provider:
            as_of = f"known {workspace.now():%Y-%m-%d}"
            await asyncio.wait_for(provider.fetch(ChainsRequest(), as_of, refresh=True), _PROBE_SECONDS)

    try:
        asyncio.run(probe())
    except (ProviderError, SettingsError, TimeoutError):
        return False
    totals = workspace.ledger.totals()
    return totals.credits_remaining is None or totals.credits_remaining >= cost


def paused_backfills(workspace: Workspace) -> list[PausedBackfill]:
    """Return all paused backfills: first those that can resume immediately, then sorted by the day on which they can
    resume."""
    backfills = [msgspec.json.decode(content, type=PausedBackfill) for content in _documents(workspace).all()]
    return sorted(backfills, key=lambda backfill: (backfill.resume_on or date.min, backfill.of.id))


def forget_paused(workspace: Workspace, selection: Selection) -> None:
    """Delete the record of a paused backfill, if there is one."""
    _documents(workspace).remove(selection.id)


def _resume_on(workspace: Workspace, error: BudgetExceeded | CreditsExhausted | RateLimitPersists) -> date | None:
    if isinstance(error, RateLimitPersists) or (isinstance(error, BudgetExceeded) and error.ceiling == "per_run"):
        return None
    if isinstance(error, BudgetExceeded) and error.ceiling == "per_day":
        return workspace.now().date() + timedelta(days=1)
    return workspace.ledger.totals().renewal


def _documents(workspace: Workspace) -> Documents:
    return Documents(workspace.state(workspace.settings.home / "paused"))
