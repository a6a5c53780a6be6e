"""Delivery of alerts: evaluate the rules, add new alerts to the outbox, send them to their destinations.

Each alert is sent once to each destination. An alert that could not be sent is retried later under the same key, until
it is older than ``alerts.max_age``.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from holderlake.core.contract.times import utc_now
from holderlake.core.settings import SettingsError
from holderlake.core.settings.cron import interval_of
from holderlake.core.units import counted
from holderlake.core.workspace import Workspace
from holderlake.operations.alerts.destinations import NotDelivered, destinations_of
from holderlake.operations.alerts.outbox import Outbox, OutboxBusy
from holderlake.operations.alerts.rules import Alert, Span, evaluate, tokens_of
from holderlake.operations.alerts.settings import AlertSettings, alerts_database

_LAST_BEGIN_SECONDS: Final = 20.0
"""Time after which a delivery sends no further alert; the next delivery does.

The last alert takes at most ``alerts.timeout_seconds`` (30 s) more, so a delivery ends before a tick of Dagster's
sensors has to (60 s).
"""


@dataclass
class DeliveryReport:
    """Result of one delivery. ``new_alerts`` are the alerts that it added to the outbox.

    ``sent_counts`` is the number of sent alerts by the name of their destination. ``errors`` are the texts of
    failed attempts.
    """

    new_alerts: list[Alert] = field(default_factory=list)
    sent_counts: dict[str, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    is_busy: bool = False
    """True if another process was delivering alerts, so this delivery did nothing."""

    def __str__(self) -> str:
        if self.is_busy:
            return "another process is delivering alerts"
        sent_text = ", ".join(f"{count} by {name}" for name, count in sorted(self.sent_counts.items())) or "nothing"
        failed = f"; not delivered: {'; '.join(dict.fromkeys(self.errors))}" if self.errors else ""
        return f"{counted(len(self.new_alerts), 'new alert')}; sent {sent_text}{failed}"


def evaluate_rules(workspace: Workspace, since: datetime, until: datetime, names: Collection[str] = ()) -> list[Alert]:
    """Return the alerts of the rules ``names`` (empty: all) from ``since`` to ``until`` (UTC), oldest first.

    Adds nothing to the outbox. Raises ``ValueError`` for an unknown rule.
    """
    rules = workspace.settings.section(AlertSettings).in_force
    unknown = sorted(set(names) - rules.keys())
    if unknown:
        advice = f"use one of {', '.join(sorted(rules))}" if rules else "the settings have none; add rules to [alerts]"
        raise ValueError(f"unknown rule {unknown[0]!r}: {advice}")
    span = Span(since, until, interval_of(workspace.settings.schedule.cron))
    with workspace.warehouse.connect() as warehouse:
        alerts = [
            alert
            for name, rule in rules.items()
            if not names or name in names
            for alert in evaluate(warehouse, name, rule, tokens_of(rule, workspace.settings.watchlist), span)
        ]
    return sorted(alerts, key=lambda alert: (alert.timestamp, alert.name, alert.chain, alert.token_address))


def deliver_alerts(workspace: Workspace, now: datetime | None = None, *, evaluate: bool = True) -> DeliveryReport:
    """Evaluate all rules, add new alerts to the outbox, and send the alerts and notices that are due.

    Instants before a rule's first evaluation, or older than the setting ``alerts.max_age``, give no alerts. With
    ``evaluate=False``, no rule is evaluated. ``now`` is naive UTC, by default the current time. Raises
    ``WarehouseError`` if there is no warehouse.
    """
    now = now or utc_now()
    outbox = Outbox(workspace.state(alerts_database(workspace.settings)))
    report = DeliveryReport()
    try:
        with outbox.delivering():
            if evaluate:
                report.new_alerts = _new_alerts(workspace, outbox, now)
            outbox.give_up(now - workspace.settings.section(AlertSettings).max_age)
            _send_due(workspace, outbox, now, report)
    except OutboxBusy:
        report.is_busy = True
    return report


def enqueue(workspace: Workspace, alerts: Sequence[Alert]) -> list[Alert]:
    """Add alerts and notices to the outbox, and return those that are new. The next delivery sends them."""
    outbox = Outbox(workspace.state(alerts_database(workspace.settings)))
    return outbox.add(alerts, [*destinations_of(workspace.settings)], utc_now())


def notify(workspace: Workspace, alerts: Sequence[Alert]) -> DeliveryReport:
    """Add new alerts and notices to the outbox, and send those that are due. Each is sent once."""
    new_alerts = enqueue(workspace, alerts)
    report = deliver_alerts(workspace, evaluate=False)
    report.new_alerts = new_alerts
    return report


def has_unsent(workspace: Workspace, now: datetime) -> bool:
    """Return whether an alert or notice has to be sent now to a destination of the settings."""
    outbox = Outbox(workspace.state(alerts_database(workspace.settings)))
    if not outbox.exists:
        return False
    destinations = destinations_of(workspace.settings)
    return any(due.destination in destinations for due in outbox.due(now))


def _new_alerts(workspace: Workspace, outbox: Outbox, now: datetime) -> list[Alert]:
    settings = workspace.settings
    destinations, interval = [*destinations_of(settings)], interval_of(settings.schedule.cron)
    new_alerts = []
    with workspace.warehouse.connect() as warehouse:
        for name, rule in settings.section(AlertSettings).in_force.items():
            began = outbox.began(name, rule, now)
            span = Span(max(began, now - settings.section(AlertSettings).max_age), now, interval, began)
            alerts = evaluate(warehouse, name, rule, tokens_of(rule, settings.watchlist), span)
            new_alerts += outbox.add(alerts, destinations, now)
    return new_alerts


def _send_due(workspace: Workspace, outbox: Outbox, now: datetime, report: DeliveryReport) -> None:
    """Send the alerts that are due, and record each attempt. Leave out a destination after a transient failure."""
    began = time.monotonic()
    destinations = destinations_of(workspace.settings)
    for due in outbox.due(now):
        if due.destination not in destinations:
            continue
        if time.monotonic() - began > _LAST_BEGIN_SECONDS:
            report.errors.append(f"the {due.destination} is slow; the remaining alerts are sent next time")
            break
        outbox.begin(due, now)
        try:
            destinations[due.destination]().send(due.alert, due.found_at)
        except (NotDelivered, SettingsError) as error:
            outbox.postpone(due, str(error), now)
            report.errors.append(str(error))
            if not isinstance(error, NotDelivered) or error.is_transient:
                del destinations[due.destination]
        else:
            outbox.finish(due, now)
            report.sent_counts[due.destination] = report.sent_counts.get(due.destination, 0) + 1
