"""Transfers of a chain's own coin: values of transactions, and of the calls within them where the node traces them.

What is burnt and earned as fees, and what blocks reward, is no transfer. An event has its place in a block, a value
has none, so its ``log_index`` is made: 2^20 times the transaction's place, plus the call's place within it. No gas
limit allows so many calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from holderlake.contract.chains import NATIVE
from holderlake.engine.records import NATIVE_LOG_INDEX
from holderlake.engine.sources.rpc.client.errors import Misled
from holderlake.engine.sources.rpc.client.messages import Block, CallFrame, Receipt, Trace, TracedTransaction, number
from holderlake.engine.sources.rpc.decoding.rows import Rows

_FAILED: Final = "0x0"
_MOVING_CALLS: Final = frozenset({"CALL", "CREATE", "CREATE2", "SELFDESTRUCT"})
"""A delegated call shows its caller's value again, and a static one has none."""


class Moved(NamedTuple):
    """A value that moved; ``place`` is 0 for the transaction's own, and counts all its calls, callers first, from 1."""

    place: int
    sender: str
    receiver: str
    value: int


def add_values(rows: Rows, block: Block, moved: Mapping[str, Iterable[Moved]]) -> None:
    """Adds what each of the block's transactions (by hash) moved."""
    height, time = number(block.number), number(block.timestamp)
    for transaction in block.transactions:
        own, first = transaction.hash.lower(), number(transaction.transaction_index) * NATIVE_LOG_INDEX
        for place, sender, receiver, value in moved[own]:
            rows.add((NATIVE, "native", sender, receiver, str(value), None, height, time, own, first + place))


def of_receipts(block: Block, receipts: Sequence[Receipt]) -> dict[str, list[Moved]]:
    """What the transactions themselves moved, by hash. Receipts from before the Byzantium fork do not tell of failure,
    and count as success. Raises ``Misled`` where the receipts are another block's."""
    ended = {receipt.transaction_hash.lower(): receipt for receipt in receipts}
    found: dict[str, list[Moved]] = {}
    for transaction in block.transactions:
        own, value = transaction.hash.lower(), number(transaction.value)
        receipt = ended.get(own)
        if receipt is None:
            raise _other_transactions(block)
        receiver = transaction.to or receipt.contract_address
        is_moved = value and receiver and receipt.status != _FAILED
        found[own] = [Moved(0, transaction.from_.lower(), receiver.lower(), value)] if is_moved and receiver else []
    return found


def of_call_frames(block: Block, traced: Sequence[TracedTransaction]) -> dict[str, list[Moved]]:
    """What the transactions and the calls within them moved, by hash. Raises ``Misled`` as ``of_receipts`` does."""
    if len(traced) != len(block.transactions):
        raise _other_transactions(block)
    found = {}
    for transaction, trace in zip(block.transactions, traced, strict=True):
        own = transaction.hash.lower()
        if trace.tx_hash is not None and trace.tx_hash.lower() != own:
            raise _other_transactions(block)
        found[own] = [
            Moved(place, frame.from_.lower(), (frame.to or "").lower(), number(frame.value or "0x0"))
            for place, (frame, is_undone) in enumerate(_frames(trace.result))
            if not is_undone and _is_move(frame)
        ]
    return found


def of_traces(block: Block, traces: Sequence[Trace]) -> dict[str, list[Moved]]:
    """As ``of_call_frames``, of ``trace_block``. Rewards belong to no transaction and are left out."""
    found: dict[str, list[Moved]] = {transaction.hash.lower(): [] for transaction in block.transactions}
    places: dict[str, int] = {}
    undone: dict[str, list[list[int]]] = {}
    for trace in traces:
        own = (trace.transaction_hash or "").lower()
        if not own:
            continue
        if own not in found:
            raise _other_transactions(block)
        place = places[own] = places.get(own, -1) + 1
        if trace.error is not None:
            undone.setdefault(own, []).append(trace.trace_address)
        is_undone = any(trace.trace_address[: len(caller)] == caller for caller in undone.get(own, ()))
        moved = None if is_undone else _moved(place, trace)
        if moved is not None:
            found[own].append(moved)
    if len(places) != len(found):
        raise _other_transactions(block)
    return found


def _other_transactions(block: Block) -> Misled:
    return Misled(f"block {number(block.number)} has other transactions than the node tells the outcome of")


def _is_move(frame: CallFrame) -> bool:
    return bool(frame.type.upper() in _MOVING_CALLS and frame.to and frame.value and number(frame.value))


def _frames(frame: CallFrame) -> Iterator[tuple[CallFrame, bool]]:
    """The call and those it made, callers first, and whether each was undone by an error of its own or a caller's."""
    waiting = [(frame, False)]
    while waiting:
        current, undone = waiting.pop()
        undone = undone or current.error is not None
        yield current, undone
        waiting += [(inner, undone) for inner in reversed(current.calls)]


def _moved(place: int, trace: Trace) -> Moved | None:
    action, made = trace.action, trace.result.address if trace.result else None
    if trace.type == "suicide":
        sender, receiver, value = action.address, action.refund_address, action.balance
    elif trace.type == "create":
        sender, receiver, value = action.from_, made, action.value
    elif trace.type == "call" and action.call_type == "call":
        sender, receiver, value = action.from_, action.to, action.value
    else:
        return None
    if not sender or not receiver or not value or not number(value):
        return None
    return Moved(place, sender.lower(), receiver.lower(), number(value))
