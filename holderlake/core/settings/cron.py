"""Cron schedules of five fields: validate one, and compute the longest interval between two runs."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import cache
from itertools import pairwise, takewhile
from typing import Final

from cronsim import CronSim, CronSimError

_START: Final = datetime(2022, 12, 31, 23, 59)


def check_cron(text: str) -> str:
    """Check a cron schedule of five fields, and return it with single spaces. Raises ``ValueError``."""
    cron = " ".join(text.split())
    if cron.count(" ") != 4:
        raise ValueError(
            f"invalid cron schedule {text!r}: it needs five fields (minute, hour, day, month, day of the week), for "
            "example '5 0 * * *'"
        )
    if re.search(r"#|(?<![a-z])l", cron, re.IGNORECASE):
        raise ValueError(f"invalid cron schedule {text!r}: 'L' and '#' are not supported; use numbers or names")
    try:
        next(CronSim(cron, _START))
    except (CronSimError, StopIteration) as error:
        raise ValueError(
            f"invalid cron schedule {text!r}: {str(error).lower() or 'it never runs'}; use numbers, ranges, lists and "
            "steps, for example '5 0 * * *' or '0 */6 * * mon-fri'"
        ) from error
    return cron


@cache
def interval_of(cron: str) -> timedelta:
    """Return the longest time between two runs of a valid schedule, within two years."""
    minute, hour, day, month, weekday = cron.split()
    date = f"{day.replace('*/', '1-31/')} {month} {weekday.replace('*/', '0-6/')}"  # with a star, both days must match
    days = _ticks(f"0 0 {date}", timedelta(days=2 * 366))
    times = _ticks(f"{minute} {hour} * * *", timedelta(days=1))  # every day with ticks has the same ones
    nights = (later - earlier - (times[-1] - times[0]) for earlier, later in pairwise(days))
    gaps = [*nights, *(later - earlier for earlier, later in pairwise(times))]
    return max(gaps, default=timedelta(days=366))


def _ticks(cron: str, span: timedelta) -> list[datetime]:
    return list(takewhile(lambda tick: tick <= _START + span, CronSim(cron, _START)))
