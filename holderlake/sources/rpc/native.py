"""Transfers of a chain's native coin: values of transactions, and of their inner calls if the node can trace them.

Fees and block rewards are not transfers. The chain has no log index for transfers of the native coin, so one is
computed: 2^20 times the transaction's index, plus the call's index in the transaction. Gas limits allow fewer than 2^20
calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from holderlake.core.contract.chains import NATIVE
from holderlake.engine.records import NATIVE_LOG_INDEX
from holderlake.sources.rpc.errors import InvalidAnswer
from holderlake.sources.rpc.events import TransferRows
from holderlake.sources.rpc.messages import Block, CallFrame, Receipt, TracedTransaction, number

_FAILED: Final = "0x0"
_MOVING_CALLS: Final = frozenset({"CALL", "CREATE", "CREATE2", "SELFDESTRUCT"})
"""Kinds of calls that move the native coin. Delegated calls repeat the caller's value, and static calls have no
value."""


class Moved(NamedTuple):
    """An amount of the native coin that one call moved, as a raw integer.

    ``place`` is the call's index in the transaction: 0 for the transaction itself, then its inner calls from 1 on. A
    caller comes before the calls that it makes.
    """

    place: int
    sender: str
    receiver: str
    value: int


def add_values(rows: TransferRows, block: Block, amounts: Mapping[str, Iterable[Moved]]) -> None:
    """Add to ``rows`` the amounts of the native coin that a block's transactions moved.

    ``amounts`` has these amounts by transaction hash.
    """
    height, time = number(block.number), number(block.timestamp)
    for transaction in block.transactions:
        tx_hash, start = transaction.hash.lower(), number(transaction.transaction_index) * NATIVE_LOG_INDEX
        for place, sender, receiver, value in amounts[tx_hash]:
            rows.add((NATIVE, "native", sender, receiver, str(value), None, height, time, tx_hash, start + place))


def of_receipts(block: Block, receipts: Sequence[Receipt]) -> dict[str, list[Moved]]:
    """Return the amounts that a block's transactions moved, by transaction hash. Failed transactions are left out.

    A receipt without status, from before the Byzantium fork, counts as success. Raises ``InvalidAnswer`` for receipts
    of another block.
    """
    ended = {receipt.transaction_hash.lower(): receipt for receipt in receipts}
    amounts: dict[str, list[Moved]] = {}
    for transaction in block.transactions:
        tx_hash, value = transaction.hash.lower(), number(transaction.value)
        receipt = ended.get(tx_hash)
        if receipt is None:
            raise _other_transactions(block)
        receiver = transaction.to or receipt.contract_address
        is_moved = value and receiver and receipt.status != _FAILED
        amounts[tx_hash] = (
            [Moved(0, transaction.from_.lower(), receiver.lower(), value)] if is_moved and receiver else []
        )
    return amounts


def of_call_frames(block: Block, traced: Sequence[TracedTransaction]) -> dict[str, list[Moved]]:
    """Return the amounts that a block's transactions and their inner calls moved, by transaction hash.

    Raises ``InvalidAnswer`` for traces of other transactions.
    """
    if len(traced) != len(block.transactions):
        raise _other_transactions(block)
    amounts = {}
    for transaction, trace in zip(block.transactions, traced, strict=True):
        tx_hash = transaction.hash.lower()
        if trace.tx_hash is not None and trace.tx_hash.lower() != tx_hash:
            raise _other_transactions(block)
        amounts[tx_hash] = [
            Moved(place, frame.from_.lower(), (frame.to or "").lower(), number(frame.value or "0x0"))
            for place, (frame, is_reverted) in enumerate(_frames(trace.result))
            if not is_reverted and _is_move(frame)
        ]
    return amounts


def _other_transactions(block: Block) -> InvalidAnswer:
    return InvalidAnswer(
        f"the node sent receipts or traces of other transactions than those of block {number(block.number)}; "
        "use another endpoint"
    )


def _is_move(frame: CallFrame) -> bool:
    return bool(frame.type.upper() in _MOVING_CALLS and frame.to and frame.value and number(frame.value))


def _frames(frame: CallFrame) -> Iterator[tuple[CallFrame, bool]]:
    """Yield a call and its inner calls, callers first. The second value is True if an error of the call or a caller
    reverted it."""
    stack = [(frame, False)]
    while stack:
        current, reverted = stack.pop()
        reverted = reverted or current.error is not None
        yield current, reverted
        stack += [(inner, reverted) for inner in reversed(current.calls)]
