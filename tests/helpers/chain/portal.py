"""A scripted SQD portal on loopback, which streams a made-up chain."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.helpers.chain.scripted import MadeUpChain, send
from tests.helpers.servers import LoopbackServer

PATH = "/datasets/made-up"
Query = dict[str, Any]
_KEYS = {"type", "fromBlock", "toBlock", "fields", "logs", "includeAllBlocks"}


class ScriptedPortal:
    """Serves the final blocks of ``chain``, at most ``blocks`` in a stream. ``before`` may answer a query by itself: it
    gets the handler and the query, and returns whether it did. ``queries`` lists all queries."""

    def __init__(
        self,
        chain: MadeUpChain,
        blocks: int = 1_000_000,
        before: Callable[[BaseHTTPRequestHandler, Query], bool] = lambda *_: False,
    ) -> None:
        self.chain, self.blocks, self.before = chain, blocks, before
        self.queries: list[Query] = []
        portal = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                if self.path != f"{PATH}/finalized-head":
                    send(self, b"not found", 404)
                else:
                    send(self, {"number": portal.chain.head, "hash": portal.chain.hash(portal.chain.head)})

            def do_POST(self) -> None:
                query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                portal.queries.append(query)
                if portal.before(self, query):
                    return
                if self.path != f"{PATH}/finalized-stream" or query["type"] != "evm" or query.keys() - _KEYS:
                    send(self, b"unknown field or stream", 400)
                elif query["fromBlock"] > portal.chain.head:
                    send(self, b"", 204)
                else:
                    send(self, gzip.compress(portal.stream(query)), Content_Encoding="gzip")

            def log_message(self, *_: Any) -> None:
                pass

        self._server = LoopbackServer(Handler)
        self.url = f"{self._server.url}{PATH}"

    def stream(self, query: Query) -> bytes:
        """The lines of a query: blocks with events, and the first and the last block."""
        first_block = query["fromBlock"]
        last_block = min(query["toBlock"], first_block + self.blocks - 1, self.chain.head)
        lines = []
        for number in range(first_block, last_block + 1):
            logs = [_event(log) for log in self.chain.logs(number) if number and _is_wished(log, query.get("logs", []))]
            if logs or query.get("includeAllBlocks") or number in (first_block, last_block):
                block = {"header": self._header(number), **({"logs": logs} if logs else {})}
                header = {name: block["header"][name] for name in query["fields"]["block"]}
                lines.append(json.dumps(block | {"header": header}))
        return "".join(f"{line}\n" for line in lines).encode()

    def _header(self, number: int) -> dict[str, Any]:
        header = self.chain.block(number)
        return header | {"number": number, "timestamp": int(header["timestamp"], 16)}

    def ranges(self) -> list[tuple[int, int]]:
        """The block ranges that events were asked for, in order."""
        return [(query["fromBlock"], query["toBlock"]) for query in self.queries if "logs" in query]

    def __enter__(self) -> ScriptedPortal:
        self._server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.__exit__()


def _event(log: dict[str, Any]) -> dict[str, Any]:
    names = ("address", "topics", "data", "transactionHash")
    return {name: log[name] for name in names} | {"logIndex": int(log["logIndex"], 16)}


def _is_wished(log: dict[str, Any], wishes: list[dict[str, list[str]]]) -> bool:
    return any(
        log["address"] in wish.get("address", [log["address"]])
        and log["topics"][0] in wish.get("topic0", log["topics"])
        for wish in wishes
    )
