"""Instants that the schedule asked for, by chain: a JSON file in the folder ``schedule`` of the home, or in PostgreSQL.

Each tick of the schedule records its instants. So a later change of the times, or a new chain, does not make older
instants look missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, time, timedelta
from typing import Final

import msgspec

from holderlake.contract.chains import from_first_day
from holderlake.storage.documents import Documents
from holderlake.workspace import Workspace

_NAME: Final = "expected"


class Expected(msgspec.Struct, frozen=True):
    """The last recorded tick (``until``), and the instants of the last days by chain, oldest first. All naive UTC."""

    until: datetime
    instants: dict[str, list[datetime]]


def record_tick(workspace: Workspace, previous: datetime, tick: datetime) -> None:
    """Record the instants of a tick of the schedule for every watched chain.

    They are the instants after the last recorded tick, also if ticks between were missed; for a new chain, those after
    ``previous``, the tick before. Instants older than ``healing.days`` are forgotten.
    """
    settings, known = workspace.settings, expected(workspace)
    oldest = tick - timedelta(days=settings.healing.days)
    instants = {}
    for chain in settings.watchlist:
        held = known.instants.get(chain) if known else None
        since = previous if known is None or held is None else min(previous, known.until)
        due = instants_between(max(since, oldest), tick, settings.schedule.offsets)
        instants[chain] = [when for when in sorted({*(held or ()), *from_first_day(chain, due)}) if when > oldest]
    until = tick if known is None else max(tick, known.until)
    _documents(workspace).put(_NAME, msgspec.json.encode(Expected(until, instants)))


def expected(workspace: Workspace) -> Expected | None:
    """Return what the schedule asked for; None before its first tick, or if the record is damaged."""
    for content in _documents(workspace).all():
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            return msgspec.json.decode(content, type=Expected)
    return None


def instants_between(since: datetime, until: datetime, offsets: Sequence[timedelta]) -> list[datetime]:
    """Return the instants after ``since`` and not after ``until``, oldest first.

    ``offsets`` are the instants of a day, as durations since midnight.
    """
    days = [
        datetime.combine(since.date() + timedelta(days=day), time())
        for day in range((until.date() - since.date()).days + 1)
    ]
    return [day + offset for day in days for offset in offsets if since < day + offset <= until]


def _documents(workspace: Workspace) -> Documents:
    return Documents(workspace.state(workspace.settings.home / "schedule"))
