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
from typing import Any, Final, Literal

from sqlalchemy import (
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Identity,
    Index,
    MetaData,
    Table,
    Text,
    func,
    insert,
    select,
    text,
    update,
)

from holderlake.core.storage.owners import leased
from holderlake.core.storage.state import WHOLE, State, StateConnection, Where, inserted, open_state
from holderlake.operations.alerts.notices import NOTICES, Notice
from holderlake.operations.alerts.rules import BLOCK, HEAD, Alert
from holderlake.operations.alerts.settings import AlertRule

Status = Literal["pending", "sending", "sent", "given_up"]

_FIRST_WAIT: Final = timedelta(minutes=1)
_LONGEST_WAIT: Final = timedelta(hours=1)
_TABLES: Final = MetaData()
_RULES: Final = Table(
    "rules",
    _TABLES,
    *(Column(name, Text, primary_key=True) for name in ("name", "definition")),
    Column("began", Text, nullable=False),
    sqlite_with_rowid=False,
)
_COLUMNS: Final = ("name", "rule", "chain", "token_address", "timestamp", "subject", "occasion")
_ALERTS: Final = Table(
    "alerts",
    _TABLES,
    Column("id", WHOLE, Identity(), primary_key=True),
    Column("fingerprint", Text, nullable=False, unique=True),
    *(Column(name, Text, nullable=False) for name in _COLUMNS),
    *(Column(name, Double, nullable=False) for name in ("measured", "threshold")),
    *(Column(name, Text, nullable=False) for name in ("evidence", "found_at")),
    sqlite_autoincrement=True,
)
_STATES: Final = "state IN ('pending', 'sending', 'sent', 'given_up')"
_DELIVERIES: Final = Table(
    "deliveries",
    _TABLES,
    Column("alert", WHOLE, ForeignKey(_ALERTS.c.id), primary_key=True),
    Column("destination", Text, primary_key=True),
    Column("state", Text, CheckConstraint(_STATES), nullable=False),
    Column("attempts", WHOLE, nullable=False, server_default=text("0")),
    Column("next_at", Text, nullable=False),
    Column("error", Text),
    sqlite_with_rowid=False,
)
_IS_OPEN: Final = text("state IN ('pending', 'sending')")
Index("deliveries_open", _DELIVERIES.c.state, sqlite_where=_IS_OPEN, postgresql_where=_IS_OPEN)
_COUNTING: Final = "exchange_transfer"
"""The rule whose measured value counts events, so that alerts of parts of a period add up."""
_ALERT: Final = _ALERTS.c
_DELIVERY: Final = _DELIVERIES.c
_IS_OF_HEAD: Final = func.substr(_ALERT.occasion, 1, len(HEAD)) == HEAD
_ALERT_ROWS: Final = select(*(_ALERT[name] for name in (*_COLUMNS, "measured", "threshold", "evidence", "found_at")))


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
        key = {"name": name, "definition": rule.model_dump_json()}
        with self._db.transaction() as db:
            began = db.scalar(select(_RULES.c.began).filter_by(**key))
            if began is None:
                began = now.isoformat()
                db.execute(insert(_RULES), {**key, "began": began})
        return datetime.fromisoformat(began)

    def add(self, alerts: Iterable[Alert], destinations: Sequence[str], now: datetime) -> list[Alert]:
        """Add the alerts that are not in the outbox, to be sent to each destination. Return the added alerts.

        An alert about a period is not added if alerts at the head of the chain reported the same within this period.
        """
        new_alerts = []
        with self._db.transaction() as db:
            for alert in alerts:
                fingerprint = alert.fingerprint
                if _is_reported(db, alert) or db.scalar(select(_ALERT.id).where(_ALERT.fingerprint == fingerprint)):
                    continue
                (alert_id,) = inserted(db, _ALERTS, [_row(alert) | {"found_at": now.isoformat()}])
                delivery = {"alert": alert_id, "state": "pending", "next_at": now.isoformat()}
                if destinations:
                    db.execute(insert(_DELIVERIES), [delivery | {"destination": name} for name in destinations])
                new_alerts.append(alert)
        return new_alerts

    def due(self, now: datetime) -> list[Due]:
        """Return the deliveries to be made now: new ones, failed ones whose wait is over, and interrupted ones."""
        query = _ALERT_ROWS.add_columns(_DELIVERY.destination, _DELIVERY.attempts).join_from(_ALERTS, _DELIVERIES)
        due = query.where(_IS_OPEN, _DELIVERY.next_at <= now.isoformat())
        return [_due(row) for row in self._db.rows(due.order_by(_ALERT.id, _DELIVERY.destination))]

    def notices(self, since: datetime) -> list[Alert]:
        """Return the notices about events at or after ``since``, the oldest first; empty if there is no outbox yet."""
        if not self.exists:
            return []
        notices = _ALERT_ROWS.where(_ALERT.found_at >= since.isoformat(), _ALERT.rule.in_(NOTICES))
        return [_due((*row, "", 0)).alert for row in self._db.rows(notices.order_by(_ALERT.id))]

    def of_head(self, chain: str, since: datetime, after_block: int) -> list[Alert]:
        """Return the alerts that were found at the head of a chain as of blocks after ``after_block``, oldest first.

        ``since`` is the earliest time of these blocks. Several blocks may have the same time.
        """
        if not self.exists:
            return []
        of_head = _ALERT_ROWS.where(_ALERT.chain == chain, _ALERT.timestamp >= since.isoformat(), _IS_OF_HEAD)
        alerts = [_due((*row, "", 0)).alert for row in self._db.rows(of_head.order_by(_ALERT.id))]
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
        early = select(_ALERT.id).where(_ALERT.found_at < until.isoformat())
        given_up = update(_DELIVERIES).where(_IS_OPEN, _DELIVERY.alert.in_(early)).values(state="given_up")
        self._db.run(lambda db: db.execute(given_up))

    def deliveries(self) -> dict[str, list[Delivery]]:
        """Return all deliveries by the fingerprint of their alert; empty if the outbox has no file yet."""
        deliveries: dict[str, list[Delivery]] = {}
        if self.exists:
            columns = (_DELIVERY.destination, _DELIVERY.state, _DELIVERY.attempts, _DELIVERY.error)
            query = select(_ALERT.fingerprint, *columns).join_from(_ALERTS, _DELIVERIES)
            for fingerprint, *delivery in self._db.rows(query):
                deliveries.setdefault(fingerprint, []).append(Delivery(*delivery))
        return deliveries

    def delivering(self) -> AbstractContextManager[None]:
        """Lock the outbox during the ``with`` block. Raises ``OutboxBusy`` while another process delivers alerts."""
        return leased(self._location, "alerts", OutboxBusy())

    def _mark(self, due: Due, state: Status, attempts: int, next_at: datetime, error: str | None) -> None:
        alert = select(_ALERT.id).where(_ALERT.fingerprint == due.alert.fingerprint).scalar_subquery()
        delivery = update(_DELIVERIES).where(_DELIVERY.destination == due.destination, _DELIVERY.alert == alert)
        values = {"state": state, "attempts": _DELIVERY.attempts + attempts, "next_at": next_at.isoformat()}
        self._db.run(lambda db: db.execute(delivery.values(values | {"error": error})))

    @cached_property
    def _db(self) -> State:
        return open_state(self._location, _TABLES, "FULL")  # after a power cut nothing is sent twice


def _is_reported(db: StateConnection, alert: Alert) -> bool:
    if alert.since is None:
        return False
    reported = select(func.count(), func.sum(_ALERT.measured)).where(
        *(_ALERT[name] == getattr(alert, name) for name in ("name", "rule", "chain", "token_address", "subject")),
        _ALERT.timestamp > alert.since.isoformat(),
        _ALERT.timestamp <= alert.timestamp.isoformat(),
        _IS_OF_HEAD,
    )
    ((reported_count, measured),) = db.execute(reported)
    return bool(reported_count) and (alert.rule != _COUNTING or measured >= alert.measured)


def _row(alert: Alert) -> dict[str, object]:
    texts = {name: getattr(alert, name) for name in _COLUMNS} | {"timestamp": alert.timestamp.isoformat()}
    numbers = {"measured": alert.measured, "threshold": alert.threshold}
    return texts | numbers | {"fingerprint": alert.fingerprint, "evidence": json.dumps(alert.evidence)}


def _due(row: Sequence[Any]) -> Due:
    name, rule, chain, token, timestamp, subject, occasion, measured, threshold = row[:9]
    evidence, found_at, destination, attempts = row[9:]
    kind = Notice if rule in NOTICES else Alert
    at = datetime.fromisoformat(timestamp)
    alert = kind(name, rule, chain, token, at, subject, occasion, measured, threshold, json.loads(evidence))
    return Due(alert, datetime.fromisoformat(found_at), destination, attempts)
