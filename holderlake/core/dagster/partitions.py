"""Partitions of all assets: one per chain and day.

A partition contains all instants of its day and all tokens of its chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from dagster import (
    AssetExecutionContext,
    DailyPartitionsDefinition,
    DynamicPartitionsDefinition,
    Failure,
    MultiPartitionKey,
    MultiPartitionsDefinition,
    OpExecutionContext,
    StaticPartitionsDefinition,
    TimeWindowPartitionsDefinition,
)

from holderlake.core.dagster.tags import RANGE_TAGS
from holderlake.core.dagster.workarounds import forget_first_partition
from holderlake.core.settings import Settings
from holderlake.core.storage.layout import manifest_folder, value_of

FIRST_DAY: Final = date(2015, 7, 30)
"""The day of Ethereum's first block: no supported chain is older."""
CHAIN: Final = "chain"
DAY: Final = "date"


def chain_by_day(chains: Sequence[str] | None = None, start: date = FIRST_DAY) -> MultiPartitionsDefinition:
    """Return partitions by chain and day, up to today.

    Without ``chains`` the chains are Dagster's dynamic partitions ``chain``, to which a sensor adds watched chains.
    """
    by_chain = DynamicPartitionsDefinition(name=CHAIN) if chains is None else StaticPartitionsDefinition(chains)
    by_day = DailyPartitionsDefinition(start_date=start.isoformat(), end_offset=1)
    return MultiPartitionsDefinition({CHAIN: by_chain, DAY: by_day})


CHAIN_BY_DAY: Final = chain_by_day()


def first_day(settings: Settings, today: date) -> date:
    """Return the first day of the partitions that Dagster shows: the setting ``schedule.start``, if there is one.

    By default it is the day of the oldest partition in the lake's folder. It is never later than the days that the
    sensor ``healing`` may repeat.
    """
    if settings.schedule.start is not None:
        return max(FIRST_DAY, settings.schedule.start)
    recent = today - timedelta(days=settings.healing.days)
    folders = settings.lake_folder.glob(manifest_folder("*", "*T*Z"))
    oldest = min((value_of(folder.name) for folder in folders), default=f"{recent:%Y%m%d}")
    return max(FIRST_DAY, min(recent, date.fromisoformat(oldest[:8])))


def partition_key(chain: str, instant: datetime) -> MultiPartitionKey:
    """Return the key of an instant's partition. Raises ``ValueError`` for an instant before the first day."""
    if instant.date() < FIRST_DAY:
        raise ValueError(f"{instant:%Y-%m-%d} is before the first partition, {FIRST_DAY}; choose a later instant")
    return MultiPartitionKey({CHAIN: chain, DAY: f"{instant:%Y-%m-%d}"})


def keys_of_run(context: AssetExecutionContext | OpExecutionContext) -> list[str]:
    """Return the partition keys of a run. Raises ``Failure`` if they do not match the run's range tags."""
    start, end = (context.run.tags.get(tag) for tag in RANGE_TAGS)
    if start is None or end is None:
        return list(context.partition_keys)
    forget_first_partition(context.run)
    keys = list(context.partition_keys)
    if days_of([keys[0], keys[-1]]) != days_of([start, end]):
        raise Failure(
            f"the run has the partitions {keys[0]} to {keys[-1]}, but its tags name {start} to {end}; nothing was "
            "fetched. Use the job 'backfill' for these days",
            allow_retries=False,
        )
    return keys


def days_of(keys: Iterable[str]) -> list[tuple[str, str]]:
    """Return the pair of chain and day (YYYY-MM-DD) of each partition key."""
    parsed = [
        key if isinstance(key, MultiPartitionKey) else CHAIN_BY_DAY.get_partition_key_from_str(key) for key in keys
    ]
    return [(key.keys_by_dimension[CHAIN], key.keys_by_dimension[DAY]) for key in parsed]


def instants_of(day: str, offsets: Sequence[timedelta]) -> list[datetime]:
    """Return the as-of instants (UTC) of a day (YYYY-MM-DD): its start plus each offset of the schedule."""
    start = datetime.strptime(day, "%Y-%m-%d")
    return [start + offset for offset in offsets]


def previous_tick(cron: str, tick: datetime) -> datetime:
    """Return the tick of a cron schedule (UTC) that precedes ``tick``, which must be a tick of the schedule."""
    ticks = TimeWindowPartitionsDefinition(
        start=datetime.combine(FIRST_DAY, time()), fmt="%Y-%m-%d %H:%M", cron_schedule=cron
    )
    window = ticks.get_prev_partition_window(tick.replace(tzinfo=UTC))
    return window.start.replace(tzinfo=None) if window else tick
