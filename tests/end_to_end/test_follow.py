"""``holderlake import node --follow`` keeps a store at the head of a real chain, reorganisations included."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from holderlake.core.contract.times import from_unix
from holderlake.engine.queries.balances import balances_as_of
from holderlake.engine.store.store import Store
from holderlake.operations.follow.followers import followers
from holderlake.sources.rpc.undone import read_undone
from tests.end_to_end.test_real_chain import Trade, balances_of, environment
from tests.helpers.chain.anvil import Anvil, call
from tests.helpers.chain.scripted import ScriptedNode, way_to
from tests.helpers.processes import PATIENCE, PIPE, start_holderlake, wait_until
from tests.helpers.receiver import Receiver

pytestmark = pytest.mark.integration

BLOCKS = 12


def test_the_store_follows_new_blocks_and_reorganisations(anvil: Anvil, tmp_path: Path) -> None:
    rng = random.Random(7)
    people = [f"0x{rng.getrandbits(160):040x}" for _ in range(6)]
    coin = anvil.deploy("Coin")
    trade = Trade(coin, rng, people=people)
    anvil.mine([call("Coin", coin, "mint", people[0], 10**6)])
    trade.owned[people[0]] = 10**6
    arguments = ["import", "node", anvil.url, "--chain", "test", "--token", coin, "--follow", "--json"]
    process = start_holderlake(*arguments, env=environment(tmp_path), stdout=PIPE, stderr=PIPE)
    assert process.stdout is not None
    reports: list[dict[str, Any]] = [json.loads(process.stdout.readline())]
    assert reports[0]["added"] == 1

    def equal() -> bool:
        with Store(tmp_path / "engine") as store:
            found = balances_as_of(store, "test", coin, from_unix(2**32))
        return dict(found.holders) == balances_of(anvil, coin, anvil.head(), people)

    for number in range(BLOCKS):
        snapshot = anvil.rpc("evm_snapshot")
        if number % 4 == 3:
            anvil.mine([call("Coin", coin, "mint", people[1], 1 + number)] * 3)
            wait_until(equal)
            assert anvil.rpc("evm_revert", snapshot)
        anvil.mine_many(trade.blocks(2, 100))
        wait_until(equal)

    while sum(report["reorgs"] for report in reports) < BLOCKS // 4:  # it prints after it has stored
        reports.append(json.loads(process.stdout.readline()))
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (0, "")
    assert sum(report["removed"] for report in reports) == 3 * BLOCKS // 4


@pytest.mark.long
def test_a_node_that_fails_is_asked_again(anvil: Anvil, tmp_path: Path) -> None:
    coin = anvil.deploy("Coin")
    with way_to(anvil.url) as honest, ScriptedNode(honest) as node:
        arguments = ["import", "node", node.url, "--chain", "test", "--token", coin, "--follow", "--json"]
        process = start_holderlake(*arguments, env=environment(tmp_path), stdout=PIPE, stderr=PIPE)
        assert process.stdout is not None
        process.stdout.readline()

        def failing(method: str, params: list[Any]) -> Any:
            raise ConnectionError

        node.answer = failing
        assert process.stderr is not None
        assert "trying again in 1 s" in process.stderr.readline()
        anvil.mine([call("Coin", coin, "mint", f"0x{5:040x}", 9)])
        node.answer = honest
        assert json.loads(process.stdout.readline())["added"] == 1
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 0


@pytest.mark.long
def test_alerts_and_undone_rows_follow_the_head(anvil: Anvil, tmp_path: Path) -> None:
    coin, (first, second) = anvil.deploy("Coin"), (f"0x{number:040x}" for number in (11, 12))
    anvil.mine([call("Coin", coin, "mint", first, 10**6)])
    rules = {"newcomers": {"rule": "new_top_holder", "top": 5}}
    chosen = {"WATCHLIST": json.dumps({"test": [coin]}), "ALERTS__RULES": json.dumps(rules)}
    arguments = ["import", "node", anvil.url, "--chain", "test", "--follow", "--json"]
    with Receiver() as receiver:
        own = {f"HOLDERLAKE_{name}": value for name, value in (chosen | {"ALERTS__WEBHOOK": receiver.url}).items()}
        process = start_holderlake(*arguments, env=environment(tmp_path) | own, stdout=PIPE, stderr=PIPE)
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["added"] == 1
        at = anvil.block_time(anvil.mine())
        before = anvil.rpc("evm_snapshot")
        anvil.mine([call("Coin", coin, "mint", second, 5)], at)  # in the second of the last block that stays
        wait_until(lambda: len(receiver.posts) == 1)
        assert anvil.rpc("evm_revert", before)
        anvil.mine([call("Coin", coin, "mint", first, 1)])
        wait_until(lambda: len(receiver.posts) == 2)
        (state,) = followers(tmp_path / "engine")
        assert state.is_running
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors.count("newcomers")) == (0, 2)  # the log has both messages too
    found, undone = (post.content for post in receiver.posts)
    assert (found["type"], found["data"]["subject"]) == ("holderlake.alert.new_top_holder", second)
    assert undone["type"] == "holderlake.alert.alert_undone"
    assert undone["data"]["evidence"]["fingerprint"] == found["data"]["fingerprint"]
    assert [(row["to_address"], row["value"]) for row in read_undone(tmp_path / "engine").to_pylist()] == [
        (second, "5")
    ]
    (state,) = followers(tmp_path / "engine")
    assert (state.is_running, state.reorgs, state.undone, state.alerts) == (False, 1, 1, 2)


@pytest.mark.long
def test_a_follower_evaluates_what_happened_while_it_was_stopped(anvil: Anvil, tmp_path: Path) -> None:
    coin, (first, second) = anvil.deploy("Coin"), (f"0x{number:040x}" for number in (11, 12))
    anvil.mine([call("Coin", coin, "mint", first, 10**6)])
    rules = {"newcomers": {"rule": "new_top_holder", "top": 5}}
    own = {"HOLDERLAKE_WATCHLIST": json.dumps({"test": [coin]}), "HOLDERLAKE_ALERTS__RULES": json.dumps(rules)}

    def start(*options: str) -> Popen[str]:
        arguments = ["import", "node", anvil.url, "--chain", "test", "--json", *options]
        return start_holderlake(*arguments, env=environment(tmp_path) | own, stdout=PIPE, stderr=PIPE)

    def only_import() -> dict[str, Any]:
        printed, _ = start("--confirmations", "0").communicate(timeout=PATIENCE)
        return dict(json.loads(printed))

    def kill(process: Popen[str]) -> None:
        process.kill()
        process.communicate(timeout=PATIENCE)

    def first_alert(process: Popen[str]) -> str:
        assert process.stderr is not None
        return process.stderr.readline()

    begun = start("--follow")
    wait_until(lambda: any(state.evaluated for state in followers(tmp_path / "engine")))
    kill(begun)
    before = anvil.rpc("evm_snapshot")
    anvil.mine([call("Coin", coin, "mint", second, 5)])
    assert only_import()["added"] == 1
    again = start("--follow")
    assert second in first_alert(again)
    wait_until(lambda: any(state.alerts for state in followers(tmp_path / "engine")))
    kill(again)
    assert anvil.rpc("evm_revert", before)
    anvil.mine([])
    assert only_import()["removed"] == 1
    last = start("--follow")
    assert "no longer holds" in first_alert(last)
    last.send_signal(signal.SIGINT)
    last.communicate(timeout=PATIENCE)
    assert last.returncode == 0


@pytest.mark.long
def test_a_chain_has_one_follower(anvil: Anvil, tmp_path: Path) -> None:
    coin = anvil.deploy("Coin")
    anvil.mine([call("Coin", coin, "mint", f"0x{5:040x}", 9)])
    arguments = ["import", "node", anvil.url, "--chain", "test", "--token", coin, "--follow", "--json"]
    first = start_holderlake(*arguments, env=environment(tmp_path), stdout=PIPE, stderr=PIPE)
    assert first.stdout is not None
    first.stdout.readline()
    second = start_holderlake(*arguments, env=environment(tmp_path), stdout=PIPE, stderr=PIPE)
    _, errors = second.communicate(timeout=PATIENCE)
    assert second.returncode != 0
    assert "another process follows chain test" in errors
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=PATIENCE)
