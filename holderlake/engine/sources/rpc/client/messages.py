"""JSON-RPC calls of nodes, and the parts of their answers that are read. Numbers are hexadecimal."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import msgspec

_QUANTITY: Final = re.compile(r"0x[0-9a-fA-F]{1,64}")


@dataclass(frozen=True)
class Call:
    """A method with its parameters. ``answer`` is the type that its result is read into; None may be an answer too.

    ``is_divisible``: smaller parts can be asked for, so an endpoint's limits and time-outs mean just that.
    ``may_fail``: an error is an answer, read as None (a contract may refuse any call).
    """

    method: str
    params: list[Any] = field(default_factory=list)
    answer: Any = str
    is_divisible: bool = False
    may_fail: bool = False


class Log(msgspec.Struct, rename="camel", gc=False):
    """An event. Only newer nodes send ``block_timestamp``."""

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
    """A block without its transactions."""

    number: str
    hash: str
    parent_hash: str
    timestamp: str


class Transaction(msgspec.Struct, rename="camel", gc=False):
    """A transaction; ``to`` is None if it creates a contract."""

    hash: str
    from_: str = msgspec.field(name="from")
    to: str | None
    value: str
    transaction_index: str


class Block(Header, rename="camel", gc=False):
    """A block with its transactions."""

    transactions: list[Transaction]


class Receipt(msgspec.Struct, rename="camel", gc=False):
    """Receipt of a transaction. Before the Byzantium fork receipts had no status."""

    transaction_hash: str
    status: str | None = None
    contract_address: str | None = None


class CallFrame(msgspec.Struct, rename="camel", gc=False):
    """A call of the tracer ``callTracer``, with the calls that it made."""

    type: str
    from_: str = msgspec.field(name="from", default="")
    to: str | None = None
    value: str | None = None
    error: str | None = None
    calls: list[CallFrame] = []


class TracedTransaction(msgspec.Struct, rename="camel", gc=False):
    """Answer of ``debug_traceBlockByNumber`` for a transaction. Older nodes leave the hash out."""

    result: CallFrame
    tx_hash: str | None = None


class TraceAction(msgspec.Struct, rename="camel", gc=False):
    """Action of a trace of ``trace_block``: a call, a creation or a self-destruction."""

    from_: str | None = msgspec.field(name="from", default=None)
    to: str | None = None
    value: str | None = None
    call_type: str | None = None
    address: str | None = None
    refund_address: str | None = None
    balance: str | None = None


class TraceResult(msgspec.Struct, rename="camel", gc=False):
    """Result of a trace; ``address`` is that of a created contract."""

    address: str | None = None


class Trace(msgspec.Struct, rename="camel", gc=False):
    """A trace of ``trace_block``; callers come before their calls."""

    type: str
    action: TraceAction
    trace_address: list[int]
    transaction_hash: str | None = None
    error: str | None = None
    result: TraceResult | None = None


@lru_cache(maxsize=1 << 16)
def number(text: str) -> int:
    """Return a quantity as an integer; cached. Raises ``ValueError``."""
    if not _QUANTITY.fullmatch(text):
        raise ValueError(f"{text[:80]!r} is not a quantity")
    return int(text, 16)


def chain_id() -> Call:
    """The endpoint's chain id."""
    return Call("eth_chainId")


def block_number() -> Call:
    """The newest block's number."""
    return Call("eth_blockNumber")


def header(block: int) -> Call:
    """A block without its transactions; None if the node has no such block."""
    return Call("eth_getBlockByNumber", [hex(block), False], Header | None)


def block(block: int) -> Call:
    """A block with its transactions."""
    return Call("eth_getBlockByNumber", [hex(block), True], Block | None)


def block_receipts(block: int) -> Call:
    """All receipts of a block."""
    return Call("eth_getBlockReceipts", [hex(block)], list[Receipt] | None)


def logs(first: int, last: int, addresses: list[str] | None, topics: list[str]) -> Call:
    """Events of the blocks, by any of the addresses and with any of the first topics."""
    wanted: dict[str, Any] = {"fromBlock": hex(first), "toBlock": hex(last), "topics": [topics]}
    if addresses is not None:
        wanted["address"] = addresses
    return Call("eth_getLogs", [wanted], list[Log], is_divisible=last > first)


def call_frames(block: int) -> Call:
    """The calls of a block's transactions, as geth gives them."""
    tracer = {"tracer": "callTracer", "tracerConfig": {"withLog": False}}
    return Call("debug_traceBlockByNumber", [hex(block), tracer], list[TracedTransaction])


def traces(block: int) -> Call:
    """The calls of a block's transactions, as Erigon, Nethermind, Reth and anvil give them."""
    return Call("trace_block", [hex(block)], list[Trace] | None)


def eth_call(to: str, data: str) -> Call:
    """The result of a contract's function; None if it fails."""
    return Call("eth_call", [{"to": to, "data": data}, "latest"], str, may_fail=True)


def code(address: str) -> Call:
    """An address's code, ``0x`` for none."""
    return Call("eth_getCode", [address, "latest"], str)
