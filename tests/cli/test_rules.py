"""Thresholds of the settings: they take effect, are reported when they change, and can be looked up."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from holderlake.cli.main import app
from holderlake.core.contract.rules import Rules
from holderlake.engine.catalog.rules import rules_in_force
from holderlake.engine.store.store import Store
from holderlake.service.billing.keys import KeyStore
from holderlake.service.run import BackgroundService
from holderlake.sources.sample_world import sample_rules, sample_store

Run = Callable[..., Any]

DEGREE = "HOLDERLAKE_ENGINE__THRESHOLDS__SUPERNODE_DEGREE"
TRANSFERS = """chain,token_address,token_standard,from_address,to_address,value,block_number,block_time,\
tx_hash,log_index
eth,0x00000000000000000000000000000000000000aa,erc20,0x0000000000000000000000000000000000000000,\
0x0000000000000000000000000000000000000001,5,1,1700000000,0x01,0
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in a new home."""
    monkeypatch.setenv("HOLDERLAKE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "transfers.csv").write_text(TRANSFERS)

    def run(*arguments: str) -> Any:
        ended = CliRunner().invoke(app, [*arguments])
        assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
        return ended

    return run


def store_rules(tmp_path: Path) -> Rules:
    with Store(tmp_path / "home" / "engine") as store:
        return store.rules


def rules_line(run: Run) -> dict[str, Any]:
    (line,) = (one for one in json.loads(run("doctor", "--json").stdout) if one["what"] == "rules")
    return dict(line)


def test_a_removed_threshold_falls_back_to_the_default(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DEGREE, "5")
    run("import", "files", "transfers.csv")
    assert store_rules(tmp_path).supernode_degree == 5
    monkeypatch.delenv(DEGREE)
    run("import", "files", "transfers.csv")
    assert store_rules(tmp_path).supernode_degree == Rules().supernode_degree


@pytest.mark.integration
def test_a_changed_threshold_is_logged_once(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run("import", "files", "transfers.csv")
    assert caplog.messages == []
    monkeypatch.setenv(DEGREE, "7")
    run("import", "files", "transfers.csv")
    run("import", "files", "transfers.csv")
    (message,) = caplog.messages
    assert "rules changed (supernode_degree from 10,000 to 7)" in message
    assert "backfill --stale" in message


def test_a_changed_use_of_labels_is_logged(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run("import", "files", "transfers.csv")
    monkeypatch.setenv("HOLDERLAKE_ENGINE__THRESHOLDS__LABELS", "latest")
    run("import", "files", "transfers.csv")
    assert "rules changed (labels from as_of to latest)" in caplog.text


def test_answers_kept_under_other_rules_no_longer_hold(tmp_path: Path) -> None:
    with Store(tmp_path, Rules(magic_links=3)) as store:
        before = store.generation()
        Store(tmp_path, Rules(magic_links=3)).close()
        assert store.first_change_since(before) is None
        Store(tmp_path, Rules(magic_links=4)).close()
        assert store.first_change_since(before) == 0


def test_opening_with_the_same_rules_does_not_wait_for_an_import(tmp_path: Path) -> None:
    with Store(tmp_path, Rules()) as store, store.change():
        Store(tmp_path, Rules()).close()


def test_the_doctor_shows_the_rules_of_the_own_store(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDERLAKE_PROVIDER__LOCAL", "store")
    monkeypatch.setenv(DEGREE, "7000")
    run("import", "files", "transfers.csv")
    assert "supernode_degree 7,000, hypernode_transfers 200,000" in rules_line(run)["found"]


@pytest.mark.integration
def test_the_doctor_shows_that_the_sample_world_has_its_own_rules(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DEGREE, "7000")
    line = rules_line(run)
    assert f"supernode_degree {sample_rules().supernode_degree}," in line["found"]
    assert "[engine.thresholds] apply to your own store" in line["advice"]


@pytest.mark.integration
def test_the_doctor_asks_our_own_service_for_its_rules(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        Store(sample_store(tmp_path / "home")) as store,
        KeyStore(tmp_path / "keys.sqlite") as keys,
        BackgroundService(store, keys) as service,
    ):
        monkeypatch.setenv("HOLDERLAKE_PROVIDER__URL", service.base_url)
        monkeypatch.setenv("HOLDERLAKE_API_KEY", keys.create("doctor", 100_00))
        found = rules_line(run)["found"]
    for name, value in rules_in_force(store.rules).items():
        if isinstance(value, int):
            assert f"{name} {value:,}" in found
