"""A scripted node on loopback: a made-up chain or a proxy of a real node, with wrong answers on demand."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any

import httpx

from tests.helpers.servers import LoopbackServer

TOKEN = "0x" + "70" * 20
TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
FIRST_TIME = 1_700_000_000
Answer = Callable[[str, list[Any]], Any]


class Fault(Exception):
    """A JSON-RPC error as the answer to a call. One with another HTTP ``status`` answers the whole request."""

    def __init__(self, code: int, message: str, status: int = 200) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


@dataclass
class MadeUpChain:
    """Blocks 12 s apart with one transfer each, of as many units as the block's number, minted to one of ten holders.

    ``fork`` is the block from which hashes are others, and values one more.
    """

    head: int
    chain_id: int = 1
    fork: int | None = None
    with_times: bool = True
    logs_a_block: int = 1

    def answer(self, method: str, params: list[Any]) -> Any:
        """Return the answer of a correct node."""
        match method:
            case "eth_chainId":
                return hex(self.chain_id)
            case "eth_blockNumber":
                return hex(self.head)
            case "eth_getBlockByNumber":
                number = int(params[0], 16)
                return self.block(number) if number <= self.head else None
            case "eth_getLogs":
                first, last = (int(params[0][end], 16) for end in ("fromBlock", "toBlock"))
                return [log for block in range(max(first, 1), min(last, self.head) + 1) for log in self.logs(block)]
            case "eth_getCode":
                return "0x"
            case "eth_call":
                return "0x"
        raise Fault(-32601, f"the method {method} does not exist/is not available")

    def is_forked(self, block: int) -> bool:
        return self.fork is not None and block >= self.fork

    def hash(self, block: int) -> str:
        """A block's hash."""
        text = f"{self.chain_id}/{block}/{self.is_forked(block)}"
        return f"0x{hashlib.sha256(text.encode()).hexdigest()}"

    def block(self, number: int) -> dict[str, Any]:
        """A block's header."""
        return {
            "number": hex(number),
            "hash": self.hash(number),
            "parentHash": self.hash(number - 1),
            "timestamp": hex(FIRST_TIME + 12 * number),
            "transactions": [],
        }

    def logs(self, block: int) -> list[dict[str, Any]]:
        """A block's events."""
        made = []
        for index in range(self.logs_a_block):
            log = {
                "address": TOKEN,
                "topics": [TRANSFER, _topic(0), _topic(block % 10 + 1)],
                "data": f"0x{block + self.is_forked(block):064x}",
                "blockNumber": hex(block),
                "blockHash": self.hash(block),
                "transactionHash": f"0x{block:064x}",
                "logIndex": hex(index),
                "removed": False,
            }
            made.append(log | ({"blockTimestamp": self.block(block)["timestamp"]} if self.with_times else {}))
        return made


def _topic(number: int) -> str:
    return f"0x{number:064x}"


@contextmanager
def way_to(url: str) -> Iterator[Answer]:
    """Yield a function that forwards calls to the node at another address."""
    with httpx.Client(base_url=url, timeout=None, verify=False, trust_env=False) as client:

        def answer(method: str, params: list[Any]) -> Any:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            reply = client.post("/", json=body).json()
            if "error" in reply:
                raise Fault(reply["error"]["code"], reply["error"]["message"])
            return reply["result"]

        yield answer


class Wait(Exception):
    """Raised by an answer that is never to come."""


class ScriptedNode:
    """Serves ``answer`` over HTTP. ``before`` may answer a whole request by itself: it gets the handler and the calls,
    and returns whether it did. ``asked`` lists all calls."""

    def __init__(
        self,
        answer: Answer,
        before: Callable[[BaseHTTPRequestHandler, list[dict[str, Any]]], bool] = lambda *_: False,
        path: str = "",
    ) -> None:
        self.answer = answer
        self.before = before
        self.asked: list[tuple[str, list[Any]]] = []
        self.ended = threading.Event()
        node = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                calls = body if isinstance(body, list) else [body]
                node.asked += [(call["method"], call["params"]) for call in calls]
                if node.before(self, calls):
                    return
                try:
                    answers = [node.reply(call) for call in calls]
                except Wait:
                    node.ended.wait()
                    self.close_connection = True
                    return
                status = max(status for status, _ in answers)
                bodies = [one for of_one, one in answers if of_one == status]
                send(self, bodies if isinstance(body, list) and status == 200 else bodies[0], status)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = LoopbackServer(Handler)
        self.url = f"{self._server.url}{path}"

    def reply(self, call: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """The HTTP status and the JSON-RPC answer to one call."""
        head = {"jsonrpc": "2.0", "id": call["id"]}
        try:
            return 200, head | {"result": self.answer(call["method"], call["params"])}
        except Fault as fault:
            return fault.status, head | {"error": {"code": fault.code, "message": str(fault)}}

    def ranges(self) -> list[tuple[int, int]]:
        """The block ranges that events were asked for, in order."""
        wanted = [params[0] for method, params in self.asked if method == "eth_getLogs"]
        return [(int(own["fromBlock"], 16), int(own["toBlock"], 16)) for own in wanted]

    def __enter__(self) -> ScriptedNode:
        self._server.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ended.set()
        self._server.__exit__()


def send(handler: BaseHTTPRequestHandler, body: Any, status: int = 200, **headers: str) -> None:
    """Answers a request; ``body`` is JSON, or bytes as they are."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(raw)))
    handler.end_headers()
    handler.wfile.write(raw)
