"""Partitions of every asset: chain by day. Finer instants lie inside a day; tokens are rows and settings.

They stand here and not in ``pipelines`` because an asset can't be defined without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from dagster import (
    DailyPartitionsDefinition,
    DynamicPartitionsDefinition,
    MultiPartitionKey,
    MultiPartitionsDefinition,
    TimeWindowPartitionsDefinition,
)

FIRST_DAY: Final = date(2015, 7, 30)
"""Ethereum's first block: no chain that is served has an older holder."""

_MINUTES: Final = "%Y-%m-%d %H:%M"

CHAINS: Final = DynamicPartitionsDefinition(name="chain")
DAYS: Final = DailyPartitionsDefinition(start_date=FIRST_DAY.isoformat(), end_offset=1)
CHAIN_BY_DAY: Final = MultiPartitionsDefinition({"chain": CHAINS, "date": DAYS})


def partition_key(chain: str, instant: datetime) -> MultiPartitionKey:
    """The partition that an instant belongs to. Raises ``ValueError`` before the first day."""
    if instant.date() < FIRST_DAY:
        raise ValueError(f"{instant:%Y-%m-%d} is before the first partition, {FIRST_DAY}")
    return MultiPartitionKey({"chain": chain, "date": f"{instant:%Y-%m-%d}"})


def instants_of(day: str, offsets: Sequence[timedelta]) -> list[datetime]:
    """The as-of instants of a day: its start plus each offset of the schedule."""
    start = datetime.strptime(day, "%Y-%m-%d")
    return [start + offset for offset in offsets]


def tick_before(cron: str, tick: datetime) -> datetime:
    """Return the last tick of a cron schedule (UTC) before ``tick``, which is one of them."""
    ticks = TimeWindowPartitionsDefinition(start=datetime.combine(FIRST_DAY, time()), fmt=_MINUTES, cron_schedule=cron)
    window = ticks.get_prev_partition_window(tick.replace(tzinfo=UTC))
    return window.start.replace(tzinfo=None) if window else tick
