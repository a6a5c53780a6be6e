"""A year of a real chain, with reorganisations and a killed import: every balance equals the contract's.

In small by default; ``HOLDERLAKE_CHAIN_TRANSFERS=20000 HOLDERLAKE_CHAIN_CHECKS=1000`` is the whole of it.
"""

from __future__ import annotations

import json
import os
import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from holderlake.core.contract.times import from_unix
from holderlake.engine.queries.balances import balances_as_of
from holderlake.engine.store.store import Store
from tests.helpers.chain.anvil import GENESIS_TIME, Anvil, call
from tests.helpers.chain.scripted import ScriptedNode, way_to
from tests.helpers.commands import holderlake
from tests.helpers.processes import PATIENCE, PIPE, start_holderlake

ROOT = Path(__file__).parents[2]
TRANSFERS = int(os.environ.get("HOLDERLAKE_CHAIN_TRANSFERS", "1500"))
CHECKS = int(os.environ.get("HOLDERLAKE_CHAIN_CHECKS", "60"))
PEOPLE = 40
YEAR = 365 * 86_400


@dataclass
class Trade:
    """Random transfers between people at increasing times, and the balance of each person."""

    coin: str
    rng: random.Random
    now: int = GENESIS_TIME + 1_000
    people: list[str] = field(default_factory=list)
    owned: dict[str, int] = field(default_factory=dict)

    def blocks(self, transfers: int, seconds: int) -> list[tuple[int, list[dict[str, Any]]]]:
        """Return blocks with one to eight transfers each, over a number of seconds."""
        sizes: list[int] = []
        while sum(sizes) < transfers:
            sizes.append(min(self.rng.randint(1, 8), transfers - sum(sizes)))
        made = []
        for size in sizes:
            self.now += self.rng.randint(1, max(1, 2 * seconds // len(sizes)))
            made.append((self.now, [self.transfer() for _ in range(size)]))
        return made

    def transfer(self) -> dict[str, Any]:
        """Mint sometimes, otherwise transfer a part of a person's balance."""
        owners = [one for one, value in self.owned.items() if value]
        receiver = self.rng.choice(self.people)
        if not owners or self.rng.random() < 0.1:
            value = self.rng.randrange(2 ** self.rng.randint(1, 120))
            self.owned[receiver] = self.owned.get(receiver, 0) + value
            return call("Coin", self.coin, "mint", receiver, value)
        sender = self.rng.choice(owners)
        value = self.rng.randint(0, self.owned[sender])
        self.owned[sender] -= value
        self.owned[receiver] = self.owned.get(receiver, 0) + value
        return call("Coin", self.coin, "move", sender, receiver, value)

    def fork(self) -> Trade:
        """The same state, from which something else may happen."""
        return Trade(self.coin, random.Random(self.rng.random()), self.now, self.people, dict(self.owned))


def environment(home: Path) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("HOLDERLAKE_")}
    steps = {"COMMIT_ROWS": str(max(50, TRANSFERS // 100)), "BLOCKS": "20"}
    nodes = {f"HOLDERLAKE_SOURCES__RPC__TEST__{name}": value for name, value in steps.items()}
    return own | {"HOLDERLAKE_HOME": str(home)} | nodes


def arguments(url: str, coin: str) -> list[str]:
    return ["import", "node", url, "--chain", "test", "--token", coin, "--confirmations", "0", "--json"]


def imported(home: Path, url: str, coin: str) -> dict[str, Any]:
    ended = holderlake(*arguments(url, coin), env=environment(home))
    assert ended.returncode == 0, ended.stderr
    return dict(json.loads(ended.stdout))


def killed_midway(home: Path, anvil: Anvil, coin: str) -> list[tuple[int, int]]:
    """Kills an import that waits for an answer about the later half of the blocks; the ranges that were answered."""
    stuck, half = threading.Event(), anvil.head() // 2
    answered: list[tuple[int, int]] = []

    with way_to(anvil.url) as honest, ScriptedNode(honest) as node:

        def until_half(method: str, params: list[Any]) -> Any:
            if method == "eth_getLogs":
                asked = (int(params[0]["fromBlock"], 16), int(params[0]["toBlock"], 16))
                if asked[1] > half:
                    stuck.set()
                    node.ended.wait()
                answered.append(asked)
            return honest(method, params)

        node.answer = until_half
        process = start_holderlake(*arguments(node.url, coin), env=environment(home), stdout=PIPE, stderr=PIPE)
        assert stuck.wait(PATIENCE)
        process.kill()
        process.communicate()
    return answered


def balances_of(anvil: Anvil, coin: str, block: int, people: Sequence[str]) -> dict[str, int]:
    asked = [("eth_call", [call("Coin", coin, "balanceOf", one), hex(block)]) for one in people]
    found = dict(zip(people, (int(value, 16) for value in anvil.batch(asked)), strict=True))
    return {one: value for one, value in found.items() if value}


@pytest.mark.long
def test_balances_equal_the_contract_after_reorganisations_and_a_kill(anvil: Anvil, tmp_path: Path) -> None:
    rng = random.Random(20_261_121)
    people = [f"0x{rng.getrandbits(160):040x}" for _ in range(PEOPLE)]
    coin = anvil.deploy("Coin")
    trade = Trade(coin, rng, people=people)
    anvil.mine_many(trade.blocks(TRANSFERS * 6 // 10, YEAR * 6 // 10))

    answered = killed_midway(tmp_path, anvil, coin)
    with Store(tmp_path / "engine") as store:
        kept = store.history("test", coin)
        assert kept is not None, "the import was killed before it had stored anything"
    with way_to(anvil.url) as answers, ScriptedNode(answers) as node:
        report = imported(tmp_path, node.url, coin)
        first_asked = min(first for first, _ in node.ranges())
    assert 0 < first_asked <= max(last for _, last in answered) + 1  # it went on and did not begin again
    assert report["rows"] == TRANSFERS * 6 // 10 - kept.transfers + report["duplicates"]

    for depth in (3, 12):
        snapshot = anvil.rpc("evm_snapshot")
        gone = trade.fork().blocks(8 * depth, YEAR // 10)[:depth]
        anvil.mine_many(gone)
        assert imported(tmp_path, anvil.url, coin)["added"] == sum(len(calls) for _, calls in gone)
        assert anvil.rpc("evm_revert", snapshot)
        anvil.mine_many(trade.blocks(TRANSFERS * 2 // 10, YEAR * 2 // 10))
        report = imported(tmp_path, anvil.url, coin)
        assert report["reorgs"] == 1
        assert report["removed"] == sum(len(calls) for _, calls in gone)

    head = anvil.head()
    blocks = sorted(rng.sample(range(2, head + 1), min(CHECKS, head - 1)))
    with Store(tmp_path / "engine") as store:
        history = store.history("test", coin)
        assert history is not None
        assert history.transfers == TRANSFERS // 10 * 10
        for block in blocks:
            ours = dict(balances_as_of(store, "test", coin, from_unix(anvil.block_time(block))).holders)
            assert ours == balances_of(anvil, coin, block, people), block
        token = store.token("test", coin)
        assert token is not None
        assert (token.symbol, token.decimals) == ("LAKE", 6)
