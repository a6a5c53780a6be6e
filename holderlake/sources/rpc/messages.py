"""JSON-RPC calls to nodes, and types for their results, with only the fields that are used.

All numbers in results are hexadecimal text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import msgspec

_QUANTITY: Final = re.compile(r"0x[0-9a-fA-F]{1,64}")


@dataclass(frozen=True)
class Call:
    """A JSON-RPC call: a method with its parameters.

    ``answer`` is the type of the result. ``is_divisible``: the call can be split into smaller ranges, so a limit or
    time-out of the endpoint means that the range is too large. ``may_fail``: if the endpoint answers with an error, the
    result is None, for example when a contract has no such function.
    """

    method: str
    params: list[Any] = field(default_factory=list)
    answer: Any = str
    is_divisible: bool = False
    may_fail: bool = False


class Log(msgspec.Struct, rename="camel", gc=False):
    """An event that a contract emitted. Older nodes leave out ``block_timestamp``; it is then None."""

    address: str
    topics: list[str]
    data: str
    block_number: str
    block_hash: str
    transaction_hash: str
    log_index: str
    block_timestamp: str | None = None
    removed: bool = False


class Header(msgspec.Struct, rename="camel", gc=False):
    """A block without its transactions. ``logs_bloom`` shows which topics its events may have; a portal lacks it."""

    number: str
    hash: str
    parent_hash: str
    timestamp: str
    logs_bloom: str = "0x0"


class Transaction(msgspec.Struct, rename="camel", gc=False):
    """A transaction. ``to`` is None if it creates a contract."""

    hash: str
    from_: str = msgspec.field(name="from")
    to: str | None
    value: str
    transaction_index: str


class Block(Header, rename="camel", gc=False, kw_only=True):
    """A block with its transactions."""

    transactions: list[Transaction]


class Receipt(msgspec.Struct, rename="camel", gc=False):
    """The receipt of a transaction. ``status`` is None in blocks before the Byzantium fork."""

    transaction_hash: str
    status: str | None = None
    contract_address: str | None = None


class ReceiptEvents(msgspec.Struct, gc=False):
    """The events in the receipt of a transaction."""

    logs: list[Log]


class TransactionHashes(msgspec.Struct, gc=False):
    """A block with the hashes of its transactions."""

    transactions: list[str]


class CallFrame(msgspec.Struct, rename="camel", gc=False):
    """A call in the result of geth's ``callTracer``. ``calls`` has the inner calls that it made."""

    type: str
    from_: str = msgspec.field(name="from", default="")
    to: str | None = None
    value: str | None = None
    error: str | None = None
    calls: list[CallFrame] = []


class TracedTransaction(msgspec.Struct, rename="camel", gc=False):
    """Result of ``debug_traceBlockByNumber`` for one transaction. Older nodes leave out ``tx_hash``; it is then
    None."""

    result: CallFrame
    tx_hash: str | None = None


@lru_cache(maxsize=1 << 16)
def number(text: str) -> int:
    """Return a hexadecimal number as an integer. Results are cached. Raises ``ValueError`` for other text."""
    if not _QUANTITY.fullmatch(text):
        raise ValueError(f"{text[:80]!r} is not a hexadecimal number such as 0x1f")
    return int(text, 16)


def chain_id() -> Call:
    """Return the call for the endpoint's chain id."""
    return Call("eth_chainId")


def block_number() -> Call:
    """Return the call for the number of the newest block."""
    return Call("eth_blockNumber")


def block(block: int, kind: type[Header | TransactionHashes] = Header) -> Call:
    """Return the call for a block of a kind; ``Block`` has its transactions. Its result is None if the node has no such
    block."""
    return Call("eth_getBlockByNumber", [hex(block), kind is Block], kind | None)


def block_receipts(block: int, kind: type[Receipt | ReceiptEvents] = Receipt) -> Call:
    """Return the call for all receipts of a block, or for the events in them."""
    return Call("eth_getBlockReceipts", [hex(block)], list[kind] | None)  # type: ignore[valid-type]  # a type at run time


def transaction_events(transaction: str) -> Call:
    """Return the call for the events in the receipt of a transaction."""
    return Call("eth_getTransactionReceipt", [transaction], ReceiptEvents | None)


def logs(first_block: int, last_block: int, addresses: list[str] | None, topics: list[str]) -> Call:
    """Return the call for the events of the blocks from ``first_block`` to ``last_block``, both included.

    ``addresses`` are the contracts that emit the events, None for all. ``topics`` are the allowed values of an event's
    first topic, which identifies the kind of event; if empty, all kinds are allowed.
    """
    event_filter: dict[str, Any] = {
        "fromBlock": hex(first_block),
        "toBlock": hex(last_block),
        "topics": [topics] if topics else [],
    }
    if addresses is not None:
        event_filter["address"] = addresses
    return Call("eth_getLogs", [event_filter], list[Log], is_divisible=last_block > first_block)


def call_frames(block: int) -> Call:
    """Return the call for the inner calls of a block's transactions, in the format of geth."""
    tracer = {"tracer": "callTracer", "tracerConfig": {"withLog": False}}
    return Call("debug_traceBlockByNumber", [hex(block), tracer], list[TracedTransaction])


def eth_call(to: str, data: str, at: int | None = None) -> Call:
    """Return the call that executes a contract's function at block ``at``, by default the newest one. Its result is
    None if the function fails.

    ``data`` is the encoded function with its arguments, in hexadecimal.
    """
    return Call("eth_call", [{"to": to, "data": data}, "latest" if at is None else hex(at)], str, may_fail=True)


def code(address: str, at: int | None = None) -> Call:
    """Return the call for the code at an address after block ``at``, by default the newest one. Its result is ``0x``
    for an address without code, and None if the node does not keep the state of the block."""
    place = "latest" if at is None else hex(at)
    return Call("eth_getCode", [address, place], str, may_fail=at is not None)
