"""Record of the instants that schedules were to fetch: a JSON file in a folder of the home, or a row in PostgreSQL.

Each tick of a schedule adds its instants, by chain. So after a change of the schedule's times, or for a new chain,
older instants that were never due do not count as missing. The schedule of transfers records the starts of the days
that it imports.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from typing import Final

import msgspec
from sqlalchemy import Column, MetaData, Table, Text, select

from holderlake.core.contract.chains import from_first_day
from holderlake.core.dagster.partitions import previous_tick
from holderlake.core.storage.atomic_files import write_whole
from holderlake.core.storage.postgresql import Postgres
from holderlake.core.storage.state import PostgresState, put
from holderlake.core.workspace import Workspace
from holderlake.sources.settings import SourceSettings

_NAME: Final = "expected"
DAILY: Final = "schedule"
"""Folder of the instants of the schedule ``daily``."""
TRANSFERS: Final = "schedule_transfers"
"""Folder of the days of the schedule ``daily_transfers``."""
_TABLES: Final = MetaData()
_DOCUMENTS: Final = Table(
    "documents",
    _TABLES,
    Column("folder", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("content", Text, nullable=False),
)
"""The records (JSON) by folder, in the PostgreSQL that several hosts share."""
_LAGS: Final = {DAILY: timedelta(0), TRANSFERS: timedelta(days=1)}
"""Time after which an instant of each schedule is due. A day of transfers is due when it has ended."""


class Expected(msgspec.Struct, frozen=True):
    """The last recorded tick (``until``), and the instants of the last days by chain, oldest first. All naive UTC."""

    until: datetime
    instants: dict[str, list[datetime]]


def record_tick(workspace: Workspace, previous: datetime, tick: datetime) -> None:
    """Record the instants that are due at a tick of the schedule, for every watched chain.

    These are the instants up to ``tick`` that follow the last recorded tick, which may be several ticks ago. For a new
    chain they follow ``previous``, the tick before ``tick``. Instants older than ``healing.days`` are removed.
    """
    _record(workspace, DAILY, workspace.settings.watchlist, workspace.settings.schedule.offsets, previous, tick)


def record_transfers_tick(workspace: Workspace, previous: datetime, tick: datetime) -> None:
    """Record the days that ended until a tick of the schedule of transfers, for every chain with nodes."""
    _record(
        workspace, TRANSFERS, workspace.settings.section(SourceSettings).node_chains, [timedelta(0)], previous, tick
    )


def _record(
    workspace: Workspace,
    folder: str,
    chains: Iterable[str],
    offsets: Sequence[timedelta],
    previous: datetime,
    tick: datetime,
) -> None:
    """Record the instants of ``chains`` that became due between the ticks ``previous`` and ``tick``.

    ``folder`` is the place of the record, ``offsets`` are the instants of a day as durations since midnight.
    """
    stored_record, oldest = expected(workspace, folder), tick - timedelta(days=workspace.settings.healing.days)
    lag = _LAGS[folder]
    instants = {}
    for chain in chains:
        chain_instants = stored_record.instants.get(chain) if stored_record else None
        since = previous if stored_record is None or chain_instants is None else min(previous, stored_record.until)
        due = instants_between(max(since, oldest) - lag, tick - lag, offsets)
        instants[chain] = [
            when for when in sorted({*(chain_instants or ()), *from_first_day(chain, due)}) if when > oldest
        ]
    until = tick if stored_record is None else max(tick, stored_record.until)
    content = msgspec.json.encode(Expected(until, instants))
    place = workspace.state(workspace.settings.home / folder)
    if isinstance(place, Postgres):
        row = {"folder": folder, "name": _NAME, "content": content.decode()}
        PostgresState(place, _TABLES).run(lambda db: put(db, _DOCUMENTS, row))
    else:
        write_whole(place / f"{_NAME}.json", content)


def expected(workspace: Workspace, folder: str = DAILY) -> Expected | None:
    """Return the recorded instants since ``schedule.start``.

    None before the schedule's first tick, or if the record is damaged.
    """
    excludes = workspace.settings.schedule.excludes
    with suppress(msgspec.DecodeError, UnicodeDecodeError, FileNotFoundError):
        record = msgspec.json.decode(_content(workspace, folder), type=Expected)
        instants = {
            chain: [when for when in instants if not excludes(when)] for chain, instants in record.instants.items()
        }
        return Expected(record.until, instants)
    return None


def _content(workspace: Workspace, folder: str) -> bytes:
    """Return the JSON of a record. It is empty, or ``FileNotFoundError`` is raised, if there is none."""
    place = workspace.state(workspace.settings.home / folder)
    if not isinstance(place, Postgres):
        return (place / f"{_NAME}.json").read_bytes()
    is_record = _DOCUMENTS.c.folder == folder, _DOCUMENTS.c.name == _NAME
    rows = PostgresState(place, _TABLES).rows(select(_DOCUMENTS.c.content).where(*is_record))
    return "".join(content for (content,) in rows).encode()


def last_days(schedule: Expected, folder: str, cron: str) -> set[date]:
    """Return the days with an instant that became due at the last recorded tick. ``cron`` is the schedule's."""
    until, lag = schedule.until, _LAGS[folder]
    previous = previous_tick(cron, until)
    return {
        when.date() for instants in schedule.instants.values() for when in instants if previous < when + lag <= until
    }


def instants_between(since: datetime, until: datetime, offsets: Sequence[timedelta]) -> list[datetime]:
    """Return the instants after ``since`` and not after ``until``, oldest first.

    ``offsets`` are the times of day of the schedule, as durations since midnight.
    """
    days = [
        datetime.combine(since.date() + timedelta(days=day), time())
        for day in range((until.date() - since.date()).days + 1)
    ]
    return [day + offset for day in days for offset in offsets if since < day + offset <= until]
