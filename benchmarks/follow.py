"""Follow a real node (anvil) at 2-second blocks with reorganisations: the age of a block when a map shows it, and when
its alert arrives at a webhook.

After each block all balances are compared with those of the model that made the transfers. Prints latencies, wrong
balances and the memory of the follower at the beginning and at the end.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from holderlake.core.contract.requests import MapOptions
from holderlake.core.contract.times import from_unix
from holderlake.engine.direct import StoreEngine
from holderlake.engine.queries.balances import balances_as_of
from holderlake.engine.store.store import Store
from tests.end_to_end.test_real_chain import environment
from tests.helpers.chain.anvil import Anvil, call, program
from tests.helpers.processes import DEVNULL, start_holderlake
from tests.helpers.receiver import Receiver

BLOCK_SECONDS = 2.0
PEOPLE = 300
TRANSFERS = 8
PATIENCE = 60.0


class World:
    """A chain with one coin, and the balances that its transfers leave."""

    def __init__(self, anvil: Anvil) -> None:
        self.anvil, self.coin, self.random = anvil, anvil.deploy("Coin"), random.Random(1)
        self.people = [f"0x{self.random.getrandbits(160):040x}" for _ in range(PEOPLE)]
        self.owned: dict[str, int] = {}
        self.whales = 0
        self._mine([(person, 10**6) for person in self.people], [])

    def block(self) -> str:
        """Make a block of transfers, and return the address of its whale, which is new and holds most."""
        self.whales += 1
        whale = f"0x{0xFEED_0000_0000 + self.whales:040x}"
        moves = []
        for _ in range(TRANSFERS):
            sender, receiver = self.random.sample(self.people, 2)
            value = self.random.randint(0, self.owned[sender])
            self.owned[sender] -= value
            self.owned[receiver] += value
            moves.append((sender, receiver, value))
        self._mine([(whale, 10**9 + self.whales)], moves)
        return whale

    def _mine(self, mints: list[tuple[str, int]], moves: list[tuple[str, str, int]]) -> None:
        for receiver, value in mints:
            self.owned[receiver] = self.owned.get(receiver, 0) + value
        calls = [call("Coin", self.coin, "move", *move) for move in moves]
        self.anvil.mine([*calls, *(call("Coin", self.coin, "mint", *mint) for mint in mints)])


def main() -> None:
    """Follow for some minutes, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--reorgs", type=int, default=20)
    chosen = parser.parse_args()
    blocks = round(60 * chosen.minutes / BLOCK_SECONDS)
    with Anvil(program()) as anvil, Receiver() as receiver, tempfile.TemporaryDirectory() as folder:
        world, home = World(anvil), Path(folder)
        rules = {"newcomers": {"rule": "new_top_holder", "top": 5}}
        own = {
            "HOLDERLAKE_WATCHLIST": json.dumps({"test": [world.coin]}),
            "HOLDERLAKE_ALERTS__RULES": json.dumps(rules),
            "HOLDERLAKE_ALERTS__WEBHOOK": receiver.url,
        }
        arguments = ["import", "node", anvil.url, "--chain", "test", "--follow"]
        follower = start_holderlake(*arguments, env=environment(home) | own, stdout=DEVNULL, stderr=DEVNULL)
        wait_for((home / "engine" / "followers" / "test.json").exists)
        with Store(home / "engine") as store:
            wait_for(lambda: balances(store, world) == held(world))
            measure(world, store, receiver, follower.pid, blocks, chosen.reorgs)
        follower.terminate()
        follower.wait()


def measure(world: World, store: Store, receiver: Receiver, pid: int, blocks: int, reorgs: int) -> None:
    """Make the blocks, and print what was measured."""
    engine = StoreEngine(lambda: store, lambda: "own store")
    shown, alerted, wrong, undone, memory = [], [], 0, 0, [resident(pid)]
    began = time.monotonic()
    for number in range(blocks):
        time.sleep(max(0.0, began + BLOCK_SECONDS * number - time.monotonic()))
        if (number + 1) * reorgs // blocks > number * reorgs // blocks:
            snapshot, before = world.anvil.rpc("evm_snapshot"), dict(world.owned)
            lost = world.block()
            wait_for(lambda lost=lost: on_map(engine, world, lost))
            world.anvil.rpc("evm_revert", snapshot)
            world.owned = before
            undone += 1
        whale, at = world.block(), time.monotonic()
        wait_for(lambda whale=whale: on_map(engine, world, whale))
        shown.append(time.monotonic() - at)
        wait_for(lambda whale=whale: any(whale in post.body.decode() for post in receiver.posts[-5:]))
        alerted.append(time.monotonic() - at)
        wrong += balances(store, world) != held(world)
        if number % max(1, blocks // 10) == 0:
            memory.append(resident(pid))
            print(f"block {number:,}: {memory[-1]:,} MB", flush=True)
    notices = sum(b"alert_undone" in post.body for post in receiver.posts)
    print(f"{blocks:,} blocks, {undone} reorganisations, {notices} alerts undone, {wrong} blocks with wrong balances")
    print(f"on the map: {described(shown)}")
    print(f"alert received: {described(alerted)}")
    print(f"memory of the follower: {memory[1]:,} MB after the first block, {resident(pid):,} MB at the end")


def on_map(engine: StoreEngine, world: World, address: str) -> bool:
    """Return whether the map of the newest block has a node of the address."""
    at = from_unix(world.anvil.block_time(world.anvil.head()))
    nodes = engine.maps("test", [world.coin], [at], MapOptions()).tables["map_nodes"]
    return address in nodes["address"].to_pylist()


def balances(store: Store, world: World) -> dict[str, int]:
    """Return the balances above zero that the store has."""
    found = balances_as_of(store, "test", world.coin, from_unix(2**32)).holders
    return {address: value for address, value in dict(found).items() if value}


def held(world: World) -> dict[str, int]:
    """Return the balances above zero that the transfers of the model leave."""
    return {address: value for address, value in world.owned.items() if value}


def described(seconds: list[float]) -> str:
    """Return median, 99th percentile and maximum as text."""
    ordered = sorted(seconds)
    last = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    return f"median {statistics.median(ordered):.2f} s, 99th percentile {last:.2f} s, longest {ordered[-1]:.2f} s"


def resident(pid: int) -> int:
    """Return the resident memory of a process in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4_096 // 1_000_000


def wait_for(found: Callable[[], bool]) -> None:
    """Wait until the function returns True."""
    deadline = time.monotonic() + PATIENCE
    while not found():
        if time.monotonic() > deadline:
            raise TimeoutError("the follower did not follow")
        time.sleep(0.03)


if __name__ == "__main__":
    main()
