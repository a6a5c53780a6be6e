"""Delivery of alerts: evaluate the rules, add new alerts to the outbox, send them by log and webhook.

Each alert is sent once to each destination. An alert that could not be sent is retried later under the same key, until
it is older than ``alerts.max_age``.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from holderlake.alerts.outbox import Due, Outbox, OutboxBusy
from holderlake.alerts.rules import Alert, Span, evaluate, tokens_of
from holderlake.alerts.webhook import NotDelivered, Webhook, message_of
from holderlake.contract.times import utc_now
from holderlake.settings import Settings
from holderlake.settings.cron import interval_of
from holderlake.units import counted
from holderlake.workspace import Workspace

LOG: Final = "log"
WEBHOOK: Final = "webhook"
LOGGER: Final = logging.getLogger("holderlake.alerts")

_LONGEST_SECONDS: Final = 30.0
"""Seconds after which a delivery ends. The next delivery sends the remaining alerts."""


@dataclass
class DeliveryReport:
    """Result of one delivery. ``new_alerts`` are the alerts that it added to the outbox.

    ``sent_counts`` is the number of sent alerts by destination (``log``, ``webhook``). ``errors`` are the texts of
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
    rules = workspace.settings.alerts.in_force
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
    ``WarehouseError`` if there is no warehouse, and ``SettingsError`` if the file with the webhook's address or secret
    cannot be read.
    """
    now = now or utc_now()
    outbox = Outbox(workspace.state(workspace.settings.alerts_database))
    report = DeliveryReport()
    try:
        with outbox.delivering():
            webhook = webhook_of(workspace.settings)
            if evaluate:
                report.new_alerts = _new_alerts(workspace, outbox, [LOG, WEBHOOK] if webhook else [LOG], now)
            outbox.give_up(now - workspace.settings.alerts.max_age)
            _send_due(outbox, webhook, now, report)
    except OutboxBusy:
        report.is_busy = True
    return report


def notify(workspace: Workspace, alerts: Sequence[Alert]) -> DeliveryReport:
    """Add new alerts and notices to the outbox, and send those that are due. Each is sent once.

    Raises ``SettingsError`` if the file with the webhook's address or secret cannot be read.
    """
    now = utc_now()
    outbox = Outbox(workspace.state(workspace.settings.alerts_database))
    destinations = [LOG, WEBHOOK] if workspace.settings.has_webhook else [LOG]
    new_alerts = outbox.add(alerts, destinations, now)
    report = deliver_alerts(workspace, now, evaluate=False)
    report.new_alerts = new_alerts
    return report


def has_unsent(workspace: Workspace, now: datetime) -> bool:
    """Return whether an alert or notice has to be sent now, to the log or to the webhook if the settings have one."""
    outbox = Outbox(workspace.state(workspace.settings.alerts_database))
    if not outbox.exists:
        return False
    return any(due.destination != WEBHOOK or workspace.settings.has_webhook for due in outbox.due(now))


def webhook_of(settings: Settings) -> Webhook | None:
    """Return the webhook of the settings; None if they have none."""
    url, alert_settings = settings.webhook(), settings.alerts
    if url is None:
        return None
    return Webhook(
        url,
        settings.webhook_secret(),
        timeout=alert_settings.timeout_seconds,
        attempts=alert_settings.attempts,
        transport=settings.http_transport,
    )


def _new_alerts(workspace: Workspace, outbox: Outbox, destinations: list[str], now: datetime) -> list[Alert]:
    settings = workspace.settings
    interval = interval_of(settings.schedule.cron)
    new_alerts = []
    with workspace.warehouse.connect() as warehouse:
        for name, rule in settings.alerts.in_force.items():
            began = outbox.began(name, rule, now)
            span = Span(max(began, now - settings.alerts.max_age), now, interval, began)
            alerts = evaluate(warehouse, name, rule, tokens_of(rule, settings.watchlist), span)
            new_alerts += outbox.add(alerts, destinations, now)
    return new_alerts


def _send_due(outbox: Outbox, webhook: Webhook | None, now: datetime, report: DeliveryReport) -> None:
    began = time.monotonic()
    is_down = False
    for due in outbox.due(now):
        if due.destination == WEBHOOK and (webhook is None or is_down):
            continue
        if time.monotonic() - began > _LONGEST_SECONDS:
            report.errors.append("the webhook is slow; the remaining alerts are sent next time")
            break
        outbox.begin(due, now)
        try:
            _send(due, webhook)
        except NotDelivered as error:
            outbox.postpone(due, str(error), now)
            report.errors.append(str(error))
            is_down = error.is_transient
        else:
            outbox.finish(due, now)
            report.sent_counts[due.destination] = report.sent_counts.get(due.destination, 0) + 1


def _send(due: Due, webhook: Webhook | None) -> None:
    if due.destination == WEBHOOK and webhook is not None:
        webhook.send(message_of(due.alert, due.found_at))
    else:
        # JSON keeps the evidence in one line: anyone may have chosen the labels in it.
        LOGGER.warning("%s %s", due.alert.sentence, json.dumps(due.alert.evidence))
