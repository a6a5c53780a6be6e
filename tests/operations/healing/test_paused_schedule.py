"""Scheduled runs wait while no credits are left, and the missed days are fetched afterwards."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holderlake.core.contract.requests import MapOptions, MapRequest
from holderlake.core.contract.times import utc_now
from holderlake.core.provider.errors import BudgetExceeded, CreditsExhausted, InvalidKey, RateLimitPersists
from holderlake.core.workspace import Workspace
from holderlake.operations.healing.paused import pause_schedule, paused_schedule, waiting_schedule
from tests.helpers.filling import MakeWorkspace
from tests.helpers.misbehaving import CHAINS, Step, answer, error, scripted
from tests.operations.healing.test_repetition import CHAIN, DAY, TODAY, Make, _key, pipeline  # noqa: F401 - a fixture

TICK = TODAY + timedelta(minutes=5)


def _later(workspace: Workspace, days: int) -> Workspace:
    workspace.now = lambda: utc_now() + days * DAY
    return workspace


@pytest.mark.long
def test_exhausted_credits_pause_the_schedule_until_the_next_day(pipeline: Make) -> None:  # noqa: F811
    poor = pipeline(budget={"per_day": 70})
    assert poor.schedule(TICK) == [(_key(TODAY), False)]
    tomorrow = f"{utc_now() + DAY:%Y-%m-%d}"
    for skipped in (poor.sensor("healing"), pipeline(budget={"per_day": 70}).schedule(TICK)):
        (reason,) = skipped
        assert f"wait for credits until {tomorrow}" in reason
    rich = pipeline(DAY, budget={"per_day": 7_000})
    assert rich.sensor("healing") == [(_key(TODAY), True)]
    assert paused_schedule(rich.workspace) is None


def test_a_raised_ceiling_resumes_the_schedule(make_workspace: MakeWorkspace) -> None:
    poor = make_workspace(budget={"per_day": 1})
    pause_schedule(poor, BudgetExceeded("per_day", 100, 100, 1_400, "wait"))
    assert waiting_schedule(poor) is not None
    assert waiting_schedule(make_workspace(budget={"per_day": 100})) is None
    assert waiting_schedule(poor) is None


def test_another_key_resumes_the_schedule(make_workspace: MakeWorkspace) -> None:
    first = make_workspace(api_key="first")
    pause_schedule(first, CreditsExhausted("used up"))
    assert waiting_schedule(first) is not None
    assert waiting_schedule(make_workspace(api_key="second")) is None


@pytest.mark.parametrize(
    ("step", "waits"),
    [
        (answer(CHAINS, headers={"X-Credits-Remaining": "100.00"}), False),
        (answer(CHAINS), False),
        (answer(CHAINS, headers={"X-Credits-Remaining": "99.99"}), True),
        (error(429, "credits_exhausted"), True),
        (error(503), True),
    ],
    ids=["enough", "unnamed", "too few", "exhausted", "down"],
)
def test_a_top_up_resumes_the_schedule_before_the_renewal(
    make_workspace: MakeWorkspace, step: Step, waits: bool
) -> None:
    refusal = CreditsExhausted("used up")
    refusal.request = MapRequest(chain="eth", token_address="0x1", options=MapOptions(return_nodes=True, timestamp=1))
    with scripted(step) as server:
        workspace = make_workspace(base_url=server.address, provider={"attempts": 1})
        pause_schedule(workspace, refusal)
        assert (waiting_schedule(workspace) is not None) is waits
        assert (paused_schedule(workspace) is not None) is waits
        assert {one.target for one in server.received} == {"/v0/chains"}


def test_the_renewal_resumes_the_schedule(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    pause_schedule(workspace, CreditsExhausted("used up"))
    paused = waiting_schedule(workspace)
    assert paused is not None
    assert paused.resume_on == workspace.ledger.totals().renewal
    assert waiting_schedule(_later(make_workspace(), 32)) is None


@pytest.mark.parametrize(
    "trouble",
    [BudgetExceeded("per_run", 1, 1, 1, "start another run"), RateLimitPersists("slow"), InvalidKey("no such key")],
    ids=lambda trouble: type(trouble).__name__,
)
def test_other_errors_pause_nothing(make_workspace: MakeWorkspace, trouble: Exception) -> None:
    workspace = make_workspace()
    pause_schedule(workspace, trouble)
    assert paused_schedule(workspace) is None
