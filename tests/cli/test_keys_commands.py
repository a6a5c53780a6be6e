"""``holderlake keys`` and ``holderlake keys usage``, with a SQLite file and with PostgreSQL."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from holderlake.cli.main import app, main
from holderlake.core.contract.times import utc_now
from holderlake.core.settings import load_settings
from holderlake.service.accounts import open_keys, prefix_of
from holderlake.service.billing.keys import KeyStore
from tests.helpers.ledgers import SECRET, Ledger

pytestmark = pytest.mark.integration

Run = Callable[..., Any]


@pytest.fixture
def environment(ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """Settings for the ledger's database: a PostgreSQL URL, or a home with the default file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDERLAKE_HOME", str(tmp_path))
    if ledger.server is None:
        return Ledger(tmp_path / "service" / "accounts.sqlite")
    monkeypatch.setenv("HOLDERLAKE_SERVICE__DATABASE", str(ledger.url))
    monkeypatch.setenv("HOLDERLAKE_SERVICE__SECRET", SECRET.decode())
    return ledger


def _invoke(*arguments: str) -> Result:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def _json(*arguments: str) -> Any:
    return json.loads(_invoke(*arguments, "--json").stdout)


def _spend(environment: Ledger, secret: str, endpoint: str, *costs: int) -> None:
    with environment.open() as keys:
        key = keys.find(secret)
        assert key is not None
        for cost in costs:
            keys.settle(keys.reserve(key.id, endpoint, cost))


def _fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command that fails; return its error output."""
    monkeypatch.setattr(sys, "argv", ["holderlake", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 1
    return capsys.readouterr().err


@pytest.mark.later(long=1)
def test_key_is_created_listed_and_revoked(environment):
    secret = _json("keys", "create", "reports", "--credits", "12.50", "--no-custom", "--renewal-day", "9")["key"]
    (line,) = _json("keys", "list")
    assert line["prefix"] == secret.split("_")[1]
    shown = [line[name] for name in ("name", "plan", "state", "spent", "allowance")]
    assert shown == ["reports", "standard", "in force", "0.00", "12.50"]
    assert line["renews on"].endswith("-09")
    assert line["prefix"] in _invoke("keys", "revoke", line["prefix"]).stdout
    assert _json("keys", "list")[0]["state"] == "ended"
    with environment.open() as keys:
        assert keys.find(secret) is None


def test_create_prints_only_the_key(environment):
    (line,) = _invoke("keys", "create", "reports").stdout.splitlines()
    with environment.open() as keys:
        assert keys.find(line) is not None
    assert "reports" in _invoke("keys", "list").stdout


@pytest.mark.later(long=1)
def test_rotated_key_ends_after_the_grace_period(environment):
    old = _json("keys", "create", "reports")["key"]
    rotated = _json("keys", "rotate", old.split("_")[1], "--grace", "24h")
    with environment.open() as keys:
        assert keys.find(rotated["key"]) is not None
        ends_at = keys.find(old).ends_at
    assert rotated["old_key_ends_at"] == ends_at.isoformat()
    assert timedelta(hours=23) < ends_at - utc_now() < timedelta(hours=25)
    states = [line["state"] for line in _json("keys", "list")]
    assert states == [f"ends {ends_at:%Y-%m-%d %H:%M}", "in force"]


def test_without_grace_period_the_old_key_ends_at_once(environment):
    old = _json("keys", "create", "reports")["key"]
    new = _invoke("keys", "rotate", f"hl_{old.split('_')[1]}").stdout.strip()
    with environment.open() as keys:
        assert keys.find(old) is None
        assert keys.find(new) is not None


@pytest.mark.later(long=1)
def test_plan_is_changed(environment):
    prefix = _json("keys", "create", "reports", "--credits", "10")["key"].split("_")[1]
    changed = _json("keys", "change", prefix, "--credits", "99.01", "--no-custom", "--renewal-day", "15")
    assert changed == {"name": "reports", "plan": "standard", "allowance": "99.01", "renewal day": 15}
    assert _json("keys", "change", prefix, "--custom")["allowance"] == "99.01"
    assert "custom" in _invoke("keys", "change", prefix).stdout


@pytest.mark.long
def test_usage_by_key_endpoint_and_day_with_totals(environment):
    first, second = (_json("keys", "create", name)["key"] for name in ("one", "two"))
    _spend(environment, first, "map", 25_00, 25_00)
    _spend(environment, first, "chains", 1)
    _spend(environment, second, "map", 75_00)
    totals = {"requests": 4, "credits_hundredths": 125_01}
    by_key = _json("keys", "usage")
    assert (by_key["by"], by_key["totals"]) == ("key", totals)
    lines = {line["name"]: line for line in by_key["lines"]}
    assert lines["one"] == {
        "key": first.split("_")[1],
        "name": "one",
        "requests": 3,
        "credits_hundredths": 50_01,
    }
    assert _json("keys", "usage", "--by", "endpoint") == {
        "totals": totals,
        "by": "endpoint",
        "lines": [
            {"endpoint": "chains", "requests": 1, "credits_hundredths": 1},
            {"endpoint": "map", "requests": 3, "credits_hundredths": 125_00},
        ],
    }
    (day,) = _json("keys", "usage", "--by", "day")["lines"]
    assert (day["requests"], day["credits_hundredths"]) == (4, 125_01)
    output = _invoke("keys", "usage", "--key", second.split("_")[1]).stdout
    assert "Total: 1 request, 75.00 credits." in output
    assert "one" not in output


@pytest.mark.later(long=1)
def test_unknown_key_names_the_command_that_lists_keys(environment, monkeypatch, capsys):
    commands = (("keys", "revoke"), ("keys", "rotate"), ("keys", "change"), ("keys", "usage", "--key"))
    for command in commands:
        assert "'holderlake keys list' shows all keys" in _fails(monkeypatch, capsys, *command, "00000000")


def test_wrong_secret_is_reported_without_showing_it(environment, monkeypatch, capsys):
    _json("keys", "create", "one")
    monkeypatch.setenv("HOLDERLAKE_SERVICE__SECRET", "something else of sixteen bytes")
    output = _fails(monkeypatch, capsys, "keys", "list")
    assert output.startswith("holderlake: HOLDERLAKE_SERVICE__SECRET is not the secret")
    assert "something else" not in output


def test_open_keys_finds_the_commands_keys(environment):
    secret = _json("keys", "create", "one")["key"]
    with open_keys(load_settings()) as keys:
        assert isinstance(keys, KeyStore)
        assert keys.find(secret) is not None


def test_prefix_of_accepts_prefixes_and_full_keys():
    assert {prefix_of(text) for text in ("0a1b2c3d", "hl_0a1b2c3d", "hl_0a1b2c3d_" + "0" * 48)} == {"0a1b2c3d"}
