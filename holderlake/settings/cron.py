"""Cron schedules of five fields, checked before Dagster gets them, and the time between their ticks."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import Final

_MONTHS: Final = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_WEEKDAYS: Final = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_FIELDS: Final[tuple[tuple[str, int, int, list[str]], ...]] = (
    ("minute", 0, 59, []),
    ("hour", 0, 23, []),
    ("day", 1, 31, []),
    ("month", 1, 12, _MONTHS),
    ("day of the week", 0, 7, _WEEKDAYS),
)
_DAYS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_PART: Final = re.compile(r"(?:\*|(\w+)(?:-(\w+))?)(?:/(\d+))?")


def check_cron(text: str) -> str:
    """Return the schedule with single spaces. Raises ``ValueError`` that names the impossible field."""
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise ValueError("a cron schedule has five parts: minute, hour, day, month, day of the week")
    values = [_values(given, *field) for given, field in zip(fields, _FIELDS, strict=True)]
    _, _, days, months, _ = values
    if fields[4] == "*" and min(days) > max(_DAYS[month - 1] for month in months):
        raise ValueError(f"cron schedule {text!r} never runs: none of its months has a day {min(days)}")
    return " ".join(fields)


@cache
def interval_of(cron: str) -> timedelta:
    """The longest time between two ticks of a checked cron schedule, over two years."""
    fields = cron.split()
    minutes, hours, days, months, weekdays = (
        _values(given, *field) for given, field in zip(fields, _FIELDS, strict=True)
    )
    either = fields[2] != "*" and fields[4] != "*"  # cron's own rule: where both are given, one of them is enough
    first = date(2023, 1, 1)
    ticks = [
        datetime(day.year, day.month, day.day, hour, minute)
        for day in (first + timedelta(days=number) for number in range(2 * 366))
        if day.month in months and _is_due(day, days, weekdays, either=either)
        for hour in sorted(hours)
        for minute in sorted(minutes)
    ]
    return max((later - earlier for earlier, later in pairwise(ticks)), default=timedelta(days=366))


def _is_due(day: date, days: set[int], weekdays: set[int], *, either: bool) -> bool:
    is_day = day.day in days
    is_weekday = bool(weekdays & ({0, 7} if day.isoweekday() == 7 else {day.isoweekday()}))
    return is_day or is_weekday if either else is_day and is_weekday


def _values(given: str, name: str, least: int, most: int, names: list[str]) -> set[int]:
    found: set[int] = set()
    for part in given.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(f"cron field {name} {given!r} is not a number, a range, a list or a step, such as */6")
        first, last, step = match.groups()
        start = least if first is None else _number(first, name, least, most, names)
        end = most if first is None or (step and last is None) else start
        end = _number(last, name, least, most, names) if last is not None else end
        if end < start or step == "0":
            raise ValueError(f"cron field {name} {given!r} contains no value")
        found.update(range(start, end + 1, int(step or 1)))
    return found


def _number(text: str, name: str, least: int, most: int, names: list[str]) -> int:
    if text.lower() in names:
        return names.index(text.lower()) + least
    if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
        raise ValueError(f"cron field {name} {text!r} is not from {least} to {most}")
    return int(text)
