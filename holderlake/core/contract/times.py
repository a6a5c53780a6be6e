"""Instants: parsers of the forms that people write, and formats for paths and answers.

An instant is a naive ``datetime`` in UTC with whole seconds. DuckDB and Parquet store it as a timestamp without a zone,
which is read without a time-zone database.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

_UNIX_SECONDS = re.compile(r"\d{1,12}")
_PARTITION = "%Y%m%dT%H%M%SZ"


def utc_now() -> datetime:
    """Return the current time in UTC, without zone, to the microsecond."""
    return datetime.now(UTC).replace(tzinfo=None)


def from_unix(seconds: float) -> datetime:
    """Return the instant (UTC, without zone) of unix seconds."""
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)


def as_utc(when: datetime) -> datetime:
    """Return a time in UTC, without zone. A time without zone is one in UTC already."""
    return when.astimezone(UTC).replace(tzinfo=None) if when.tzinfo else when


def to_unix(instant: datetime) -> int:
    """Return unix seconds of an instant, rounded down."""
    aware = instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)
    return int(aware.timestamp() // 1)


def parse_when(text: str) -> datetime:
    """Parse an ISO date, an ISO date-time (UTC if it has no zone), unix seconds, or ``now``.

    Raises ``ValueError`` for other text, also for a fraction of a second. The message lists the accepted forms.
    """
    when = text.strip()
    if when.lower() == "now":
        return utc_now().replace(microsecond=0)
    try:
        if _UNIX_SECONDS.fullmatch(when) and len(when) != len("20260101"):
            return from_unix(int(when))
        if _UNIX_SECONDS.fullmatch(when):
            return datetime.strptime(when, "%Y%m%d")
        if re.fullmatch(r"\d{8}T\d{6}Z", when):
            return parse_partition(when)
        parsed = datetime.fromisoformat(when)
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError(
            f"{text!r} is not a time; give an ISO date (2026-11-20), a date-time (2026-11-20T12:00:00), "
            "unix seconds (1795132800) or 'now'"
        ) from error
    if parsed.microsecond:
        raise ValueError(f"{text!r} has a fraction of a second, and instants are whole seconds: leave the fraction out")
    return as_utc(parsed)


def parse_end(text: str) -> datetime:
    """Parse the last instant of a period as ``parse_when`` does. A date alone means its last second."""
    is_date = re.fullmatch(r"\d{4}-?\d\d-?\d\d", text.strip())
    return parse_when(text) + (timedelta(days=1, seconds=-1) if is_date else timedelta(0))


def partition_text(instant: datetime) -> str:
    """Format an instant for the path of a partition, such as ``20261120T000000Z``.

    The texts sort by time and need no escaping in paths.
    """
    return instant.strftime(_PARTITION)


class InstantAhead(ValueError):
    """An as-of instant lies in the future, so that there is no data for it yet."""


def check_passed(instants: Iterable[datetime], now: datetime) -> None:
    """Raise ``InstantAhead`` if one of the instants is later than ``now``."""
    for instant in instants:
        if instant > now:
            raise InstantAhead(
                f"{instant.isoformat()}Z lies in the future (now it is {now.isoformat(timespec='seconds')}Z); "
                "choose an instant that has passed"
            )


def parse_partition(text: str) -> datetime:
    """Return the instant of a text that ``partition_text`` wrote, such as ``20261120T000000Z``.

    Raises ``ValueError`` for other text.
    """
    return datetime.strptime(text, _PARTITION)


def dt_update_text(instant: datetime) -> str:
    """Format an instant as the contract's ``dt_update``: ISO 8601, UTC, without zone, with microseconds."""
    return instant.isoformat(timespec="microseconds")
