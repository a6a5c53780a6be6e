"""The book of alerts: what was found, and how far the telling of each is; an SQLite file with a write-ahead log.

A delivery is noted before it is tried and again when it was taken, so that one that was killed in between is sent once
more, under the same key. What is news, and how it is sent, stands in ``holderlake.alerts.delivery``.
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

from holderlake.alerts.rules import Alert
from holderlake.settings.sections.alerts import AlertRule
from holderlake.storage.locks import locked
from holderlake.storage.sqlite import Database

State = Literal["pending", "sending", "sent", "given_up"]

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
_COLUMNS: Final = "name, rule, chain, token_address, timestamp, subject, occasion, measured, threshold, evidence"
_ADD: Final = f"INSERT OR IGNORE INTO alerts (fingerprint, {_COLUMNS}, found_at) VALUES ({', '.join('?' * 12)})"
_PROMISE: Final = """
INSERT INTO deliveries (alert, destination, state, next_at)
SELECT id, ?, 'pending', ? FROM alerts WHERE fingerprint = ?
"""
_DUE: Final = f"""
SELECT {_COLUMNS}, found_at, destination, attempts
FROM deliveries JOIN alerts ON alerts.id = deliveries.alert
WHERE state IN ('pending', 'sending') AND next_at <= ?
ORDER BY alerts.id, destination
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
    """A delivery that is to be made: the alert, where to, and how often it was tried before."""

    alert: Alert
    found_at: datetime
    destination: str
    attempts: int


class OutboxBusy(Exception):
    """Another process is delivering."""


@dataclass(frozen=True)
class Delivery:
    """How far a delivery is; ``error`` says why the last try was in vain."""

    destination: str
    state: State
    attempts: int
    error: str | None


class AlertBook:
    """The book at ``path``; it is made when something is first written."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def began(self, name: str, rule: AlertRule, now: datetime) -> datetime:
        """When a rule, as it is now, was first evaluated; ``now`` where it never was, which is remembered."""
        definition = rule.model_dump_json()
        with self._book.transaction() as book:
            book.execute("INSERT OR IGNORE INTO rules VALUES (?, ?, ?)", [name, definition, now.isoformat()])
            found = book.execute("SELECT began FROM rules WHERE name = ? AND definition = ?", [name, definition])
            return datetime.fromisoformat(found.fetchone()[0])

    def add(self, alerts: Iterable[Alert], destinations: Sequence[str], now: datetime) -> list[Alert]:
        """Notes what was found, to be told to each destination. Gives what is new; the rest stays as it is."""
        new = []
        with self._book.transaction() as book:
            for alert in alerts:
                if book.execute(_ADD, (alert.fingerprint, *_row(alert), now.isoformat())).rowcount:
                    for destination in destinations:
                        book.execute(_PROMISE, (destination, now.isoformat(), alert.fingerprint))
                    new.append(alert)
        return new

    def due(self, now: datetime) -> list[Due]:
        """What is to be sent now: the new, what failed and has waited, and what was under way when it was killed."""
        with self._book.transaction() as book:
            return [_due(row) for row in book.execute(_DUE, [now.isoformat()]).fetchall()]

    def begin(self, due: Due, now: datetime) -> None:
        """Notes that a delivery is tried now."""
        self._mark(due, "sending", 1, now, None)

    def finish(self, due: Due, now: datetime) -> None:
        """Notes that a delivery was taken."""
        self._mark(due, "sent", 0, now, None)

    def put_off(self, due: Due, error: str, now: datetime) -> None:
        """Notes that a delivery failed, and when it is tried again: later each time, an hour at most."""
        self._mark(due, "pending", 0, now + min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(due.attempts, 10)), error)

    def give_up(self, before: datetime) -> None:
        """Ends the tries of what was found before an instant and could not be sent since."""
        with self._book.transaction() as book:
            book.execute(_GIVE_UP, [before.isoformat()])

    def deliveries(self) -> dict[str, list[Delivery]]:
        """How far the deliveries are, by the fingerprints of alerts; nothing where there is no book yet."""
        found: dict[str, list[Delivery]] = {}
        if self.path.exists():
            with self._book.transaction() as book:
                for fingerprint, *own in book.execute(_STATES).fetchall():
                    found.setdefault(fingerprint, []).append(Delivery(*own))
        return found

    def delivering(self) -> AbstractContextManager[None]:
        """Hold the right to deliver. Raises ``OutboxBusy`` while another process delivers."""
        return locked(self.path.with_name(f"{self.path.name}.lock"), OutboxBusy())

    def _mark(self, due: Due, state: State, tries: int, next_at: datetime, error: str | None) -> None:
        with self._book.transaction() as book:
            told = (state, tries, next_at.isoformat(), error, due.destination, due.alert.fingerprint)
            book.execute(_MARK, told)

    @cached_property
    def _book(self) -> Database:
        return Database(self.path, _SCHEMA, "FULL")  # what was sent stays sent when the power fails


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
    name, rule, chain, token, timestamp, subject, occasion, measured, threshold, evidence, found_at, where, tries = row
    alert = Alert(
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
    return Due(alert, datetime.fromisoformat(str(found_at)), str(where), int(str(tries)))
