"""``holderlake alerts``: list alerts, deliver them, and test the destinations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from holderlake.cli import shared
from holderlake.cli.exit_codes import ExitCode
from holderlake.cli.shared import From, Json, To
from holderlake.core.contract.times import parse_end, parse_when, utc_now
from holderlake.core.units import counted
from holderlake.presentation import console

if TYPE_CHECKING:
    from datetime import datetime

    from holderlake.core.settings import Settings
    from holderlake.operations.alerts.delivery import DeliveryReport
    from holderlake.operations.alerts.outbox import Delivery
    from holderlake.operations.alerts.rules import Alert


app = typer.Typer(help="List the alerts of the warehouse's rules, and deliver them.", no_args_is_help=True)


@app.command("list")
def list_alerts(
    start: From = None,
    end: To = None,
    rule: Annotated[list[str] | None, typer.Option("--rule", help="Only this rule; may be given again.")] = None,
    json: Json = False,
) -> None:
    """List the alerts of the warehouse's rules with their deliveries, and notices about the pipeline. It sends none.

    By default it lists those since alerts.max_age ago.

    Example: holderlake alerts list --from 2025-01-01 --rule cluster_share
    """
    from holderlake.operations.alerts.delivery import evaluate_rules
    from holderlake.operations.alerts.settings import AlertSettings

    settings = shared.settings()
    now = utc_now()
    since = now - settings.section(AlertSettings).max_age if start is None else parse_when(start)
    until = now if end is None else parse_end(end)
    shared.check_period(since, until)
    _report_found(settings, evaluate_rules(shared.workspace(settings), since, until, rule or ()), since, json)


@app.command("deliver")
def deliver_new_alerts(json: Json = False) -> None:
    """Send new alerts to all destinations, as the sensor does.

    Example: holderlake alerts deliver
    """
    from holderlake.operations.alerts.delivery import deliver_alerts

    _report_delivery(deliver_alerts(shared.workspace()), json)


@app.command("test")
def send_test(json: Json = False) -> None:
    """Send a test notice to each destination of the settings.

    Example: holderlake alerts test
    """
    from holderlake.errors import RunFailed, SettingsError
    from holderlake.operations.alerts.destinations import NotDelivered, destinations_of
    from holderlake.operations.alerts.notices import test_notice

    now = utc_now()
    notice = test_notice(now)
    accepted, errors = [], []
    for name, open_destination in destinations_of(shared.settings()).items():
        try:
            destination = open_destination()
            destination.send(notice, now)
            accepted.append(destination.description)
        except (NotDelivered, SettingsError) as error:
            errors.append(f"{name}: {error}")
    if json:
        console.as_json({"fingerprint": notice.fingerprint, "accepted": accepted, "errors": errors})
    elif accepted:
        console.out.print(f"The test notice {notice.fingerprint} was accepted by: {'; '.join(accepted)}.")
    if errors:
        raise RunFailed("; ".join(errors))


def _report_delivery(report: DeliveryReport, as_json: bool) -> None:
    if as_json:
        new_alerts = [_plain(alert, []) for alert in report.new_alerts]
        console.as_json(
            {"new": new_alerts, "sent": report.sent_counts, "errors": report.errors, "busy": report.is_busy}
        )
    else:
        text = str(report)
        console.out.print(f"{text[0].upper()}{text[1:]}.")
    if report.errors:
        raise typer.Exit(ExitCode.SOME_FAILED)


def _report_found(settings: Settings, found_alerts: list[Alert], since: datetime, as_json: bool) -> None:
    from holderlake.core.workspace import state_of
    from holderlake.operations.alerts.outbox import Outbox
    from holderlake.operations.alerts.settings import alerts_database

    outbox = Outbox(state_of(settings, alerts_database(settings)))
    deliveries = outbox.deliveries()
    notices = outbox.notices(since)
    if as_json:
        console.as_json([_plain(alert, deliveries.get(alert.fingerprint, [])) for alert in [*found_alerts, *notices]])
        return
    if notices:
        console.rows(
            "Notices about the pipeline", ("at", "notice"), [(notice.timestamp, notice.sentence) for notice in notices]
        )
    if not found_alerts:
        console.out.print(f"No alerts since {since:%Y-%m-%d %H:%M} UTC; --from looks further back.")
        return
    console.rows(
        "",
        ("as of", "alert", "chain", "token", "subject", "measured", "threshold", "delivered"),
        [
            (
                alert.timestamp,
                alert.name,
                alert.chain,
                alert.token_address,
                alert.subject if alert.subject != alert.token_address else "the token",
                alert.measured,
                alert.threshold,
                ", ".join(
                    f"{delivery.destination} {delivery.state}" for delivery in deliveries.get(alert.fingerprint, [])
                )
                or "-",
            )
            for alert in found_alerts
        ],
    )
    console.out.print(f"{counted(len(found_alerts), 'alert')}; --json adds their evidence.")


def _plain(alert: Alert, deliveries: list[Delivery]) -> dict[str, Any]:
    return {
        "name": alert.name,
        "rule": alert.rule,
        "chain": alert.chain,
        "token_address": alert.token_address,
        "timestamp": alert.timestamp,
        "subject": alert.subject,
        "measured": alert.measured,
        "threshold": alert.threshold,
        "text": alert.sentence,
        "evidence": alert.evidence,
        "fingerprint": alert.fingerprint,
        "deliveries": [vars(delivery) for delivery in deliveries],
    }
