"""The instants that the schedule asked for are recorded at each tick."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holderlake.core.settings import Settings
from holderlake.core.workspace import Endpoint, Workspace
from holderlake.operations.healing.expected import TRANSFERS, expected, record_tick

DAY = timedelta(days=1)
TICK = datetime(2026, 6, 1, 0, 5)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def _workspace(home: Path, *chains: str, **sections: Any) -> Workspace:
    settings = Settings(home=home, watchlist={chain: ["native"] for chain in chains}, **sections)
    return Workspace(settings, lambda: Endpoint("http://127.0.0.1:1", None, "tests"))


def _recorded(workspace: Workspace) -> dict[str, list[str]]:
    found = expected(workspace)
    assert found is not None
    return {chain: [f"{when:%m-%d %H}" for when in instants] for chain, instants in found.instants.items()}


def test_a_tick_records_the_instants_since_the_last_one(home: Path) -> None:
    workspace = _workspace(home, "eth", schedule={"offsets": ["00:00", "12:00"]})
    for day in range(2):
        record_tick(workspace, TICK + (day - 1) * DAY, TICK + day * DAY)
    assert _recorded(workspace) == {"eth": ["05-31 12", "06-01 00", "06-01 12", "06-02 00"]}


def test_no_day_before_the_start_is_expected(home: Path) -> None:
    record_tick(_workspace(home, "eth"), TICK - 3 * DAY, TICK)
    assert _recorded(_workspace(home, "eth")) == {"eth": ["05-30 00", "05-31 00", "06-01 00"]}
    assert _recorded(_workspace(home, "eth", schedule={"start": "2026-05-31"})) == {"eth": ["05-31 00", "06-01 00"]}


def test_ticks_that_were_missed_are_expected_too(home: Path) -> None:
    workspace = _workspace(home, "eth")
    record_tick(workspace, TICK - DAY, TICK)
    record_tick(workspace, TICK + 3 * DAY, TICK + 4 * DAY)
    assert _recorded(workspace) == {"eth": [f"06-0{day} 00" for day in range(1, 6)]}


def test_a_repeated_tick_changes_nothing(home: Path) -> None:
    workspace = _workspace(home, "eth")
    for day in (0, 1, 1, 0):
        record_tick(workspace, TICK + (day - 1) * DAY, TICK + day * DAY)
    assert _recorded(workspace) == {"eth": ["06-01 00", "06-02 00"]}


def test_a_new_chain_is_expected_from_its_first_tick_on(home: Path) -> None:
    record_tick(_workspace(home, "eth"), TICK - DAY, TICK)
    record_tick(_workspace(home, "solana"), TICK, TICK + DAY)
    assert _recorded(_workspace(home)) == {"solana": ["06-02 00"]}


def test_other_times_of_the_schedule_leave_older_days_as_they_were(home: Path) -> None:
    record_tick(_workspace(home, "eth"), TICK - DAY, TICK)
    record_tick(_workspace(home, "eth", schedule={"offsets": ["00:00", "12:00"]}), TICK, TICK + DAY)
    assert _recorded(_workspace(home)) == {"eth": ["06-01 00", "06-01 12", "06-02 00"]}


def test_days_before_a_chains_first_day_are_not_expected(home: Path) -> None:
    workspace = _workspace(home, "base", "eth")
    record_tick(workspace, datetime(2023, 6, 13, 0, 5), datetime(2023, 6, 16, 0, 5))
    assert _recorded(workspace) == {"base": ["06-15 00", "06-16 00"], "eth": ["06-14 00", "06-15 00", "06-16 00"]}


def test_old_instants_are_forgotten(home: Path) -> None:
    workspace = _workspace(home, "eth", healing={"days": 2})
    for day in range(5):
        record_tick(workspace, TICK + (day - 1) * DAY, TICK + day * DAY)
    assert _recorded(workspace) == {"eth": ["06-04 00", "06-05 00"]}


def test_nothing_is_expected_before_the_first_tick_or_from_a_damaged_file(home: Path) -> None:
    assert expected(_workspace(home)) is None
    (home / "schedule").mkdir(exist_ok=True)
    (home / "schedule" / "expected.json").write_text("{")
    assert expected(_workspace(home)) is None
    record_tick(_workspace(home, "eth"), TICK - DAY, TICK)
    assert _recorded(_workspace(home)) == {"eth": ["06-01 00"]}


@pytest.mark.integration
def test_hosts_with_one_postgresql_share_the_record(tmp_path: Path, postgres_url: str) -> None:
    state = {"url": postgres_url}
    for day, host in enumerate(("one", "two")):
        record_tick(_workspace(tmp_path / host, "eth", state=state), TICK + (day - 1) * DAY, TICK + day * DAY)
    assert _recorded(_workspace(tmp_path / "one", state=state)) == {"eth": ["06-01 00", "06-02 00"]}
    assert expected(_workspace(tmp_path / "one", state=state), TRANSFERS) is None
