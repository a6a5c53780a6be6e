"""Instants of a plan or a backfill (naive UTC): a regular grid, or a list."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

from holderlake.core.contract.times import check_passed, parse_when, utc_now

_STEPS: Final = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_FAULTS_SHOWN: Final = 5


def grid(start: datetime, end: datetime, every: str) -> list[datetime]:
    """Return the instants from ``start`` to ``end`` (both included) every 1h, 6h, 1d, 1w or 1mo.

    Monthly instants have the start's day of the month, or the last day of a shorter month. Raises
    ``ValueError`` for an invalid step.
    """
    if end < start:
        raise ValueError(f"the end, {end.isoformat()}, is before the start, {start.isoformat()}: exchange them")
    step = _step(every)
    instants: list[datetime] = []
    while (instant := step(start, len(instants))) <= end:
        instants.append(instant)
    return instants


def _step(every: str) -> Callable[[datetime, int], datetime]:
    count, unit = every.rstrip("hdwmo"), every.lstrip("0123456789")
    if not count.isdigit() or int(count) < 1 or unit not in (*_STEPS, "mo"):
        raise ValueError(f"invalid step {every!r}: use a number and h, d, w or mo, as in 1h, 6h, 1d, 1w, 1mo")
    if unit == "mo":
        return lambda start, n: _months_after(start, n * int(count))
    return lambda start, n: start + n * int(count) * _STEPS[unit]


def _months_after(start: datetime, months: int) -> datetime:
    year, month = divmod(start.month - 1 + months, 12)
    month_start = start.replace(year=start.year + year, month=month + 1, day=1)
    month_end = (month_start.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)
    return month_start.replace(day=min(start.day, month_end.day))


def past_instants(texts: Iterable[str]) -> list[datetime]:
    """Parse texts as instants, and return them without duplicates, oldest first.

    Raises ``ValueError`` for an invalid or future time.
    """
    instants = sorted({parse_when(text) for text in texts})
    if instants:
        _check_past(instants[-1])
    return instants


def listed_instants(lines: Iterable[str]) -> list[datetime]:
    """Parse lines that have one instant each, and return the instants without duplicates, sorted from the oldest.

    A # starts a comment. Empty lines are skipped. Raises ``ValueError`` with the numbers of the bad lines, or if there
    is no instant.
    """
    instants: set[datetime] = set()
    faults: list[str] = []
    for number, line in enumerate(lines, start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        try:
            instant = parse_when(text)
            _check_past(instant)
        except ValueError as error:
            faults.append(f"line {number}: {error}")
        else:
            instants.add(instant)
    if faults:
        faults_left = len(faults) - _FAULTS_SHOWN
        bad_lines = "; ".join(faults[:_FAULTS_SHOWN]) + (
            f"; and {faults_left} more bad lines" if faults_left > 0 else ""
        )
        raise ValueError(f"the list of instants has bad lines, correct them: {bad_lines}")
    if not instants:
        raise ValueError("the list of instants is empty; write one a line: 2026-01-01, 2026-01-01T12:00:00, 1767225600")
    return sorted(instants)


def chosen_instants(
    start: str | None, end: str | None, every: str | None, listed: Iterable[str] | None
) -> list[datetime]:
    """Return the instants that the options of a command choose: a grid, or the lines of a list (``listed``).

    A grid is from ``start`` to ``end`` (by default now), at steps of ``every`` (by default a day). Raises
    ``ValueError`` if both a grid and a list are given, if neither is given, or for a future instant.
    """
    if listed is not None:
        if start or end or every:
            raise ValueError("--instants cannot be combined with --from, --to or --every: leave these out")
        return listed_instants(listed)
    if start is None:
        raise ValueError("no instants are chosen; give --from (and --to, --every), or --instants FILE")
    instants = grid(parse_when(start), parse_when(end or "now"), every or "1d")
    _check_past(instants[-1])
    return instants


def _check_past(instant: datetime) -> None:
    check_passed([instant], utc_now())
