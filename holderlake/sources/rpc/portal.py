"""A dataset of an SQD portal, in the place of an endpoint of JSON-RPC.

A portal streams the events and headers of final blocks by HTTP, without limits on the range. It has no state of
contracts. A stream is JSON lines, one for each block with events and for the first and the last block that it covers.
It may end before the range does: the next stream begins after its last block.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from itertools import pairwise
from typing import Any, Final

import httpx
import msgspec

from holderlake.sources.rpc.endpoint import TOO_LARGE, Endpoint
from holderlake.sources.rpc.errors import InvalidAnswer, Refused, RpcError, TooLarge, Unavailable, shortened
from holderlake.sources.rpc.messages import Call, Header, Log, number
from holderlake.sources.rpc.node import Node

_FIELDS: Final = {
    "block": dict.fromkeys(("number", "hash", "parentHash", "timestamp"), True),
    "log": dict.fromkeys(("address", "topics", "data", "transactionHash", "logIndex"), True),
}
_REFUSING: Final = frozenset(
    {HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}
)

_RATE_SECONDS: Final = 10.0
"""Seconds to wait after too many requests, if the portal does not say it. The public portal counts in such windows."""


class _Head(msgspec.Struct):
    number: int


class _Header(msgspec.Struct, rename="camel", gc=False):
    number: int
    hash: str
    parent_hash: str
    timestamp: int


class _Event(msgspec.Struct, rename="camel", gc=False):
    address: str
    topics: list[str]
    data: str
    transaction_hash: str
    log_index: int


class _Block(msgspec.Struct, gc=False):
    header: _Header
    logs: list[_Event] = []

    def answer(self) -> Header:
        """Return the header as a node answers it."""
        header = self.header
        return Header(hex(header.number), header.hash, header.parent_hash, hex(header.timestamp))

    def events(self) -> list[Log]:
        """Return the events as a node answers them."""
        block, time = hex(self.header.number), hex(self.header.timestamp)
        return [
            Log(
                event.address,
                event.topics,
                event.data,
                block,
                self.header.hash,
                event.transaction_hash,
                hex(event.log_index),
                time,
            )
            for event in self.logs
        ]


_LINES: Final = msgspec.json.Decoder(_Block)
_HEAD: Final = msgspec.json.Decoder(_Head | None)


class Portal(Endpoint):
    """A dataset of a portal. It answers the calls for the newest block, headers and events; the newest block is the
    newest final one.

    Other calls are refused, or have the result None if they may fail. A portal does not state its chain id.
    """

    async def ask(self, calls: Sequence[Call], evm_id: int) -> list[Any]:
        """Return the results of the calls, in their order; ``evm_id`` is not checked. Raises ``RpcError``."""
        events = {place: await self._events(call) for place, call in enumerate(calls) if call.method == "eth_getLogs"}
        headers = {block.header.number: block.answer() for blocks in events.values() for block in blocks}
        wished = {int(call.params[0], 16) for call in calls if _is_header(call)}
        for first_block, last_block in _runs(sorted(wished - headers.keys())):
            run = await self._blocks(first_block, last_block, {"includeAllBlocks": True}, is_divisible=False)
            headers |= {block.header.number: block.answer() for block in run}
        answers: list[Any] = []
        for place, call in enumerate(calls):
            if place in events:
                answers.append([event for block in events[place] for event in block.events()])
            elif _is_header(call):
                answers.append(headers.get(int(call.params[0], 16)))
            elif call.method == "eth_blockNumber":
                answers.append(hex(await self._head()))
            elif call.may_fail:
                answers.append(None)
            else:
                raise Refused(f"{self.host} is a portal, which does not serve {call.method}; use a node for it")
        return answers

    async def _head(self) -> int:
        raw = await self._send("GET", self._place("finalized-head"), None, is_divisible=False)
        try:
            head: _Head | None = _HEAD.decode(raw)
        except msgspec.DecodeError:
            raise InvalidAnswer(f"{self.host} did not answer as a portal; check the dataset's address") from None
        if head is None:
            raise Unavailable(f"the dataset of {self.host} has no final block yet; wait")
        return head.number

    async def _events(self, call: Call) -> list[_Block]:
        wished = call.params[0]
        wished_events = {"topic0": wished["topics"][0]} if wished["topics"] else {}
        if "address" in wished:
            wished_events["address"] = wished["address"]
        ends = number(wished["fromBlock"]), number(wished["toBlock"])
        return await self._blocks(*ends, {"logs": [wished_events]}, call.is_divisible)

    async def _blocks(
        self, first_block: int, last_block: int, query: dict[str, Any], is_divisible: bool
    ) -> list[_Block]:
        """Return the blocks of a query in order, the first and the last one included."""
        blocks: list[_Block] = []
        while first_block <= last_block:
            body = {"type": "evm", "fromBlock": first_block, "toBlock": last_block, "fields": _FIELDS, **query}
            raw = await self._send(
                "POST", self._place("finalized-stream"), msgspec.json.encode(body), is_divisible=is_divisible
            )
            blocks += self._checked_blocks(raw, first_block, last_block)
            first_block = blocks[-1].header.number + 1
        return blocks

    def _checked_blocks(self, raw: bytes, first_block: int, last_block: int) -> list[_Block]:
        try:
            blocks = _LINES.decode_lines(raw)
        except msgspec.DecodeError as error:
            raise InvalidAnswer(
                f"{self.host} sent an invalid stream for blocks {first_block} to {last_block} "
                f"({shortened(str(error))}); try again later"
            ) from None
        if not blocks:
            raise Unavailable(f"{self.host} does not have block {first_block} yet; try again later")
        numbers = [block.header.number for block in blocks]
        is_ordered = all(earlier < later for earlier, later in pairwise(numbers))
        if numbers[0] != first_block or not is_ordered:
            raise InvalidAnswer(
                f"{self.host} sent blocks {min(numbers)} to {max(numbers)} for the range {first_block} to "
                f"{last_block}, not from its first block on and in order; try again later"
            )
        return blocks

    def _place(self, name: str) -> str:
        dataset = httpx.URL(self._address)
        return str(dataset.copy_with(path=f"{dataset.path.rstrip('/')}/{name}"))

    def _http_error(self, status: int, seconds: float | None, raw: bytes, is_divisible: bool) -> RpcError:
        text = f"{self.host} answers with HTTP status {status}: {shortened(raw.decode('utf-8', 'replace'))}"
        if status in _REFUSING:
            return Refused(f"{text}; check the dataset's address and the blocks")
        if is_divisible and status in TOO_LARGE:
            return TooLarge(text)
        if seconds is None and status == HTTPStatus.TOO_MANY_REQUESTS:
            seconds = _RATE_SECONDS
        return Unavailable(text, seconds)


class PortalNode(Node):
    """A node whose endpoints are datasets of portals."""

    _kind = Portal


def _is_header(call: Call) -> bool:
    return call.method == "eth_getBlockByNumber" and not call.params[1]


def _runs(blocks: Sequence[int]) -> list[tuple[int, int]]:
    """Return sorted numbers of blocks as runs of consecutive ones, each with its first and its last block."""
    starts = [place for place, block in enumerate(blocks) if not place or blocks[place - 1] != block - 1]
    return [(blocks[start], blocks[end - 1]) for start, end in pairwise([*starts, len(blocks)])]
