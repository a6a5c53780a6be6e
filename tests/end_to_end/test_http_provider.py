"""Commands against a provider over HTTP: what they print, and how they end."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RunningService
from tests.helpers.changed_service import Change, ChangedService
from tests.helpers.commands import holderlake
from tests.helpers.misbehaving import Received, Step, endless, half, token_map
from tests.helpers.processes import HOLDERLAKE, Ended, run

pytestmark = pytest.mark.long

TOKEN = "native"


@pytest.fixture(autouse=True)
def data(empty_home: Path, tmp_path: Path) -> Path:
    """The home of the commands, with an empty history and warehouse: a command takes a second to create them."""
    return shutil.copytree(empty_home, tmp_path / "data")


def environment(home: Path, address: str, key: str, **settings: str) -> dict[str, str]:
    """Return the environment of a command for the provider at this address, and write its settings file."""
    home.mkdir(exist_ok=True)
    (home / "holderlake.toml").write_text(f'[watchlist]\neth = ["{TOKEN}"]\n')
    own = {
        "HOLDERLAKE_CONFIG": str(home / "holderlake.toml"),
        "HOLDERLAKE_HOME": str(home / "data"),
        "HOLDERLAKE_PROVIDER__URL": address,
        "HOLDERLAKE_API_KEY": key,
        **settings,
    }
    return {**os.environ, **own}


def command(home: Path, address: str, key: str, *arguments: str, **settings: str) -> Ended:
    """Run a command for the provider at this address."""
    return holderlake(*arguments, env=environment(home, address, key, **settings))


def complaints(done: Ended) -> list[str]:
    """Lines on standard error, without the results of asset checks."""
    return [line for line in done.stderr.splitlines() if not line.startswith("Check ")]


def test_a_command_over_http_leaves_standard_error_empty(sample_service: RunningService, tmp_path: Path) -> None:
    own = environment(tmp_path, sample_service.base_url, sample_service.secret)
    done = run(HOLDERLAKE, "ingest", "--at", "2026-05-01", env=own)
    assert (done.returncode, complaints(done)) == (0, [])


def test_a_table_that_the_plan_lacks_is_printed_and_left_out_of_plans(
    sample_service: RunningService, tmp_path: Path
) -> None:
    keys: Any = sample_service.keys
    standard = keys.create("standard", 10**9)
    where = (tmp_path, sample_service.base_url, standard)
    before = json.loads(command(*where, "plan", "--from", "2026-04-01", "--to", "2026-04-02", "--json").stdout)
    assert "addresses" in before["tables"]
    done = command(*where, "ingest", "--at", "2026-05-01")
    assert (done.returncode, complaints(done)) == (0, [])
    assert "Skipped" in done.stdout
    assert (done.stdout + done.stderr).count("needs a custom plan") == 1
    after = json.loads(command(*where, "plan", "--from", "2026-04-01", "--to", "2026-04-02", "--json").stdout)
    assert "addresses" not in after["tables"]
    assert [one["tables"] for one in after["left_out"]] == [["addresses"]]
    assert after["credits_hundredths"] < before["credits_hundredths"]
    filled = command(*where, "backfill", "--from", "2026-04-01", "--to", "2026-04-01")
    assert filled.returncode == 0
    assert "Left out: addresses" in filled.stdout
    custom = json.loads(
        command(
            tmp_path, sample_service.base_url, sample_service.secret, "plan", "--from", "2026-04-01", "--json"
        ).stdout
    )
    assert "addresses" in custom["tables"]
    alone = command(*where, "backfill", "--from", "2026-03-01", "--to", "2026-03-01", "--table", "addresses")
    assert "Left out: addresses" in alone.stdout


@pytest.mark.parametrize(
    ("step", "cause"), [(half(token_map()), "proxy"), (endless(), "provider.answer_megabytes")], ids=["half", "endless"]
)
def test_broken_answers_are_not_bought_again_by_attempts_or_steps(
    sample_service: RunningService, tmp_path: Path, step: Step, cause: str
) -> None:
    tokens = [f"0x{number:040x}" for number in range(12)]
    options = {"HOLDERLAKE_PROVIDER__ANSWER_MEGABYTES": "1", "HOLDERLAKE_WATCHLIST": json.dumps({"eth": tokens})}
    maps = 0

    def choose(request: Received) -> Change | None:
        nonlocal maps
        maps += (is_map := "/v0/tokens/map" in request.target)
        return Change(lambda real: step) if is_map else None

    with ChangedService(sample_service.base_url, sample_service.secret, choose).serving() as provider:
        where = (tmp_path, provider.address, sample_service.secret)
        done = command(*where, "ingest", "--at", "2026-05-01", **options)
        report = json.loads(command(*where, "credits", "--json", **options).stdout)
        printed = command(*where, "credits", **options).stdout
    assert done.returncode in (1, 3)
    assert "answers in a row" in done.stderr
    assert cause in done.stderr
    assert maps <= 24
    assert report["possibly_wasted"] == {"calls": maps, "spent": 0, "reserved": maps * 10_000}
    assert f"Possibly wasted: {maps}00.00 credits" in printed.replace(",", "")
