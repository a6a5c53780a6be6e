"""``holderlake init``: the file that it writes, its questions, and the next commands."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from holderlake.cli.main import app
from holderlake.core.settings import Settings, load_settings
from holderlake.engine.records import TRANSFERS
from holderlake.engine.settings import store_folder
from holderlake.engine.store.store import Store
from tests.engine.world import transfer
from tests.helpers.processes import ROOT

TOKEN = "0x" + "9" * 40
URL = "https://api.example.com"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the current directory an empty one, and remove all settings from the environment."""
    for name in [name for name in os.environ if name.startswith("HOLDERLAKE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def init(*options: str) -> list[str]:
    """Run the command, and return the next commands that it shows."""
    ended = CliRunner().invoke(app, ["init", "--json", *options])
    assert ended.exit_code == 0, ended.exception
    return [*json.loads(ended.stdout)["next"]]


def error(*options: str) -> str:
    ended = CliRunner().invoke(app, ["init", *options])
    assert ended.exit_code != 0
    return str(ended.exception)


def test_the_file_has_the_values_of_the_options() -> None:
    init("--provider", URL, "--chain", "eth", "--token", TOKEN, "--token", "native", "--per-month", "50.5")
    settings = load_settings()
    assert settings.provider.url == URL
    assert settings.watchlist == {"eth": [TOKEN, "native"]}
    assert settings.budget.per_month == 5_050


def test_a_file_without_options_changes_no_setting() -> None:
    assert init() == ["holderlake ingest", "holderlake explore --open"]
    assert load_settings() == Settings()


def test_each_default_and_example_in_the_file_is_valid(folder: Path) -> None:
    init()
    path = folder / "holderlake.toml"
    text, lines = re.subn(r"^# (\w+ = )", r"\1", path.read_text(), flags=re.MULTILINE)
    path.write_text(text.replace('local = "sample"\n', ""))
    assert lines == 12
    assert load_settings().schedule == Settings(schedule={"start": "2026-01-01"}).schedule
    assert load_settings().watchlist.keys() == {"eth"}


def test_an_existing_file_stays(folder: Path) -> None:
    (folder / "holderlake.toml").write_text("[maps]\nlimit = 250\n")
    assert error() == "holderlake.toml exists already; edit it, or remove it first"
    assert load_settings().maps.limit == 250


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--provider", "ftp://x"), "provider.url: an address with http:// or https:// is expected"),
        (("--provider", URL, "--per-month", "many"), "budget.per_month: 'many' is not an amount of credits"),
        (("--provider", URL, "--own-data"), "--provider and --own-data exclude each other"),
        (("--chain", "eth"), "give both or none"),
        (("--chain", "eth", "--token", "0x12"), "'0x12' is not an address of chain eth"),
        (("--chain", "KELP", "--token", "eth"), "no known chain, but 'eth' is: write --chain eth --token ADDRESS"),
        (("--chain", "etherem", "--token", TOKEN), "chain etherem is not known; did you mean eth?"),
    ],
)
def test_a_wrong_value_is_named_and_writes_no_file(options: tuple[str, ...], expected: str, folder: Path) -> None:
    assert expected in error(*options)
    assert list(folder.iterdir()) == []


def test_the_key_comes_next_if_the_environment_lacks_it(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    watched = ("--provider", URL, "--chain", "eth", "--token", TOKEN)
    commands = init(*watched)
    assert commands == [
        "export HOLDERLAKE_API_KEY=…",
        "holderlake doctor",
        "holderlake ingest",
        "holderlake explore --open",
    ]
    monkeypatch.setenv("HOLDERLAKE_API_KEY", "hl_key")
    (folder / "holderlake.toml").unlink()
    assert init(*watched) == commands[1:]


def test_another_home_is_used_if_the_default_one_has_a_lake(folder: Path) -> None:
    (folder / "data" / "lake").mkdir(parents=True)
    (folder / "data" / "engine").mkdir()
    commands = init("--own-data")
    settings = load_settings()
    assert (settings.home, store_folder(settings)) == (Path("my-lake"), Path("data/engine"))
    assert commands == ["holderlake ingest --chain CHAIN --token TOKEN", "holderlake explore --open"]


def test_the_first_map_of_own_data_is_as_of_the_last_transfer(folder: Path) -> None:
    with Store(folder / "data" / "engine") as store:
        rows = [transfer("mint -> a", 5, at, token=("eth", TOKEN)) for at in (1_700_000_000, 1_700_000_100)]
        store.add_transfers(pa.Table.from_pylist(rows, TRANSFERS), "test")
    commands = init("--own-data", "--chain", "eth", "--token", TOKEN)
    assert commands[0] == "holderlake ingest --at 2023-11-14T22:15:00Z  # the last transfer"


@pytest.mark.integration
def test_a_terminal_is_asked_until_the_answers_are_valid(folder: Path) -> None:
    answers = ["other", "provider", "ftp://x", URL, "many", "5000", "eth", "0x12", TOKEN]
    terminal, inside = pty.openpty()
    os.write(terminal, "".join(f"{answer}\n" for answer in answers).encode())
    command = [sys.executable, "-m", "holderlake.cli.main", "init"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        command, stdin=inside, capture_output=True, text=True, cwd=folder, env=env, timeout=60, check=False
    )
    os.close(terminal)
    os.close(inside)
    assert (ended.returncode, ended.stderr.count("Error: ")) == (0, 4)
    settings = load_settings()
    assert (settings.provider.url, settings.budget.per_month) == (URL, 500_000)
    assert settings.watchlist == {"eth": [TOKEN]}
