"""A made-up chain whose node has faults on demand: ``faulty_node(mode)``.

The chain has an ERC-20 token 0x7070...70. Block b, if b is a multiple of 50, mints b raw units to one of ten holders,
number b / 50 % 10 + 1 (0x00...01 to 0x00...0a). Block b has the time 1700000000 + 12 b. Calls of the contract answer as
of their block. Receipts and logsBloom always have all events.

A mode is one of
    ok                         no fault
    err:CODE:MAX:TEXT          eth_getLogs for more than MAX blocks fails with this JSON-RPC error; {n} in TEXT is MAX
    http:STATUS:CODE:MAX:TEXT  the same, with this HTTP status
    omit:BLOCK                 eth_getLogs leaves out the events of BLOCK
    pruned:BLOCK               eth_getLogs answers with an empty list for blocks before BLOCK
    cut:MAX                    the answer of eth_getLogs for more than MAX blocks ends in the middle
    meta:KIND                  name(), symbol() and decimals() answer oddly: bytes32, nulls, huge, rtl or empty
    weth                       the token is a wrapped coin: Deposit and Withdrawal events change balances, too
    items                      Transfer events without indexed fields, of numbered items that are minted and then moved
    rebase                     supply and balances are twice what the events say
"""

from __future__ import annotations

import functools
import hashlib
from http.server import BaseHTTPRequestHandler
from typing import Any

import numpy as np

from holderlake.core.contract.chains.keccak import keccak256
from tests.helpers.chain.scripted import FIRST_TIME, TOKEN, TRANSFER, Fault, ScriptedNode, send

DEPOSIT = "0xe1fffcc4923d04b559f4d29a8bfc6cda04eb5b0d3c460751c2402c5c5cc9109c"
WITHDRAWAL = "0x7fcf532c15f0a6db0bd6d0e038bea71d30d808c7d98cb3bf7268a95bf5081b65"
SECONDS = 12
NAME, SYMBOL, DECIMALS, SUPPLY, BALANCE = "0x06fdde03", "0x95d89b41", "0x313ce567", "0x18160ddd", "0x70a08231"


def faulty_node(mode: str, head: int = 30_000, lacks: tuple[str, ...] = (), omitted: int | None = None) -> ScriptedNode:
    """Return a node of the made-up chain. ``omitted`` is a block whose events eth_getLogs leaves out, in any mode.

    ``lacks`` has methods that the node does not have, or "state": then it refuses calls as of any numbered block.
    """
    chain = FaultyChain(mode, head, lacks, omitted)
    return ScriptedNode(chain.answer, chain.cuts)


def word(number: int) -> str:
    """Return a number as 32 bytes."""
    return f"0x{number:064x}"


def abi_text(raw: bytes) -> str:
    """Return a text as a contract returns it."""
    return f"0x{32:064x}{len(raw):064x}" + raw.hex() + "00" * (-len(raw) % 32)


class FaultyChain:
    """The chain and its faults. ``events`` is the truth, ``get_logs`` is what the node says of it."""

    def __init__(self, mode: str, head: int, lacks: tuple[str, ...], omitted: int | None) -> None:
        self.mode, *self.args = mode.split(":", 4 if mode.startswith("http") else 3)
        self.head, self.lacks, self.omitted = head, lacks, omitted

    def block_hash(self, block: int) -> str:
        return "0x" + hashlib.sha256(f"1/{block}".encode()).hexdigest()

    def log(self, block: int, index: int, topics: list[str], data: str) -> dict[str, Any]:
        return {
            "address": TOKEN,
            "topics": topics,
            "data": data,
            "blockNumber": hex(block),
            "blockHash": self.block_hash(block),
            "transactionHash": word(block),
            "transactionIndex": "0x0",
            "logIndex": hex(index),
            "removed": False,
            "blockTimestamp": hex(FIRST_TIME + SECONDS * block),
        }

    def events(self, block: int) -> list[dict[str, Any]]:
        """Return all events of a block."""
        if block % 50 or not block:
            return []
        if self.mode == "items":
            item, is_move = divmod(block // 50 + 1, 2)
            owners = (item + 10, item + 20) if is_move else (0, item + 10)
            return [self.log(block, 0, [TRANSFER], "0x" + "".join(word(number)[2:] for number in (*owners, item)))]
        if self.mode != "weth":
            return [self.log(block, 0, [TRANSFER, word(0), word(block // 50 % 10 + 1)], word(block))]
        if block % 100:
            return [self.log(block, 0, [DEPOSIT, word(1)], word(1000))]
        return [
            self.log(block, 0, [TRANSFER, word(1), word(2)], word(100)),
            self.log(block, 1, [WITHDRAWAL, word(2)], word(50)),
        ]

    def event_blocks(self, first: int, last: int) -> range:
        """Return the blocks from ``first`` to ``last`` that may have events."""
        return range(max(50, (first + 49) // 50 * 50), min(last, self.head) + 1, 50)

    def changes(self, log: dict[str, Any]) -> list[tuple[int, int]]:
        """Return what an event does to balances: pairs of holder number and raw units."""
        kind, value = log["topics"][0], int(log["data"], 16)
        parties = [int(topic, 16) for topic in log["topics"][1:]]
        if kind == DEPOSIT:
            return [(parties[0], value)]
        if kind == WITHDRAWAL:
            return [(parties[0], -value)]
        return [(parties[0], -value), (parties[1], value)]

    def balances(self, block: int) -> dict[int, int]:
        """Return the true balances by holder number, at the end of a block. The zero address is left out."""
        totals: dict[int, int] = {}
        for one in self.event_blocks(0, block):
            for log in self.events(one):
                for holder, value in self.changes(log):
                    totals[holder] = totals.get(holder, 0) + value
        totals.pop(0, None)
        factor = 2 if self.mode == "rebase" else 1
        return {holder: factor * value for holder, value in totals.items()}

    def get_logs(self, first: int, last: int, wanted: list[str] | None) -> list[dict[str, Any]]:
        if self.mode == "err" and last - first + 1 > int(self.args[1]):
            raise Fault(int(self.args[0]), self.args[2].replace("{n}", self.args[1]))
        if self.mode == "http" and last - first + 1 > int(self.args[2]):
            raise Fault(int(self.args[1]), self.args[3].replace("{n}", self.args[2]), int(self.args[0]))
        out = [log for block in self.event_blocks(first, last) for log in self.events(block)]
        out = [log for log in out if not wanted or log["topics"][0] in wanted]
        if self.mode == "omit":
            out = [log for log in out if int(log["blockNumber"], 16) != int(self.args[0])]
        out = [log for log in out if int(log["blockNumber"], 16) != self.omitted]
        if self.mode == "pruned":
            out = [log for log in out if int(log["blockNumber"], 16) >= int(self.args[0])]
        return out

    def block(self, number: int) -> dict[str, Any] | None:
        if number > self.head:
            return None
        return {
            "number": hex(number),
            "hash": self.block_hash(number),
            "parentHash": self.block_hash(number - 1),
            "timestamp": hex(FIRST_TIME + SECONDS * number),
            "transactions": [word(number)] if self.events(number) else [],
            "logsBloom": bloom_of(self.events(number)),
        }

    def describe(self, selector: str) -> str:
        """Return the answer of name(), symbol() or decimals()."""
        kind = self.args[0] if self.mode == "meta" else ""
        if selector == DECIMALS:
            odd = {"nulls": word(8), "huge": "0x" + "f" * 64, "rtl": word(6), "empty": "0x"}
            return odd.get(kind, word(18))
        text = b"Maker" if selector == NAME else b"MKR"
        return {
            "bytes32": "0x" + text.hex().ljust(64, "0"),
            "nulls": abi_text(b"LcDAI" + b"\0" * 59),
            "huge": abi_text(b'=HYPERLINK("http://x.example")'),
            "rtl": abi_text("\u202eCDSU\u202c <b>x</b> \U0001f680".encode()),
            "empty": "0x",
        }.get(kind, abi_text(b"Made Up"))

    def call(self, data: str, block: int) -> str:
        selector = data[:10]
        if selector == BALANCE:
            return word(self.balances(block).get(int(data[-40:], 16), 0))
        if selector == SUPPLY:
            return word(sum(self.balances(block).values()))
        return self.describe(selector) if selector in (NAME, SYMBOL, DECIMALS) else "0x"

    def cuts(self, handler: BaseHTTPRequestHandler, calls: list[dict[str, Any]]) -> bool:
        """Answer with a document that ends in the middle, in the mode for it; return whether it did."""
        asked = [call["params"][0] for call in calls if call["method"] == "eth_getLogs" and self.mode == "cut"]
        if not any(self.number(one["toBlock"]) - self.number(one["fromBlock"]) >= int(self.args[0]) for one in asked):
            return False
        send(handler, b'{"jsonrpc": "2.0", "id": 1, "result": [{"addr')
        return True

    def number(self, name: str | None) -> int:
        return self.head if name in ("latest", "finalized", "safe", "pending", None) else int(name, 16)

    def answer(self, method: str, params: list[Any]) -> Any:  # noqa: PLR0911 - one for each method
        """Return the answer to a call."""
        if method in self.lacks:
            raise Fault(-32601, f"the method {method} does not exist/is not available")
        if "state" in self.lacks and method in ("eth_call", "eth_getCode") and str(params[-1]).startswith("0x"):
            raise Fault(-32000, "missing trie node 0123abcd (path 05) state 0x0123 is not available, not found")
        if method == "eth_chainId":
            return "0x1"
        if method == "eth_blockNumber":
            return hex(self.head)
        if method == "eth_getBlockByNumber":
            return self.block(self.number(params[0]))
        if method == "eth_getBlockReceipts":
            block = self.number(params[0])
            logs = self.events(block)
            receipt = {"transactionHash": word(block), "status": "0x1", "contractAddress": None, "logs": logs}
            return [receipt] if logs else []
        if method == "eth_getTransactionReceipt":
            logs = self.events(int(params[0], 16))
            return {"transactionHash": params[0], "status": "0x1", "contractAddress": None, "logs": logs}
        if method == "eth_getLogs":
            wanted = (params[0].get("topics") or [None])[0]
            wanted = [wanted] if isinstance(wanted, str) else wanted
            logs = self.get_logs(self.number(params[0]["fromBlock"]), self.number(params[0]["toBlock"]), wanted)
            senders = str(params[0].get("address") or "0x").lower()  # an address, or a list of them
            return [log for log in logs if senders == "0x" or log["address"] in senders]
        if method == "eth_getCode":
            return "0x6001" if params[0].lower() == TOKEN else "0x"
        if method == "eth_call":
            data = params[0].get("data") or params[0].get("input")
            return self.call(data, self.number(params[1] if len(params) > 1 else None))
        raise Fault(-32601, f"the method {method} does not exist/is not available")


def bloom_of(logs: list[dict[str, Any]]) -> str:
    """Return the bloom filter of a block's events, as a header has it."""
    bits = bytearray(256)
    for log in logs:
        for item in [log["address"], *log["topics"]]:
            digest = digest_of(item)
            for at in (0, 2, 4):
                bit = int.from_bytes(digest[at : at + 2], "big") & 2047
                bits[255 - bit // 8] |= 1 << bit % 8
    return "0x" + bytes(bits).hex()


@functools.lru_cache(maxsize=1 << 12)
def digest_of(item: str) -> bytes:
    """Return the Keccak-256 digest of hexadecimal bytes."""
    return keccak256(np.frombuffer(bytes.fromhex(item[2:]), np.uint8)[None])[0].tobytes()
