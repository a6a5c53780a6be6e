"""Alerts from the warehouse to people: evaluates the rules, notes what is news, and tells it by log and webhook.

The sensor and the command do the same, one at a time. Each alert is told once: what could not be sent is tried again at
another time under the same key, until it is too old to be news.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from holderlake.alerts.outbox import AlertBook, Due, OutboxBusy
from holderlake.alerts.rules import Alert, Span, evaluate, tokens_of
from holderlake.alerts.webhook import NotDelivered, Webhook, message_of
from holderlake.contract.times import utc_now
from holderlake.settings import Settings
from holderlake.settings.cron import interval_of
from holderlake.workspace import Workspace

LOG: Final = "log"
WEBHOOK: Final = "webhook"
LOGGER: Final = logging.getLogger("holderlake.alerts")

_PATIENCE_SECONDS: Final = 30.0
"""A round ends after this long: Dagster gives a sensor a minute. What is left is sent in the next one."""


@dataclass
class Told:
    """What a round did: the news that it found, and by destination what was sent; ``errors`` in words."""

    news: list[Alert] = field(default_factory=list)
    sent: dict[str, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    is_busy: bool = False
    """Another process was delivering, so nothing was done."""

    def __str__(self) -> str:
        if self.is_busy:
            return "another process delivers alerts just now"
        sent = ", ".join(f"{count} by {where}" for where, count in sorted(self.sent.items())) or "nothing"
        failed = f"; not delivered: {'; '.join(dict.fromkeys(self.errors))}" if self.errors else ""
        return f"{len(self.news)} new alerts; sent {sent}{failed}"


def find(workspace: Workspace, since: datetime, until: datetime, names: Collection[str] = ()) -> list[Alert]:
    """What the rules find as of a span of time, the oldest first; nothing is noted and nobody told."""
    rules = workspace.settings.alerts.in_force
    unknown = sorted(set(names) - rules.keys())
    if unknown:
        raise ValueError(f"there is no rule {unknown[0]}; there are {', '.join(sorted(rules)) or 'none'}")
    span = Span(since, until, interval_of(workspace.settings.schedule.cron))
    found = [
        alert
        for name, rule in rules.items()
        if not names or name in names
        for alert in evaluate(workspace.warehouse, name, rule, tokens_of(rule, workspace.settings.watchlist), span)
    ]
    return sorted(found, key=lambda alert: (alert.timestamp, alert.name, alert.chain, alert.token_address))


def tell(workspace: Workspace, now: datetime | None = None, *, anew: bool = True) -> Told:
    """One round: evaluates all rules, notes what is new, and delivers what is due.

    A rule begins with its first evaluation: what is true as of an instant before is history, and so is what is older
    than the settings' ``max_age``. Not ``anew``, it only delivers what was found before. Raises ``WarehouseError``
    where there is no warehouse, ``SettingsError`` where the webhook's file can't be read.
    """
    when = now or utc_now()
    book = AlertBook(workspace.settings.alerts_book)
    told = Told()
    try:
        with book.delivering():
            webhook = webhook_of(workspace.settings)
            if anew:
                told.news = _news(workspace, book, [LOG, *([WEBHOOK] if webhook else [])], when)
            book.give_up(when - workspace.settings.alerts.max_age)
            _deliver(book, webhook, when, told)
    except OutboxBusy:
        told.is_busy = True
    return told


def webhook_of(settings: Settings) -> Webhook | None:
    """The settings' webhook, if they name one."""
    url, chosen = settings.webhook(), settings.alerts
    if url is None:
        return None
    return Webhook(
        url,
        settings.webhook_secret(),
        timeout=chosen.timeout_seconds,
        attempts=chosen.attempts,
        transport=settings.http_transport,
    )


def _news(workspace: Workspace, book: AlertBook, destinations: list[str], now: datetime) -> list[Alert]:
    settings = workspace.settings
    interval = interval_of(settings.schedule.cron)
    news = []
    for name, rule in settings.alerts.in_force.items():
        began = book.began(name, rule, now)
        span = Span(max(began, now - settings.alerts.max_age), now, interval, began)
        found = evaluate(workspace.warehouse, name, rule, tokens_of(rule, settings.watchlist), span)
        news += book.add(found, destinations, now)
    return news


def _deliver(book: AlertBook, webhook: Webhook | None, now: datetime, told: Told) -> None:
    began = time.monotonic()
    is_down = False
    for due in book.due(now):
        if due.destination == WEBHOOK and (webhook is None or is_down):
            continue
        if time.monotonic() - began > _PATIENCE_SECONDS:
            told.errors.append("the webhook is slow; the rest is sent in the next round")
            break
        book.begin(due, now)
        try:
            _send(due, webhook)
        except NotDelivered as error:
            book.put_off(due, str(error), now)
            told.errors.append(str(error))
            is_down = error.is_transient
        else:
            book.finish(due, now)
            told.sent[due.destination] = told.sent.get(due.destination, 0) + 1


def _send(due: Due, webhook: Webhook | None) -> None:
    if due.destination == WEBHOOK and webhook is not None:
        webhook.send(message_of(due.alert, due.found_at))
    else:
        # as JSON, all in one line of plain letters: evidence holds labels, which anybody may have chosen
        LOGGER.warning("%s %s", due.alert.sentence, json.dumps(due.alert.evidence))
