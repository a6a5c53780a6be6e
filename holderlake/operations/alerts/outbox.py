"""Outbox of alerts with their delivery status, in an SQLite file or in the PostgreSQL that hosts share.

A delivery is recorded before the attempt and after its success. If the process is killed in between, the alert is sent
again under the same key. All times are naive UTC.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

from holderlake.core.settings.sections.alerts import AlertRule
from holderlake.core.storage.owners import leased
from holderlake.core.storage.state import State, StateConnection, Where, open_state
from holderlake.operations.alerts.notices import NOTICES, Notice
from holderlake.operations.alerts.rules import BLOCK, HEAD, Alert

Status = Literal["pending", "sending", "sent", "given_up"]

_FIRST_WAIT: Final = timedelta(minutes=1)
_LONGEST_WAIT: Final = timedelta(hours=1)
_SCHEMA: Final = (
    """
    CREATE TABLE IF NOT EXISTS rules (
        name TEXT NOT NULL,
        definition TEXT NOT NULL,
        began TEXT NOT NULL,
        PRIMARY KEY (name, definition)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE IF NOT EXISTS alerts (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        fingerprint TEXT NOT NULL UNIQUE,
        name TEXT NOT NULL,
        rule TEXT NOT NULL,
        chain TEXT NOT NULL,
        token_address TEXT NOT NULL,
        timestamp TEXT NOT NULL,
        subject TEXT NOT NULL,
        occasion TEXT NOT NULL,
        measured REAL NOT NULL,
        threshold REAL NOT NULL,
        evidence TEXT NOT NULL,
        found_at TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS deliveries (
        alert INTEGER NOT NULL REFERENCES alerts (id),
        destination TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('pending', 'sending', 'sent', 'given_up')),
        attempts INTEGER NOT NULL DEFAULT 0,
        next_at TEXT NOT NULL,
        error TEXT,
        PRIMARY KEY (alert, destination)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX IF NOT EXISTS deliveries_open ON deliveries (state) WHERE state IN ('pending', 'sending')",
)
_COUNTING: Final = "exchange_transfer"
"""The rule whose measured value counts events, so that alerts of parts of a period add up."""
_COLUMNS: Final = "name, rule, chain, token_address, timestamp, subject, occasion, measured, threshold, evidence"
_ADD: Final = f"""
INSERT INTO alerts (fingerprint, {_COLUMNS}, found_at) VALUES ({", ".join("?" * 12)}) ON CONFLICT DO NOTHING
"""
_ADD_DELIVERY: Final = """
INSERT INTO deliveries (alert, destination, state, next_at)
SELECT id, ?, 'pending', ? FROM alerts WHERE fingerprint = ?
"""
_DUE: Final = f"""
SELECT {_COLUMNS}, found_at, destination, attempts
FROM deliveries JOIN alerts ON alerts.id = deliveries.alert
WHERE state IN ('pending', 'sending') AND next_at <= ?
ORDER BY alerts.id, destination
"""
_NOTICES: Final = f"""
SELECT {_COLUMNS}, found_at FROM alerts
WHERE found_at >= ? AND rule IN ({", ".join("?" * len(NOTICES))})
ORDER BY id
"""
_OF_HEAD: Final = f"""
SELECT {_COLUMNS}, found_at FROM alerts
WHERE chain = ? AND timestamp >= ? AND substr(occasion, 1, {len(HEAD)}) = '{HEAD}'
ORDER BY id
"""
_REPORTED: Final = f"""
SELECT count(*), sum(measured) FROM alerts
WHERE
    name = ? AND rule = ? AND chain = ? AND token_address = ? AND subject = ?
    AND timestamp > ? AND timestamp <= ? AND substr(occasion, 1, {len(HEAD)}) = '{HEAD}'
"""
_MARK: Final = """
UPDATE deliveries SET state = ?, attempts = attempts + ?, next_at = ?, error = ?
WHERE destination = ? AND alert = (SELECT id FROM alerts WHERE fingerprint = ?)
"""
_GIVE_UP: Final = """
UPDATE deliveries SET state = 'given_up'
WHERE state IN ('pending', 'sending') AND alert IN (SELECT id FROM alerts WHERE found_at < ?)
"""
_STATES: Final = """
SELECT fingerprint, destination, state, attempts, error FROM deliveries JOIN alerts ON alerts.id = deliveries.alert
"""


@dataclass(frozen=True)
class Due:
    """An alert to be sent now to the destination with a name.

    ``attempts`` is the number of earlier attempts to send it there.
    """

    alert: Alert
    found_at: datetime
    destination: str
    attempts: int


@dataclass(frozen=True)
class Delivery:
    """Status (``state``) of an alert's delivery to one destination, after ``attempts`` attempts.

    ``error`` is the text of the last attempt's error; None if it did not fail.
    """

    destination: str
    state: Status
    attempts: int
    error: str | None


class OutboxBusy(Exception):
    """Another process is delivering alerts."""


class Outbox:
    """The outbox in a SQLite file, which is created by the first write, or in PostgreSQL."""

    def __init__(self, location: Where) -> None:
        self._location = location

    @property
    def exists(self) -> bool:
        """Return False if the outbox has no file yet."""
        return not isinstance(self._location, Path) or self._location.exists()

    def began(self, name: str, rule: AlertRule, now: datetime) -> datetime:
        """Return when the rule ``name`` was first evaluated with this definition; if never, record and return ``now``.

        A rule whose definition changes counts as a new one.
        """
        definition = rule.model_dump_json()
        with self._db.transaction() as db:
            db.execute("INSERT INTO rules VALUES (?, ?, ?) ON CONFLICT DO NOTHING", [name, definition, now.isoformat()])
            rows = db.execute("SELECT began FROM rules WHERE name = ? AND definition = ?", [name, definition])
            return datetime.fromisoformat(rows.fetchall()[0][0])

    def add(self, alerts: Iterable[Alert], destinations: Sequence[str], now: datetime) -> list[Alert]:
        """Add the alerts that are not in the outbox, to be sent to each destination. Return the added alerts.

        An alert about a period is not added if alerts at the head of the chain reported the same within this period.
        """
        new_alerts = []
        with self._db.transaction() as db:
            for alert in alerts:
                if (
                    not _is_reported(db, alert)
                    and db.execute(_ADD, (alert.fingerprint, *_row(alert), now.isoformat())).rowcount
                ):
                    for destination in destinations:
                        db.execute(_ADD_DELIVERY, (destination, now.isoformat(), alert.fingerprint))
                    new_alerts.append(alert)
        return new_alerts

    def due(self, now: datetime) -> list[Due]:
        """Return the deliveries to be made now: new ones, failed ones whose wait is over, and interrupted ones."""
        with self._db.transaction() as db:
            return [_due(row) for row in db.execute(_DUE, [now.isoformat()]).fetchall()]

    def notices(self, since: datetime) -> list[Alert]:
        """Return the notices about events at or after ``since``, the oldest first; empty if there is no outbox yet."""
        if not self.exists:
            return []
        with self._db.transaction() as db:
            rows = db.execute(_NOTICES, [since.isoformat(), *NOTICES]).fetchall()
        return [_due((*row, "", 0)).alert for row in rows]

    def of_head(self, chain: str, since: datetime, after_block: int) -> list[Alert]:
        """Return the alerts that were found at the head of a chain as of blocks after ``after_block``, oldest first.

        ``since`` is the earliest time of these blocks. Several blocks may have the same time.
        """
        if not self.exists:
            return []
        with self._db.transaction() as db:
            rows = db.execute(_OF_HEAD, [chain, since.isoformat()]).fetchall()
        alerts = [_due((*row, "", 0)).alert for row in rows]
        return [alert for alert in alerts if alert.evidence[BLOCK] > after_block]

    def begin(self, due: Due, now: datetime) -> None:
        """Record an attempt to send, before the caller makes it."""
        self._mark(due, "sending", 1, now, None)

    def finish(self, due: Due, now: datetime) -> None:
        """Record a successful delivery."""
        self._mark(due, "sent", 0, now, None)

    def postpone(self, due: Due, error: str, now: datetime) -> None:
        """Record a failed attempt to send, its error, and the time of the next attempt.

        The wait before it is a minute, and doubles after each failure up to an hour.
        """
        self._mark(due, "pending", 0, now + min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(due.attempts, 10)), error)

    def give_up(self, until: datetime) -> None:
        """Mark unsent alerts that were found before an instant as given up: they are never sent."""
        with self._db.transaction() as db:
            db.execute(_GIVE_UP, [until.isoformat()])

    def deliveries(self) -> dict[str, list[Delivery]]:
        """Return all deliveries by the fingerprint of their alert; empty if the outbox has no file yet."""
        deliveries: dict[str, list[Delivery]] = {}
        if self.exists:
            with self._db.transaction() as db:
                for fingerprint, *delivery in db.execute(_STATES).fetchall():
                    deliveries.setdefault(fingerprint, []).append(Delivery(*delivery))
        return deliveries

    def delivering(self) -> AbstractContextManager[None]:
        """Lock the outbox during the ``with`` block. Raises ``OutboxBusy`` while another process delivers alerts."""
        return leased(self._location, "alerts", OutboxBusy())

    def _mark(self, due: Due, state: Status, attempts: int, next_at: datetime, error: str | None) -> None:
        with self._db.transaction() as db:
            db.execute(_MARK, (state, attempts, next_at.isoformat(), error, due.destination, due.alert.fingerprint))

    @cached_property
    def _db(self) -> State:
        return open_state(self._location, _SCHEMA, "FULL")  # after a power cut nothing is sent twice


def _is_reported(db: StateConnection, alert: Alert) -> bool:
    if alert.since is None:
        return False
    key = (alert.name, alert.rule, alert.chain, alert.token_address, alert.subject)
    ((reported_count, measured),) = db.execute(
        _REPORTED, (*key, alert.since.isoformat(), alert.timestamp.isoformat())
    ).fetchall()
    return bool(reported_count) and (alert.rule != _COUNTING or measured >= alert.measured)


def _row(alert: Alert) -> tuple[object, ...]:
    return (
        alert.name,
        alert.rule,
        alert.chain,
        alert.token_address,
        alert.timestamp.isoformat(),
        alert.subject,
        alert.occasion,
        alert.measured,
        alert.threshold,
        json.dumps(alert.evidence),
    )


def _due(row: Sequence[object]) -> Due:
    (
        name,
        rule,
        chain,
        token,
        timestamp,
        subject,
        occasion,
        measured,
        threshold,
        evidence,
        found_at,
        destination,
        tries,
    ) = row
    kind = Notice if rule in NOTICES else Alert
    alert = kind(
        str(name),
        str(rule),
        str(chain),
        str(token),
        datetime.fromisoformat(str(timestamp)),
        str(subject),
        str(occasion),
        float(str(measured)),
        float(str(threshold)),
        json.loads(str(evidence)),
    )
    return Due(alert, datetime.fromisoformat(str(found_at)), str(destination), int(str(tries)))
