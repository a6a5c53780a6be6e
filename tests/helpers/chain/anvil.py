"""A real Ethereum node of the tests' own, anvil: blocks at chosen times, transfers from anybody, reorganisations.

The contracts in ``contracts.json`` are ``contracts.sol``, compiled once by solc (npm package ``solc``, optimiser on,
EVM version paris); what is in it is the bytecode, and the four bytes by which each function is called.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx

from tests.helpers.processes import PATIENCE
from tests.helpers.real import missing

ROOT: Final = Path(__file__).parents[3]
CONTRACTS: Final = json.loads(Path(__file__).with_name("contracts.json").read_text())
GENESIS_TIME: Final = 1_672_531_200
SENDER: Final = "0x" + "5e" * 20
"""Sender of all transactions; anvil accepts any."""
MISSING: Final = "the node anvil is not here; the npm package '@foundry-rs/anvil-linux-amd64' holds it (see .ci/run)"
_BATCH: Final = 500
_DEFAULTS: Final = {"from": SENDER, "gas": hex(2_000_000), "gasPrice": "0x0"}


def find() -> str | None:
    """The node's program: as ``HOLDERLAKE_ANVIL`` names it, else in the PATH, else where ``.ci/run`` installs it."""
    installed = ROOT / ".cache" / "anvil" / "node_modules" / "@foundry-rs"
    named = [os.environ.get("HOLDERLAKE_ANVIL"), shutil.which("anvil")]
    found = [*filter(None, named), *map(str, installed.glob("anvil-*/bin/anvil"))]
    return found[0] if found else None


def program() -> str:
    """The node's program. Skips the test without it, or fails it where real parts are required."""
    found = find()
    if found is None:
        missing(MISSING)
    return found


class Anvil:
    """A node that runs as long as the block; ``chain_id`` 31337 is none that we know a name of."""

    def __init__(self, path: str, chain_id: int = 31_337) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self._folder = TemporaryDirectory(prefix="holderlake-anvil-")
        arguments = {
            "--host": "127.0.0.1",
            "--port": port,
            "--chain-id": chain_id,
            "--timestamp": GENESIS_TIME,
            "--order": "fifo",
            "--base-fee": 0,
            "--gas-limit": 3_000_000_000,
            "--max-persisted-states": 100_000,  # balances of any past block
            "--cache-path": self._folder.name,
        }
        flags = ["--no-mining", "--auto-impersonate", "--disable-min-priority-fee", "--silent"]
        written = [str(part) for pair in arguments.items() for part in pair]
        self._process = subprocess.Popen([path, *written, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._http = httpx.Client(base_url=self.url, timeout=None, verify=False, trust_env=False)

    def __enter__(self) -> Anvil:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self.rpc("eth_chainId")
            except httpx.TransportError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.02)
            else:
                break
        self.rpc("anvil_setBalance", SENDER, hex(10**30))
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()

    def rpc(self, method: str, *params: Any) -> Any:
        """The result of one call."""
        return self.batch([(method, params)])[0]

    def batch(self, calls: Sequence[tuple[str, Sequence[Any]]]) -> list[Any]:
        """The results of many calls."""
        results: list[Any] = []
        for at in range(0, len(calls), _BATCH):
            body = [
                {"jsonrpc": "2.0", "id": own, "method": method, "params": list(params)}
                for own, (method, params) in enumerate(calls[at : at + _BATCH])
            ]
            for answer in self._http.post("/", json=body).json():
                if "error" in answer:
                    raise RuntimeError(answer["error"])
                results.append(answer["result"])
        return results

    def deploy(self, contract: str) -> str:
        """Puts a contract on the chain, in a block of its own; its address."""
        transaction = self.rpc("eth_sendTransaction", _DEFAULTS | {"data": CONTRACTS[contract]["bytecode"]})
        self.mine()
        return str(self.rpc("eth_getTransactionReceipt", transaction)["contractAddress"])

    def mine(self, calls: Sequence[dict[str, Any]] = (), at: int | None = None) -> int:
        """Makes a block of transactions, at a second (unix) if one is given; its number."""
        if calls:
            # calls of one batch run side by side; their numbers keep the transactions in order
            first = int(self.rpc("eth_getTransactionCount", SENDER, "latest"), 16)
            numbered = [_DEFAULTS | {"nonce": hex(first + place)} | one for place, one in enumerate(calls)]
            self.batch([("eth_sendTransaction", [one]) for one in numbered])
        self.rpc("evm_mine", *([hex(at)] if at is not None else []))
        return self.head()

    def mine_many(self, blocks: Iterable[tuple[int, Sequence[dict[str, Any]]]]) -> None:
        """Makes blocks, each at its second (unix) of its transactions."""
        for at, calls in blocks:
            self.mine(calls, at)

    def head(self) -> int:
        """The newest block's number."""
        return int(self.rpc("eth_blockNumber"), 16)

    def block_time(self, block: int) -> int:
        """A block's second (unix)."""
        return int(self.rpc("eth_getBlockByNumber", hex(block), False)["timestamp"], 16)


def call(contract: str, address: str, function: str, *arguments: str | int | list[int]) -> dict[str, Any]:
    """A transaction that calls a function; ``function`` is its name alone."""
    selectors = CONTRACTS[contract]["selectors"]
    selector = next(own for signature, own in selectors.items() if signature.split("(")[0] == function)
    return {"to": address, "data": f"0x{selector}{_encoded(arguments)}"}


def _encoded(arguments: Sequence[str | int | list[int]]) -> str:
    """Arguments as contracts read them: a word each, arrays behind them."""
    words, behind = [], ""
    for one in arguments:
        if isinstance(one, list):
            words.append(_word(32 * len(arguments) + len(behind) // 2))
            behind += _word(len(one)) + "".join(map(_word, one))
        else:
            words.append(_word(int(one, 16) if isinstance(one, str) else one))
    return "".join(words) + behind


def _word(number: int) -> str:
    return f"{number:064x}"
