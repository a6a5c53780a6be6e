"""``holderlake import verify`` names the cause for which the balances of a token differ from its events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.chain.anvil import Anvil, call
from tests.helpers.commands import holderlake

pytestmark = pytest.mark.integration

A, B, C, D, COLLECTOR = (f"0x{number:040x}" for number in (0xA, 0xB, 0xC, 0xD, 0xFEE))
Calls = list[tuple[str, tuple[str | int, ...]]]

ODD: dict[str, tuple[Calls, set[str]]] = {
    "rebase at the start": ([("rebase", (200,)), ("mint", (A, 500)), ("mint", (B, 700))], {"rebasing"}),
    "rebase later": ([("rebase", (130,)), ("mint", (C, 10_000))], {"rebasing"}),
    "silent mint": ([("silentMint", (A, 50))], {"silent_mint"}),
    "silent mint to a new holder": ([("silentMint", (COLLECTOR, 50))], {"silent_mint"}),
    "mint that the supply hides": ([("hiddenMint", (B, 50))], {"silent_mint"}),
    "silent burn": ([("silentBurn", (A, 50))], {"silent_burn"}),
    "silent move": ([("silentMove", (A, B, 50))], {"silent_move"}),
    "silent move to an address without transfers": ([("silentMove", (A, COLLECTOR, 50))], {"silent_move"}),
    "fake move": ([("fakeMove", (A, B, 50))], {"fake_event"}),
    "fake mint": ([("fakeMint", (A, 50))], {"fake_event"}),
    "doubled event": ([("doubledMove", (A, B, 50))], {"doubled_event"}),
    "fee": ([("feeMove", (A, B, 50))], {"fee"}),
    "fee on top": ([("feeOnTop", (A, B, COLLECTOR, 50))], {"fee"}),
    "wrong receiver": ([("misdirectedMove", (A, B, C, 50))], {"wrong_receiver"}),
    "wrong sender": ([("mischargedMove", (A, B, C, 50))], {"wrong_sender"}),
    "two causes": ([("silentMint", (A, 50)), ("fakeMove", (B, C, 20))], {"silent_mint", "fake_event"}),
    "no fault": ([("move", (A, B, 50))], set()),
}
"""By name: calls of an odd token, each in a block of its own, and the causes to be named."""
OTHERS = {A: D, B: A, C: B, D: C, COLLECTOR: COLLECTOR}
CROWDED: dict[str, tuple[list[Calls], set[str]]] = {
    f"{name}, {len(block)} in a block": ([block], kinds)
    for name, (calls, kinds) in ODD.items()
    if len(calls) == 1 and calls[0][0] != "rebase"
    for function, arguments in calls
    for other in [(function, tuple(OTHERS.get(str(value), 30) for value in arguments))]
    for block in ([calls[0], other], [calls[0], other, calls[0], (function, (*arguments[:-1], 20))])
} | {
    "wrong receiver among moves": (
        [[("move", (D, A, 60)), ("misdirectedMove", (A, B, C, 50)), ("move", (C, B, 9))]],
        {"wrong_receiver"},
    ),
    "equal parts of two balances": ([[("silentBurn", (A, 100)), ("silentBurn", (B, 100))]], {"silent_burn"}),
    "fake moves among moves": ([[("move", (A, B, 50)), ("fakeMove", (A, B, 20))]], {"fake_event"}),
    "names neither of both": (
        [[("fakeMove", (A, B, 50)), ("silentMove", (C, D, 50))]],
        {"wrong_sender", "wrong_receiver"},
    ),
    "fee or burn, and then a fee": (
        [[("feeMove", (A, B, 50)), ("move", (C, D, 5))], [("feeMove", (B, A, 40))]],
        {"fee"},
    ),
    "fee or burn": ([[("feeMove", (A, B, 50)), ("move", (C, D, 5))]], {"unclear"}),
}
"""By name: the calls of an odd token in each block, and the causes to be named."""


def named(anvil: Anvil, home: Path, odd: dict[str, list[Calls]]) -> dict[str, Any]:
    """Put the odd tokens on a chain, import them, and compare. Return the report, and the token's name by address."""
    names: dict[str, str] = {}
    for name, blocks in odd.items():
        token = anvil.deploy("OddCoin")
        names[token] = name
        anvil.mine([call("OddCoin", token, "mint", holder, 1_000 + place) for place, holder in enumerate((A, B, C, D))])
        for calls in blocks:
            anvil.mine([call("OddCoin", token, function, *arguments) for function, arguments in calls])
    env = {"HOLDERLAKE_HOME": str(home)}
    chosen = [part for token in names for part in ("--token", token)]
    imported = holderlake("import", "node", anvil.url, "--chain", "test", "--confirmations", "0", *chosen, env=env)
    assert imported.returncode == 0, imported.stderr
    ended = holderlake("import", "verify", anvil.url, "--json", env=env)
    report: dict[str, Any] = json.loads(ended.stdout)
    report["causes"] = {names[drift["token"]]: drift["causes"] for drift in report["drifts"]}
    return report | {"code": ended.returncode, "names": names}


def test_the_causes_of_seventeen_odd_tokens_are_named(anvil: Anvil, tmp_path: Path) -> None:
    report = named(anvil, tmp_path, {name: [[one] for one in calls] for name, (calls, _) in ODD.items()})
    assert {name: {cause["kind"] for cause in causes} for name, causes in report["causes"].items()} == {
        name: kinds for name, (_, kinds) in ODD.items() if kinds
    }
    assert report["code"] == 3
    assert (report["is_complete"], report["is_equal"]) == (True, False)
    assert [report["names"][token] for token in report["equal"]] == ["no fault"]


def test_several_moves_in_a_block_have_the_cause_of_one(anvil: Anvil, tmp_path: Path) -> None:
    report = named(anvil, tmp_path, {name: blocks for name, (blocks, _) in CROWDED.items()})
    assert {name: {cause["kind"] for cause in causes} for name, causes in report["causes"].items()} == {
        name: kinds for name, (_, kinds) in CROWDED.items() if kinds
    }
    (fee,) = report["causes"]["fee or burn, and then a fee"]
    assert len(fee["blocks"]) == 2
    (unclear,) = report["causes"]["fee or burn"]
    assert "(fee, silent_burn)" in unclear["words"]


def test_a_silently_minted_item_is_no_rebase(anvil: Anvil, tmp_path: Path) -> None:
    token = anvil.deploy("OddItem")
    anvil.mine([call("OddItem", token, "mint", holder, number) for number, holder in enumerate((A, B, B, C))])
    anvil.mine([call("OddItem", token, "silentMint", A)])
    _, report = compared(anvil, tmp_path, token)
    assert kinds(report) == ["silent_mint"]


def test_a_fee_since_an_upgrade_is_named_with_its_blocks(anvil: Anvil, tmp_path: Path) -> None:
    token = anvil.deploy("UpgradedCoin")
    for name, *arguments in (
        ("upgrade", 1), ("mint", A, 1_000), ("mint", B, 700), ("move", A, B, 50), ("upgrade", 2), ("move", A, C, 100),
        ("move", B, D, 40),
    ):  # fmt: skip
        anvil.mine([call("UpgradedCoin", token, name, *arguments)])
    _, report = compared(anvil, tmp_path, token)
    assert kinds(report) == ["fee"]
    assert len(report["drifts"][0]["causes"][0]["blocks"]) == 2


def compared(anvil: Anvil, home: Path, token: str) -> tuple[int, dict[str, Any]]:
    """Import a token and compare it. Return the exit code and the report."""
    env = {"HOLDERLAKE_HOME": str(home)}
    options = ("--chain", "test", "--token", token, "--json")
    imported = holderlake("import", "node", anvil.url, "--confirmations", "0", *options, env=env)
    assert imported.returncode == 0, imported.stderr
    ended = holderlake("import", "verify", anvil.url, *options, env=env)
    return ended.returncode, json.loads(ended.stdout)


def kinds(report: dict[str, Any]) -> list[str]:
    return [cause["kind"] for drift in report["drifts"] for cause in drift["causes"]]


def test_a_silent_move_between_two_of_sixty_holders_is_seen(anvil: Anvil, tmp_path: Path) -> None:
    token = anvil.deploy("OddCoin")
    holders = [f"0x{number:040x}" for number in range(1, 61)]
    anvil.mine([call("OddCoin", token, "mint", holder, 1_000 + place) for place, holder in enumerate(holders)])
    anvil.mine([call("OddCoin", token, "silentMove", holders[30], holders[40], 5)])
    code, report = compared(anvil, tmp_path, token)
    assert (code, report["sampled"], kinds(report)) == (3, 60, ["silent_move"])


def test_events_without_indexed_fields_are_read(anvil: Anvil, tmp_path: Path) -> None:
    token = anvil.deploy("PlainCoin")
    anvil.mine([call("PlainCoin", token, "mint", A, 50), call("PlainCoin", token, "move", A, B, 20)])
    code, report = compared(anvil, tmp_path, token)
    assert (code, report["events"], report["equal"]) == (0, 2, [token])


def test_events_that_cannot_be_read_are_named(anvil: Anvil, tmp_path: Path) -> None:
    token = anvil.deploy("HalfIndexedCoin")
    anvil.mine([call("HalfIndexedCoin", token, "mint", A, 50)])
    code, report = compared(anvil, tmp_path, token)
    assert (code, kinds(report)) == (3, ["unreadable_events"])
    again = ("import", "node", anvil.url, "--chain", "other", "--confirmations", "0", "--token", token)
    said = holderlake(*again, env={"HOLDERLAKE_HOME": str(tmp_path / "other")}).stderr
    assert f"1 Transfer events of 1 token, for example {token}, have only one of their addresses indexed" in said


@pytest.mark.later(long=1)
@pytest.mark.parametrize(
    ("calls", "events"),
    [
        ([("wrap", (A, 50)), ("unwrap", (A, 20))], 2),
        ([("wrapWithTransfer", (A, 50)), ("unwrapWithTransfer", (A, 20))], 2),
        ([("wrap", (A, 50)), ("wrap", (A, 50)), ("move", (A, B, 50))], 3),
        ([("wrapWithTransfer", (A, 50)), ("stake", (A, 50))], 2),
        ([("wrapWithTransfer", (A, 50)), ("stake", (A, 20)), ("stake", (A, 20))], 3),
    ],
)
def test_deposits_mint_only_where_balances_rise(calls: Calls, events: int, anvil: Anvil, tmp_path: Path) -> None:
    token = anvil.deploy("WrappedCoin")
    for function, arguments in calls:
        anvil.mine([call("WrappedCoin", token, function, *arguments)])
    code, report = compared(anvil, tmp_path, token)
    assert (code, report["events"], report["equal"]) == (0, events, [token])
