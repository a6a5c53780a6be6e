"""Parse the time of a transfer: unix seconds and their smaller units, or ISO text. No chain is older than 2009.

A number of another unit, for example the day number of a spreadsheet, is refused with the unit that it probably has.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

from holderlake.contract.chains.addresses import shown
from holderlake.contract.times import to_unix
from holderlake.engine.sources.files.numbers import whole_number

FIRST_SECOND: Final = 1_230_768_000
"""2009-01-01 in unix seconds. The first block of the first chain is of the third of January 2009."""
LAST_SECOND: Final = 4_102_444_800
"""2100-01-01 in unix seconds. A later time is of another unit."""
NO_TIME: Final = "a transfer needs a time; remove the row, or add the times of blocks (--blocks FILE)"

_PER_SECOND: Final = (1, 10**3, 10**6, 10**9)
"""Units per second in the four units of unix times: seconds, milliseconds, microseconds and nanoseconds.

From 2009 to 2100, a number is a valid time in only one of the units.
"""
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?")
_HEX: Final = re.compile(r"0[xX][0-9a-fA-F]+")
_COMPACT_DATE: Final = re.compile(r"(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])(?:[0-9]{6})?")
_ISO_SPACE: Final = re.compile(r"\s*(?:\+?UTC|GMT|Z)$", re.IGNORECASE)
_FORMS: Final = "write unix seconds or 2026-11-20 12:00:00 (UTC)"
_DAY: Final = 86_400
_EXCEL_EPOCHS: Final = {"1900": datetime(1899, 12, 30, tzinfo=UTC), "1904": datetime(1904, 1, 1, tzinfo=UTC)}
_OTHER_UNITS: Final = {"hours": 3600, "minutes": 60}


def parse_time(value: object) -> int:
    """Return a time as unix seconds, without its fraction of a second.

    ``value`` is a number or its text (decimal, with a point or an exponent, or hexadecimal), or ISO text, which is UTC
    unless it names a zone. Raises ``ValueError`` with the likely unit for any other value.
    """
    text = str(value).strip().strip("\"'").strip()
    if isinstance(value, bytes) or _HEX.fullmatch(text):
        return _of_number(Decimal(whole_number(value)), value)
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise ValueError(f"{shown(value)} is not a time; {_FORMS}")
        return _of_number(Decimal(value), value)
    if _NUMBER.fullmatch(text):
        return _of_number(Decimal(text), value)
    return _of_text(text, value)


def _of_number(number: Decimal, value: object) -> int:
    if _COMPACT_DATE.fullmatch(f"{number:f}"):
        raise ValueError(f"{shown(value)} is a date without separators; write ISO text, for example 2026-11-20")
    for units in _PER_SECOND:
        if FIRST_SECOND * units <= number < LAST_SECOND * units:
            return int(number // units)
    if number <= 0:
        raise ValueError(f"{shown(value)} is not a time: {NO_TIME}")
    raise ValueError(f"{shown(value)} is not a time between 2009 and 2100{_likely_unit(number)}; {_FORMS}")


def _likely_unit(number: Decimal) -> str:
    """Return which unit the number probably has, as the end of a sentence; empty if there is none."""
    for name, epoch in _EXCEL_EPOCHS.items():
        if FIRST_SECOND <= epoch.timestamp() + float(min(number, Decimal(10**7))) * _DAY < LAST_SECOND // 2:
            day = (epoch + timedelta(days=float(number))).strftime("%Y-%m-%d %H:%M:%S")
            return f"; it looks like a day number of a spreadsheet ({day}, counted from {name})"
    if 2009 <= number < 2100:
        return "; it looks like a year"
    if FIRST_SECOND // _DAY <= number < LAST_SECOND // _DAY:
        return "; it looks like days since 1970"
    for name, seconds in _OTHER_UNITS.items():
        if FIRST_SECOND // seconds <= number < LAST_SECOND // seconds:
            return f"; it looks like {name} since 1970"
    return ", so it is perhaps a block number or the time in another unit" if number < FIRST_SECOND else ""


def _of_text(text: str, value: object) -> int:
    try:
        instant = datetime.fromisoformat(_ISO_SPACE.sub("", text))
    except ValueError:
        raise ValueError(f"{shown(value)} is not a time; {_FORMS}") from None
    seconds = to_unix(instant if instant.tzinfo else instant.replace(tzinfo=UTC))
    if not FIRST_SECOND <= seconds < LAST_SECOND:
        raise ValueError(f"{shown(value)} is not between 2009 and 2100, and no chain is older; {_FORMS}")
    return seconds
