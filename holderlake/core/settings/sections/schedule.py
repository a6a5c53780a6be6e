"""The sections ``[schedule]``, ``[healing]``, ``[budget]``, ``[retention]``: times of runs, ceilings, ages of data."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from holderlake.core.setting_types import Credits, Duration, Section
from holderlake.core.settings.cron import check_cron


def _offset(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    hours, _, minutes = value.partition(":")
    if not (hours.isdigit() and minutes.isdigit() and int(hours) < 24 and int(minutes) < 60):
        raise ValueError(f"invalid time of day {value!r}: use hours and minutes, for example 06:00")
    return timedelta(hours=int(hours), minutes=int(minutes))


Offset = Annotated[timedelta, BeforeValidator(_offset)]
"""A time of day (UTC), as the duration since midnight."""


def _family(name: str) -> str:
    from holderlake.core.contract.tables import FAMILY_TABLES  # noqa: PLC0415 - pyarrow, for few settings

    if name not in FAMILY_TABLES:
        raise ValueError(f"there is no family {name!r}; use one of {', '.join(FAMILY_TABLES)}")
    return name


Family = Annotated[str, AfterValidator(_family)]
"""Name of a family of tables that are fetched together."""


class Budget(Section):
    """Maximum credits to spend. A request that could pass one of these limits is not sent. Without a value there is no
    limit."""

    per_run: Credits | None = Field(default=None, description="Maximum credits of one run")
    per_day: Credits | None = Field(default=None, description="Maximum credits of one day (UTC)")
    per_month: Credits | None = Field(
        default=None, description="Maximum credits from one renewal to the next", examples=["100000"]
    )
    renewal_day: int = Field(default=1, ge=1, le=28, description="Day of the month on which the allowance renews")


class Schedule(Section):
    """The times at which partitions are fetched, and the times of a day that they are about."""

    cron: Annotated[str, AfterValidator(check_cron)] = Field(
        default="5 0 * * *", description="When runs start: a cron schedule, UTC"
    )
    offsets: Annotated[list[Offset], AfterValidator(lambda offsets: sorted(set(offsets)))] = Field(
        default=[timedelta(0)], min_length=1, description="Times of each day to fetch data as of, UTC, as HH:MM"
    )
    start: date | None = Field(
        default=None,
        description="First day of Dagster's partitions, YYYY-MM-DD; by default the day of the oldest data in the lake, "
        "and at the latest `healing.days` ago. No earlier day is scheduled or repeated",
        examples=[date(2026, 1, 1)],
    )
    leave_out: list[Family] = Field(
        default=[], description="Families of tables that scheduled runs and backfills do not fetch, such as maps"
    )
    live_tolerance_seconds: int = Field(
        default=3_600, ge=0, description="A past instant this near is fetched live, without the history surcharge"
    )

    def excludes(self, when: datetime) -> bool:
        """Return whether an instant is before the first day."""
        return self.start is not None and when.date() < self.start


class Retention(Section):
    """The age at which `holderlake delete expired` and the schedule `retention` delete old data. Without a value,
    the data are kept for ever. Rows of the lake's tables are never deleted, except rows of `failures`."""

    history: Duration | None = Field(default=None, description="Dagster's finished runs with their events and logs")
    failures: Duration | None = Field(default=None, description="Rows of the table `failures`")
    revisions: Duration | None = Field(default=None, description="Archived answers that a later answer replaced")
    archive: Duration | None = Field(default=None, description="All archived answers whose rows are in the lake")
    without_rebuild: bool = Field(
        default=False, description="Let the schedule delete answers too, which `holderlake home rebuild` needs"
    )
    cron: Annotated[str, AfterValidator(check_cron)] = Field(
        default="40 3 * * *", description="When the schedule `retention` deletes, UTC; the schedule is off by default"
    )


class Healing(Section):
    """Repeated requests for the missing parts of partitions: of scheduled days, of runs by hand and of backfills. They
    need Dagster's daemon (`holderlake ui`)."""

    enabled: bool = Field(default=True, description="Repeat requests that failed or were missed")
    days: int = Field(
        default=45, ge=1, le=366, description="Days after which a missed instant or a failed run is no longer repeated"
    )
    attempts: int = Field(
        default=8,
        ge=1,
        le=100,
        description="Maximum failed runs of a partition; then it is given up with a notice",
    )
    credits_per_day: Credits | None = Field(
        default=None,
        description="Maximum credits of repetitions in one day (UTC); by default only `[budget]` limits them",
    )
