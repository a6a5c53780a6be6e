"""What costs credits is planned first, and fetched only with the plan's number and the owner's consent."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from holderlake.core.warehouse.warehouse import Warehouse
from tests.helpers.sample import the_world
from tests.presentation.mcp.client import COMMAND, Assistant, Spending, assisting

pytestmark = pytest.mark.integration

HISTORY = {"chain": "eth", "since": "2026-01-01", "until": "2026-01-08", "every": "1w"}


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose provider is the embedded service, without a key."""
    monkeypatch.setenv("HOLDERLAKE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def allowed(own_home: Path, warehouse: Warehouse) -> Iterator[Assistant]:
    with assisting(warehouse, Spending(COMMAND, is_allowed=True)) as made:
        yield made


def planned(assistant: Assistant) -> dict[str, Any]:
    token = next(token.address for token in the_world().tokens if token.chain == "eth")
    found: dict[str, Any] = assistant.ask("plan_fetch", token=token, **HISTORY)
    return found


@pytest.mark.long
def test_a_plan_has_a_number_and_a_cost_and_spends_nothing(own_home: Path, assistant: Assistant) -> None:
    plan = planned(assistant)
    assert plan["calls"] > 0
    assert plan["credits_hundredths"] > 0
    assert not plan["finished"]
    assert "does not spend" in plan["next_step"]
    assert not list(own_home.glob("lake/*/chain=*"))
    tools = {tool.name for tool in assistant.wait(assistant.client.list_tools).tools}
    assert "fetch_planned" not in tools


def test_an_unknown_number_spends_nothing(allowed: Assistant) -> None:
    assert "call plan_fetch first" in allowed.refusal("fetch_planned", number="0" * 12)


_PRICED: Final = """
import json, pathlib, sys
price = int(pathlib.Path(sys.argv[1]).read_text())
assert sys.argv[3] in sys.argv[2].split(), "nothing else may run"
print(json.dumps({"credits_hundredths": price, "calls": 1, "minutes": 1, "finished": False,
                  "month_left_hundredths": None, "left_out": []}))
"""
"""A command line whose plans cost what a file says, and which runs only the commands that its second argument names."""


def test_a_plan_that_costs_more_by_now_spends_nothing(warehouse: Warehouse, tmp_path: Path) -> None:
    price = tmp_path / "price"
    price.write_text("500")
    command = (sys.executable, "-c", _PRICED, str(price), "plan")
    with assisting(warehouse, Spending(command, is_allowed=True)) as assistant:
        plan = planned(assistant)
        price.write_text("501")
        assert "the plan costs 5.01 credits by now" in assistant.refusal("fetch_planned", number=plan["number"])


def test_a_number_is_fetched_once(warehouse: Warehouse, tmp_path: Path) -> None:
    price = tmp_path / "price"
    price.write_text("500")
    command = (sys.executable, "-c", _PRICED, str(price), "plan backfill")
    with assisting(warehouse, Spending(command, is_allowed=True)) as assistant:
        number = planned(assistant)["number"]
        assert assistant.ask("fetch_planned", number=number)
        assert "call plan_fetch first" in assistant.refusal("fetch_planned", number=number)


@pytest.mark.long
def test_a_planned_number_spends_once_and_within_its_plan(allowed: Assistant, own_home: Path) -> None:
    plan = planned(allowed)
    assert allowed.ask("fetch_planned", number=plan["number"])
    assert (own_home / "warehouse.duckdb").exists()
    assert "call plan_fetch first" in allowed.refusal("fetch_planned", number=plan["number"])
    assert planned(allowed)["finished"]
