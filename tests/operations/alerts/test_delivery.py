"""Alerts are sent once by log and webhook, in spite of failures and kills."""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from dagster import DagsterEventType, DagsterInstance, RunRequest, SkipReason, build_sensor_context
from typer.testing import CliRunner

from holderlake.cli.launch import ingest_day
from holderlake.cli.main import app
from holderlake.core.contract.times import utc_now
from holderlake.core.settings import Settings, SettingsError, load_settings
from holderlake.core.workspace import Endpoint, Workspace
from holderlake.operations.alerts.delivery import deliver_alerts, evaluate_rules
from holderlake.operations.alerts.outbox import Outbox
from holderlake.operations.alerts.rules import BLOCK, HEAD, Alert
from holderlake.operations.alerts.settings import alerts_database
from holderlake.pipelines.definitions import build_defs
from tests.helpers.filling import MakeWorkspace
from tests.helpers.lakes import DAYS, write_holders
from tests.helpers.processes import DEVNULL, start, wait_until
from tests.helpers.receiver import Receiver

pytestmark = pytest.mark.integration

TOKEN = "0x000000000000000000000000000000000000000a"
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
NEW_HOLDER = {"newcomers": {"rule": "new_top_holder"}}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


Home = Callable[..., Workspace]


@pytest.fixture
def home(tmp_path: Path, empty_warehouse: Path) -> Home:
    """Return a function that opens a workspace over one home with an empty warehouse, without a provider."""
    shutil.copy(empty_warehouse, tmp_path / "warehouse.duckdb")

    def opened(receiver: Receiver | None = None, **alerts: Any) -> Workspace:
        where = {"webhook": receiver.url} if receiver else {}
        chosen = {"rules": NEW_HOLDER, "timeout_seconds": 30} | where | alerts
        settings = Settings(home=tmp_path, watchlist={"eth": [TOKEN]}, alerts=chosen)
        return Workspace(settings, lambda: Endpoint("http://127.0.0.1:1", None, "tests"))

    return opened


def load(workspace: Workspace, as_of: datetime, *addresses: str) -> None:
    write_holders(workspace.lake, "eth", as_of, {TOKEN: {address: 9 for address in addresses}})
    workspace.warehouse.load(workspace.lake)


def begin(workspace: Workspace) -> None:
    """Load a first list of holders and evaluate the rule for the first time."""
    load(workspace, DAYS[0], "0x1")
    assert deliver_alerts(workspace, DAYS[0] + MINUTE).new_alerts == []


def subjects(receiver: Receiver) -> list[str]:
    return [post.content["data"]["subject"] for post in receiver.posts]


# Each once


@pytest.mark.long
def test_an_alert_is_sent_once_by_log_and_webhook(
    home: Home, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    workspace = home(receiver)
    begin(workspace)
    load(workspace, DAYS[1], "0x1", "0x2")
    sent = [deliver_alerts(workspace, DAYS[1] + minute * MINUTE).sent_counts for minute in (1, 2, 90)]
    assert sent == [{"log": 1, "webhook": 1}, {}, {}]
    assert subjects(receiver) == ["0x2"]
    (record,) = [one for one in caplog.records if one.name == "holderlake.operations.alerts"]
    assert "newcomers: " in record.getMessage()
    assert '"rank_before":null' in record.getMessage()


@pytest.mark.long
def test_backfilled_history_sends_no_alerts(home: Home, receiver: Receiver) -> None:
    workspace = home(receiver)
    begin(workspace)
    for day in range(4):
        load(workspace, DAYS[0] - day * DAY, f"0x{day}")
    assert deliver_alerts(workspace, DAYS[0] + DAY).new_alerts == []
    assert len(evaluate_rules(workspace, DAYS[0] - 9 * DAY, DAYS[1])) == 3
    assert receiver.posts == []


@pytest.mark.long
def test_alerts_older_than_max_age_are_not_sent(home: Home, receiver: Receiver) -> None:
    workspace = home(receiver, max_age="2d")
    begin(workspace)
    for day in range(1, 5):
        load(workspace, DAYS[day], f"0x{day}")
    deliver_alerts(workspace, DAYS[4])
    assert sorted(subjects(receiver)) == ["0x2", "0x3", "0x4"]


@pytest.mark.long
def test_a_changed_rule_starts_again(home: Home, receiver: Receiver) -> None:
    begin(home(receiver, rules={"newcomers": {"rule": "new_top_holder", "top": 1}}))
    load(home(), DAYS[1], "0x1", "0x2")
    assert deliver_alerts(home(receiver), DAYS[1] + MINUTE).new_alerts == []


def test_an_alert_is_one_line_of_the_log(home: Home, receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    workspace = home(receiver, rules={"late": {"rule": "data_late", "threshold": 1}})
    begin(workspace)
    deliver_alerts(workspace, DAYS[3])
    (post,) = receiver.posts
    (record,) = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert "\n" not in record.getMessage()
    assert post.content["data"]["timestamp"] == f"{DAYS[3].isoformat()}+00:00"


# What fails


def test_a_failed_delivery_is_repeated_under_the_same_key(home: Home, receiver: Receiver) -> None:
    workspace = home(receiver)
    begin(workspace)
    load(workspace, DAYS[1], "0x1", "0x2", "0x3")
    receiver.statuses = [503, 204]
    first = deliver_alerts(workspace, DAYS[1] + MINUTE)
    assert (first.sent_counts, len(receiver.posts)) == ({"log": 2}, 1)
    assert first.errors == ["the webhook answers HTTP 503 (Service Unavailable)"]
    assert deliver_alerts(workspace, DAYS[1] + 3 * MINUTE).sent_counts == {"webhook": 2}
    keys = [post.headers["idempotency-key"] for post in receiver.posts]
    assert (keys[0], len(set(keys))) == (keys[1], 2)


@pytest.mark.long
def test_attempts_become_rarer_and_end_at_max_age(home: Home, receiver: Receiver) -> None:
    workspace = home(receiver)
    begin(workspace)
    load(workspace, DAYS[1], "0x1", "0x2")
    receiver.statuses = [404]
    for minute in (*range(0, 60, 2), *range(60, 24 * 60, 20)):
        deliver_alerts(workspace, DAYS[1] + minute * MINUTE, evaluate=minute == 0)
        if minute == 60:
            early = len(receiver.posts)
    assert 4 <= early <= 8
    assert 10 <= len(receiver.posts) - early <= 24
    deliver_alerts(workspace, DAYS[1] + 8 * DAY)
    ((log, webhook),) = Outbox(alerts_database(workspace.settings)).deliveries().values()
    assert (log.state, webhook.state) == ("sent", "given_up")
    assert webhook.error == "the webhook answers HTTP 404 (Not Found)"


@pytest.mark.long
def test_a_killed_delivery_is_repeated_under_the_same_key(home: Home, receiver: Receiver) -> None:
    workspace = home(receiver)
    begin(workspace)
    load(workspace, DAYS[1], "0x1", "0x2")
    receiver.statuses = [0, 204]
    code = (
        "import datetime, json, sys; from holderlake.core.settings import Settings;"
        "from holderlake.core.workspace import Workspace;"
        "from holderlake.operations.alerts.delivery import deliver_alerts;"
        "deliver_alerts(Workspace(Settings(**json.loads(sys.argv[1])), None), datetime.datetime(2026, 11, 2, 0, 1))"
    )
    alerts = {"rules": NEW_HOLDER, "webhook": receiver.url, "timeout_seconds": 30}
    settings = {"home": str(workspace.settings.home), "watchlist": {"eth": [TOKEN]}, "alerts": alerts}
    process = start(code, json.dumps(settings), stderr=DEVNULL)
    wait_until(lambda: receiver.posts, process)
    assert deliver_alerts(workspace, DAYS[1] + MINUTE).is_busy
    process.kill()
    process.wait()
    assert deliver_alerts(workspace, DAYS[1] + 2 * MINUTE).sent_counts == {"webhook": 1}
    first, second = receiver.posts
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    assert first.body == second.body


@pytest.mark.long
def test_an_unreadable_file_of_a_secret_stops_only_its_destination(home: Home, tmp_path: Path) -> None:
    workspace = home(webhook_file=tmp_path / "missing")
    begin(workspace)
    load(workspace, DAYS[1], "0x1", "0x2", "0x3")
    report = deliver_alerts(workspace, DAYS[1] + MINUTE)
    assert report.sent_counts == {"log": 2}
    (error,) = report.errors
    assert "must contain the webhook" in error


def test_a_new_webhook_receives_no_earlier_alerts(home: Home, receiver: Receiver) -> None:
    begin(home())
    load(home(), DAYS[1], "0x1", "0x2")
    assert deliver_alerts(home(), DAYS[1] + MINUTE).sent_counts == {"log": 1}
    assert deliver_alerts(home(receiver), DAYS[1] + 2 * MINUTE).sent_counts == {}


# Dagster


@pytest.mark.long
def test_the_sensor_launches_a_job_that_fails_without_the_webhook(
    home: Home, receiver: Receiver, instance: DagsterInstance
) -> None:
    workspace = home(receiver)
    defs = build_defs(workspace)
    sensor, job, cursor = defs.resolve_sensor_def("alerts"), defs.resolve_job_def("alerts"), None

    def tick() -> str | None:
        nonlocal cursor
        with build_sensor_context(instance=instance, cursor=cursor, resources={"workspace": workspace}) as context:
            launched = sensor(context)
            cursor = context.cursor
        if isinstance(launched, SkipReason):
            return launched.skip_message
        assert isinstance(launched, RunRequest)
        run = job.execute_in_process(instance=instance, run_config=dict(launched.run_config), raise_on_error=False)
        return "sent" if run.success else "failed"

    workspace.warehouse.path.unlink()
    assert tick() == "there is no warehouse yet"
    load(workspace, utc_now().replace(microsecond=0) - MINUTE, "0x1")
    assert tick() == "sent"
    assert len(receiver.posts) == 0
    load(workspace, utc_now().replace(microsecond=0) + timedelta(seconds=1), "0x1", "0x2")
    time.sleep(1.2)
    assert tick() == "sent"
    assert tick() == "no new data"
    assert len(receiver.posts) == 1
    receiver.statuses = [503]
    load(workspace, utc_now().replace(microsecond=0) + timedelta(seconds=1), "0x1", "0x2", "0x3")
    time.sleep(1.2)
    assert tick() == "failed"


@pytest.mark.parametrize(("alerts", "status"), [({}, "RUNNING"), ({"rules": {}}, "RUNNING")])
def test_the_sensor_runs_by_default(home: Home, alerts: dict[str, Any], status: str) -> None:
    sensor = build_defs(home(**alerts)).resolve_sensor_def("alerts")
    assert sensor.default_status.value == status


@pytest.mark.long
def test_a_rule_is_a_warning_check_of_its_asset(make_workspace: MakeWorkspace, instance: DagsterInstance) -> None:
    token = "ZVYQr764WqjREApVWyEHGP5VK8o7GynPsDi4tSH7B7D"
    workspace = make_workspace(
        watchlist={"solana": [token]},
        alerts={"rules": {"big": {"rule": "cluster_share"}, "bigger": {"rule": "cluster_share", "threshold": 0.9}}},
    )
    ingest_day(workspace, instance, "solana", [datetime(2025, 11, 1)])
    (run,) = instance.get_runs()
    events = [
        one.dagster_event for one in instance.all_logs(run.run_id, of_type=DagsterEventType.ASSET_CHECK_EVALUATION)
    ]
    found = [event.asset_check_evaluation_data for event in events if event]
    big, bigger = (next(one for one in found if one.check_name == f"alert_{name}") for name in ("big", "bigger"))
    assert (big.passed, big.severity.value, big.asset_key.to_user_string()) == (False, "WARN", "clusters")
    (evidence,) = big.metadata["first alerts"].value
    assert evidence["evidence"]["holder_count"] > 1
    assert bigger.passed


# The command


def command(home: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Any:
    monkeypatch.setenv("HOLDERLAKE_HOME", str(home))
    monkeypatch.setenv("HOLDERLAKE_WATCHLIST", json.dumps({"eth": [TOKEN]}))
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.long
def test_the_command_lists_alerts_and_sends_nothing(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = home()
    load(workspace, DAYS[0], "0x1")
    load(workspace, DAYS[1], "0x1", "0x2")
    answer = command(
        tmp_path, monkeypatch, "alerts", "list", "--json", "--from", "2026-11-01", "--rule", "new_top_holder"
    )
    (alert,) = json.loads(answer.stdout)
    assert (alert["subject"], alert["evidence"]["rank"], alert["deliveries"]) == ("0x2", 2, [])
    assert not alerts_database(workspace.settings).exists()


def test_the_command_tests_each_destination(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, receiver: Receiver
) -> None:
    named = tmp_path / "hook"
    named.write_text(receiver.url + "\n")
    monkeypatch.setenv("HOLDERLAKE_ALERTS__WEBHOOK_FILE", str(named))
    monkeypatch.setenv("HOLDERLAKE_ALERTS__SECRET", "sixteen letters and more")
    answer = command(tmp_path, monkeypatch, "alerts", "test", "--json")
    assert json.loads(answer.stdout)["accepted"] == ["log", "webhook"]
    assert receiver.posts[0].content["type"] == "holderlake.alert.test"
    receiver.statuses = [302]
    refused = command(tmp_path, monkeypatch, "alerts", "test")
    assert "redirect" in str(refused.exception)
    assert "s3cret" not in f"{answer.output}{refused.output}{refused.exception}"


@pytest.mark.long
def test_the_doctor_reports_alerts_that_wait_for_the_webhook(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, receiver: Receiver
) -> None:
    def finding() -> dict[str, Any]:
        findings = json.loads(command(tmp_path, monkeypatch, "doctor", "--json").stdout)
        (alerts,) = (one for one in findings if one["what"] == "alerts")
        return dict(alerts)

    monkeypatch.setenv("HOLDERLAKE_ALERTS__WEBHOOK", receiver.url)
    assert (finding()["fine"], finding()["found"]) == (True, "6 rules, delivered to log and webhook, not signed")
    workspace = home(receiver)
    begin(workspace)
    load(workspace, DAYS[1], "0x1", "0x2")
    receiver.statuses = [503]
    deliver_alerts(workspace, DAYS[1] + MINUTE)
    waiting = finding()
    assert not waiting["fine"]
    assert "1 could not be delivered: the webhook answers HTTP 503" in waiting["found"]
    assert "s3cret" not in str(waiting)


@pytest.mark.parametrize("name", ["webhook", "secret"])
def test_the_settings_file_must_not_hold_the_webhook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    file = tmp_path / "holderlake.toml"
    file.write_text(f'[alerts]\n{name} = "https://example.org/s3cret"\n')
    with pytest.raises(SettingsError, match=f"HOLDERLAKE_ALERTS__{name.upper()}") as refused:
        load_settings(file)
    assert "s3cret" not in str(refused.value)


def test_another_file_may_hold_the_webhook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [name for name in os.environ if name.startswith("HOLDERLAKE_")]:
        monkeypatch.delenv(variable)
    file = tmp_path / "holderlake.toml"
    file.write_text('[alerts]\nwebhook_file = "hook"\n[alerts.rules.big]\nrule = "cluster_share"\nthreshold = 0.2\n')
    settings = load_settings(file)
    (tmp_path / "hook").write_text("not an address")
    with pytest.raises(SettingsError, match="must contain the webhook"):
        settings.alerts.webhook_address()
    (tmp_path / "hook").write_text("https://example.org/hook\n")
    assert settings.alerts.webhook_address().get_secret_value() == "https://example.org/hook"
    assert settings.alerts.in_force["big"].limit == 0.2


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"rule": "cluster_share", "top": 5}, "has no setting top"),
        ({"rule": "cluster_share", "threshold": 10}, "0.1 is 10 %"),
        ({"rule": "score_fall", "within": "soon"}, "invalid duration"),
        ({"rule": "nothing"}, "cluster_share"),
    ],
)
def test_invalid_rules_are_refused(rule: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Settings(alerts={"rules": {"mine": rule}})


def test_alerts_after_a_block_are_found_by_its_number(tmp_path: Path) -> None:
    outbox, at = Outbox(tmp_path / "alerts.sqlite"), datetime(2026, 5, 1)
    alerts = [
        Alert("newcomers", "new_top_holder", "eth", TOKEN, at, f"0x{block}", f"{HEAD}{at}", 1.0, 5.0, {BLOCK: block})
        for block in (7, 8)
    ]
    outbox.add(alerts, ["log"], at)
    assert outbox.of_head("eth", at, 7) == alerts[1:]
