"""The sections ``[schedule]`` and ``[budget]``: when runs start, and the most that they may spend."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from holderlake.settings.cron import check_cron
from holderlake.settings.fields import Credits, Section


def _offset(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    hours, _, minutes = value.partition(":")
    if not (hours.isdigit() and minutes.isdigit() and int(hours) < 24 and int(minutes) < 60):
        raise ValueError(f"invalid time of day {value!r}: use hours and minutes, for example 06:00")
    return timedelta(hours=int(hours), minutes=int(minutes))


Offset = Annotated[timedelta, BeforeValidator(_offset)]
"""A time of day (UTC), as the duration since midnight."""


class Budget(Section):
    """Most credits to spend. A request that could pass one of these limits is not sent. Without a value there is no
    limit."""

    per_run: Credits | None = Field(default=None, description="Most credits of one run")
    per_day: Credits | None = Field(default=None, description="Most credits of one day (UTC)")
    per_month: Credits | None = Field(default=None, description="Most credits from one renewal to the next")
    renewal_day: int = Field(default=1, ge=1, le=28, description="Day of the month on which the allowance renews")


class Schedule(Section):
    """The times at which partitions are fetched, and the times of a day that they are about."""

    cron: Annotated[str, AfterValidator(check_cron)] = Field(
        default="5 0 * * *", description="When runs start: a cron schedule, UTC"
    )
    offsets: Annotated[list[Offset], AfterValidator(lambda offsets: sorted(set(offsets)))] = Field(
        default=[timedelta(0)], min_length=1, description="Times of each day to fetch data as of, UTC, as HH:MM"
    )
    live_tolerance_seconds: int = Field(
        default=3_600, ge=0, description="A past instant this near is fetched live, without the history surcharge"
    )
    resume_parked: bool = Field(
        default=False, description="Resume backfills that ran out of credits as soon as there are credits again"
    )
