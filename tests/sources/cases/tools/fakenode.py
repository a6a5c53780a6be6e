#!/usr/bin/env python3
# ruff: noqa: B019, PLR0911, PTH123, T201
"""A made-up EVM node on 127.0.0.1 with faults on demand. It needs only the standard library.

    fakenode.py MODE [--port PORT] [--head BLOCK] [--chain-id ID] [--log FILE] [--omit BLOCK] [--lacks METHOD]

It prints its address, then serves until it is ended. Port 0, the default, takes a free port. --log writes a line for
each call: the method, and for eth_getLogs the first and the last block. --omit leaves out the events of a block from
eth_getLogs, in any mode. --lacks names a method that the node does not have, or "state": then it refuses calls as of
any numbered block.

The chain has an ERC-20 token 0x7070...70. Block b, if b is a multiple of 50, mints b raw units to one of ten holders,
number b / 50 % 10 + 1 (0x00...01 to 0x00...0a). Block b has the time 1700000000 + 12 b. Calls of the contract answer as
of their block. Receipts and logsBloom always have all events.

MODE is one of
    ok                         no fault
    err:CODE:MAX:TEXT          eth_getLogs for more than MAX blocks fails with this JSON-RPC error; {n} in TEXT is MAX
    http:STATUS:CODE:MAX:TEXT  the same, with this HTTP status
    omit:BLOCK                 eth_getLogs leaves out the events of BLOCK
    cap:N                      eth_getLogs returns at most N events, without an error
    cut:MAX                    the answer of eth_getLogs for more than MAX blocks ends in the middle
    dup                        eth_getLogs returns each event twice
    meta:KIND                  name(), symbol() and decimals() answer oddly: bytes32, nulls, huge, rtl or empty
    weth                       the token is a wrapped coin: Deposit and Withdrawal events change balances, too
    items                      Transfer events without indexed fields, of numbered items that are minted and then moved
    rebase                     supply and balances are twice what the events say
    nullblock:N                eth_getBlockByNumber of block N is null
    late                       eth_blockNumber is 50 blocks ahead of the newest block that exists
"""

import argparse
import functools
import hashlib
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = "0x" + "70" * 20
TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
DEPOSIT = "0xe1fffcc4923d04b559f4d29a8bfc6cda04eb5b0d3c460751c2402c5c5cc9109c"
WITHDRAWAL = "0x7fcf532c15f0a6db0bd6d0e038bea71d30d808c7d98cb3bf7268a95bf5081b65"
FIRST_TIME, SECONDS = 1_700_000_000, 12
NAME, SYMBOL, DECIMALS, SUPPLY, BALANCE = "0x06fdde03", "0x95d89b41", "0x313ce567", "0x18160ddd", "0x70a08231"


class Fault(Exception):
    """A JSON-RPC error: code, text and HTTP status."""

    def __init__(self, code, text, status=200):
        super().__init__(text)
        self.code, self.text, self.status = code, text, status


def word(number):
    return f"0x{number:064x}"


def abi_text(raw):
    return f"0x{32:064x}{len(raw):064x}" + raw.hex() + "00" * (-len(raw) % 32)


class Node:
    """The chain and its faults. ``events`` is the truth, ``get_logs`` is what the node says of it."""

    def __init__(self, mode, head=30_000, chain_id=1, lacks=(), omitted=None):
        self.mode, *self.args = mode.split(":", 4 if mode.startswith("http") else 3)
        self.head, self.chain_id = head, chain_id
        self.lacks, self.omitted = frozenset(lacks), omitted

    def block_hash(self, block):
        return "0x" + hashlib.sha256(f"{self.chain_id}/{block}".encode()).hexdigest()

    def log(self, block, index, topics, data):
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

    def events(self, block):
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

    def event_blocks(self, first, last):
        """Return the blocks from ``first`` to ``last`` that may have events."""
        return range(max(50, (first + 49) // 50 * 50), min(last, self.head) + 1, 50)

    def changes(self, log):
        """Return what an event does to balances: pairs of holder number and raw units."""
        kind, value = log["topics"][0], int(log["data"], 16)
        parties = [int(topic, 16) for topic in log["topics"][1:]]
        if kind == DEPOSIT:
            return [(parties[0], value)]
        if kind == WITHDRAWAL:
            return [(parties[0], -value)]
        return [(parties[0], -value), (parties[1], value)]

    @functools.lru_cache(maxsize=8)
    def balances(self, block):
        """Return the true balances by holder number, at the end of a block. The zero address is left out."""
        totals = {}
        for one in self.event_blocks(0, block):
            for log in self.events(one):
                for holder, value in self.changes(log):
                    totals[holder] = totals.get(holder, 0) + value
        totals.pop(0, None)
        factor = 2 if self.mode == "rebase" else 1
        return {holder: factor * value for holder, value in totals.items()}

    def get_logs(self, first, last, wanted):
        if self.mode == "err" and last - first + 1 > int(self.args[1]):
            raise Fault(int(self.args[0]), self.args[2].replace("{n}", self.args[1]))
        if self.mode == "cut" and last - first + 1 > int(self.args[0]):
            return None
        if self.mode == "http" and last - first + 1 > int(self.args[2]):
            raise Fault(int(self.args[1]), self.args[3].replace("{n}", self.args[2]), int(self.args[0]))
        out = [log for block in self.event_blocks(first, last) for log in self.events(block)]
        out = [log for log in out if not wanted or log["topics"][0] in wanted]
        if self.mode == "omit":
            out = [log for log in out if int(log["blockNumber"], 16) != int(self.args[0])]
        out = [log for log in out if int(log["blockNumber"], 16) != self.omitted]
        if self.mode == "cap":
            out = out[: int(self.args[0])]
        return [log for log in out for _ in range(2)] if self.mode == "dup" else out

    def block(self, number):
        if number > self.head or (self.mode == "nullblock" and number == int(self.args[0])):
            return None
        return {
            "number": hex(number),
            "hash": self.block_hash(number),
            "parentHash": self.block_hash(number - 1),
            "timestamp": hex(FIRST_TIME + SECONDS * number),
            "transactions": [word(number)] if self.events(number) else [],
            "logsBloom": bloom_of(self.events(number)),
        }

    def describe(self, selector):
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

    def call(self, data, block):
        selector = data[:10]
        if selector == BALANCE:
            return word(self.balances(block).get(int(data[-40:], 16), 0))
        if selector == SUPPLY:
            return word(sum(self.balances(block).values()))
        return self.describe(selector) if selector in (NAME, SYMBOL, DECIMALS) else "0x"

    def number(self, name):
        return self.head if name in ("latest", "finalized", "safe", "pending", None) else int(name, 16)

    def answer(self, method, params):
        if method in self.lacks:
            raise Fault(-32601, f"the method {method} does not exist/is not available")
        if "state" in self.lacks and method in ("eth_call", "eth_getCode") and str(params[-1]).startswith("0x"):
            raise Fault(-32000, "missing trie node 0123abcd (path 05) state 0x0123 is not available, not found")
        if method == "eth_chainId":
            return hex(self.chain_id)
        if method == "eth_blockNumber":
            return hex(self.head + (50 if self.mode == "late" else 0))
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
            return None if logs is None else [log for log in logs if senders == "0x" or log["address"] in senders]
        if method == "eth_getCode":
            return "0x6001" if params[0].lower() == TOKEN else "0x"
        if method == "eth_call":
            data = params[0].get("data") or params[0].get("input")
            return self.call(data, self.number(params[1] if len(params) > 1 else None))
        raise Fault(-32601, f"the method {method} does not exist/is not available")


def bloom_of(logs):
    """Return the bloom filter of a block's events, as a header has it."""
    bits = bytearray(256)
    for log in logs:
        for item in [log["address"], *log["topics"]]:
            digest = keccak256(bytes.fromhex(item[2:]))
            for at in (0, 2, 4):
                bit = int.from_bytes(digest[at : at + 2], "big") & 2047
                bits[255 - bit // 8] |= 1 << bit % 8
    return "0x" + bytes(bits).hex()


@functools.lru_cache(maxsize=1 << 12)
def keccak256(message):
    """Return the Keccak-256 digest of a message of less than 136 bytes."""
    padded = bytearray(message.ljust(136, b"\0"))
    padded[len(message)] ^= 1
    padded[135] ^= 0x80
    mask = (1 << 64) - 1
    lanes = [int.from_bytes(padded[8 * i : 8 * i + 8], "little") if i < 17 else 0 for i in range(25)]
    state = [[lanes[x + 5 * y] for y in range(5)] for x in range(5)]
    register = 1
    for _ in range(24):
        parity = [functools.reduce(int.__xor__, column) for column in state]
        for x in range(5):
            right = parity[(x + 1) % 5]
            mixed = parity[x - 1] ^ ((right << 1 | right >> 63) & mask)
            state[x] = [lane ^ mixed for lane in state[x]]
        x, y, moved = 1, 0, state[1][0]
        for step in range(24):
            x, y = y, (2 * x + 3 * y) % 5
            shift = (step + 1) * (step + 2) // 2 % 64
            moved, state[x][y] = state[x][y], (moved << shift | moved >> (64 - shift)) & mask
        for y in range(5):
            row = [state[x][y] for x in range(5)]
            for x in range(5):
                state[x][y] = row[x] ^ (~row[(x + 1) % 5] & row[(x + 2) % 5] & mask)
        for power in range(7):
            register = (register << 1 ^ (register >> 7) * 0x71) % 256
            if register & 2:
                state[0][0] ^= 1 << ((1 << power) - 1)
    return b"".join(state[x][0].to_bytes(8, "little") for x in range(4))


def serve(node, port, log_file=None):
    """Print the node's address and serve it until the process ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            calls = body if isinstance(body, list) else [body]
            status, answers = 200, []
            for call in calls:
                answer = {"jsonrpc": "2.0", "id": call["id"]}
                note(call)
                try:
                    answer["result"] = node.answer(call["method"], call.get("params", []))
                except Fault as fault:
                    answer["error"] = {"code": fault.code, "message": fault.text}
                    status = max(status, fault.status)
                answers.append(answer)
            if status == 200:
                content = answers if isinstance(body, list) else answers[0]
            else:
                content = next(answer for answer in answers if "error" in answer)
            raw = json.dumps(content).encode()
            is_cut = node.mode == "cut" and any(answer.get("result", "") is None for answer in answers)
            self.reply(status, raw[: len(raw) // 2] if is_cut else raw, "application/json")

        def reply(self, status, raw, kind):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

    def note(call):
        if log_file:
            blocks = []
            if call["method"] == "eth_getLogs":
                blocks = [node.number(call["params"][0][key]) for key in ("fromBlock", "toBlock")]
            with open(log_file, "a", encoding="utf-8") as lines:
                print(call["method"], *blocks, file=lines)

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


def main(kind=Node, text=__doc__):
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--head", type=int, default=30_000)
    parser.add_argument("--chain-id", type=int, default=1)
    parser.add_argument("--log")
    parser.add_argument("--omit", type=int)
    parser.add_argument("--lacks", action="append", default=[])
    given = parser.parse_args()
    serve(kind(given.mode, given.head, given.chain_id, given.lacks, given.omit), given.port, given.log)


if __name__ == "__main__":
    main()
