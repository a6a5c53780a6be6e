"""Decode transfer events (ERC-20, ERC-721, ERC-1155) into rows.

A contract may emit any data. Therefore an event with the signature of a transfer, but with other contents, is skipped
and counted. A few early tokens index none of the fields of their events, which are all in the data then. A wrapped coin
(WETH9) mints and burns with the events ``Deposit`` and ``Withdrawal``. A word of data is 32 bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from holderlake.core.contract.chains import ZERO_ADDRESS
from holderlake.core.contract.chains.keccak import keccak256
from holderlake.engine.records import TRANSFERS
from holderlake.sources.rpc.errors import InvalidAnswer
from holderlake.sources.rpc.messages import Header, Log, number

TRANSFER: Final = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
"""Topic of ``Transfer(address,address,uint256)`` of ERC-20 and ERC-721."""
TRANSFER_SINGLE: Final = "0xc3d58168c5ae7397731d063d5bbf3d657854427343f4c083240f7aacaa2d0f62"
"""Topic of ``TransferSingle(address,address,address,uint256,uint256)``."""
TRANSFER_BATCH: Final = "0x4a39dc06d4c0dbc64b70af90fd698a233a518aa5d07e595d983b8c0526c8f7fb"
"""Topic of ``TransferBatch(address,address,address,uint256[],uint256[])``."""
TOPICS: Final = [TRANSFER, TRANSFER_SINGLE, TRANSFER_BATCH]
DEPOSIT: Final = "0xe1fffcc4923d04b559f4d29a8bfc6cda04eb5b0d3c460751c2402c5c5cc9109c"
"""Topic of ``Deposit(address,uint256)`` of wrapped coins."""
WITHDRAWAL: Final = "0x7fcf532c15f0a6db0bd6d0e038bea71d30d808c7d98cb3bf7268a95bf5081b65"
"""Topic of ``Withdrawal(address,uint256)`` of wrapped coins."""
EVENTS: Final = [*TOPICS, DEPOSIT, WITHDRAWAL]
"""The topics of all events that change balances."""

_WORD_DIGITS: Final = 64
_MAX: Final = 2**256 - 1
_FILLING: Final = "0x" + "0" * 24
_AMOUNT: Final = "0x" + "0" * 40
"""Beginning of a topic with a number below 2^96."""
_DIGITS: Final = "0123456789abcdefABCDEF"

Move = tuple[str, str, str, str, str | None]
"""A transfer: token standard, sender, receiver, value and token id (the last two as decimal text)."""
_ROW_COLUMNS: Final = (
    "token_address",
    "token_standard",
    "from_address",
    "to_address",
    "value",
    "token_id",
    "block_number",
    "block_time",
    "tx_hash",
    "log_index",
)
Row = tuple[str, str, str, str, str, str | None, int, int, str, int]
"""A transfer: token, standard, sender, receiver, value, token id, block, unix second, transaction hash, log index.

Value and token id are decimal text.
"""


def add_transfers(
    rows: TransferRows, logs: Sequence[Log], times: Mapping[int, int], wrapped: Collection[str] = frozenset()
) -> int:
    """Add the transfers among the events to ``rows``. Return the number of events that are not transfers.

    ``times`` has unix seconds by block, for events without a time. Deposits and withdrawals of the tokens ``wrapped``
    are mints and burns, unless the same transaction has a Transfer event for them. Raises ``InvalidAnswer`` for an
    invalid number in an event.
    """
    skipped = 0
    add = rows.add
    minted = _minted(logs) if wrapped else Counter()
    try:
        for log in logs:
            moves = moves_of(log.topics, log.data)
            if moves is None and wrapped and log.address.lower() in wrapped:
                moves = _of_wrapping(log, minted)
            if moves is None:
                skipped += 1
                continue
            block = number(log.block_number)
            time = number(log.block_timestamp) if log.block_timestamp else times[block]
            token, transaction, index = _lower(log.address), log.transaction_hash.lower(), number(log.log_index)
            for standard, sender, receiver, value, token_id in moves:
                add((token, standard, sender, receiver, value, token_id, block, time, transaction, index))
    except ValueError as error:
        raise InvalidAnswer(f"the node sent an event with an invalid number: {error}; use another endpoint") from None
    return skipped


def _minted(logs: Iterable[Log]) -> Counter[tuple[str, str, str, int]]:
    """Return the number of mints and burns by Transfer events, by token, transaction, holder and change."""
    counts: Counter[tuple[str, str, str, int]] = Counter()
    for log in logs:
        for standard, sender, receiver, value, _ in moves_of(log.topics, log.data) or ():
            if standard == "erc20" and ZERO_ADDRESS in (sender, receiver):
                holder, change = (receiver, int(value)) if sender == ZERO_ADDRESS else (sender, -int(value))
                counts[log.address.lower(), log.transaction_hash, holder, change] += 1
    return counts


def _of_wrapping(log: Log, minted: Counter[tuple[str, str, str, int]]) -> list[Move] | None:
    """Return the mint or burn of a Deposit or Withdrawal event; None for another event, or if a Transfer has it."""
    holder_change = wrapping(log)
    if holder_change is None:
        return None
    holder, change = holder_change
    key = (log.address.lower(), log.transaction_hash, holder, change)
    if minted[key]:
        minted[key] -= 1
        return None
    parties = (ZERO_ADDRESS, holder) if log.topics[0] == DEPOSIT else (holder, ZERO_ADDRESS)
    return [("erc20", *parties, str(abs(change)), None)]


def moves_of(topics: Sequence[str], data: str) -> list[Move] | None:
    """Return the transfers of an event, or None if it is not a transfer event.

    ``topics`` and ``data`` are in hexadecimal with 0x.
    """
    data = data[2:]
    if not topics or len(data) % _WORD_DIGITS or data.strip(_DIGITS):
        return None
    if topics[0] == TRANSFER:
        return _of_transfer(topics, data)
    if len(topics) != 4:
        return None
    sender, receiver = _address(topics[2]), _address(topics[3])
    if sender is None or receiver is None:
        return None
    items = _single(data) if topics[0] == TRANSFER_SINGLE else batch_of(data) if topics[0] == TRANSFER_BATCH else None
    if items is None:
        return None
    return [("erc1155", sender, receiver, str(value), str(item)) for item, value in items.items()]


def is_partly_indexed(topics: Sequence[str], data: str) -> bool:
    """Return whether a Transfer event has one address in a topic and one in its data.

    Such an event does not show which of the two is the sender. Its value is in its data, or in another topic.
    """
    if not topics or topics[0] != TRANSFER:
        return False
    words = data[2:]
    if len(topics) == 3:
        return _has_value_in_topic(topics, words)
    is_partly = len(topics) == 2 and len(words) == 2 * _WORD_DIGITS
    return is_partly and _address(topics[1]) is not None and _address(f"0x{words[:_WORD_DIGITS]}") is not None


def _has_value_in_topic(topics: Sequence[str], data: str) -> bool:
    """Return whether a Transfer event with three topics has its value in a topic and an address in its data.

    No address has so many leading zeros as an amount, but those with up to four digits, to which tokens are burnt. The
    number in the data is as large as an address.
    """
    is_address = len(data) == _WORD_DIGITS and data.startswith("0" * 24) and not data.startswith("0" * 32)
    return is_address and any(
        topic.startswith(_AMOUNT) and not topic.startswith("0x" + "0" * 60) for topic in topics[1:]
    )


@lru_cache(maxsize=1)
def _transfer_bits() -> int:
    """Return the three bits that the topic of Transfer events sets in a block's bloom filter."""
    (digest,) = keccak256(np.frombuffer(bytes.fromhex(TRANSFER[2:]), np.uint8).reshape(1, -1)).tolist()
    return sum({1 << ((digest[at] << 8 | digest[at + 1]) & 2047) for at in (0, 2, 4)})


def may_have_transfers(header: Header) -> bool:
    """Return whether a block's bloom filter has the topic of Transfer events. Few blocks without any have it by chance,
    because those have few events."""
    return int(header.logs_bloom, 16) & _transfer_bits() == _transfer_bits()


def wrapping(log: Log) -> tuple[str, int] | None:
    """Return the holder and the change of its balance in a Deposit or Withdrawal event; None for other events."""
    data = log.data[2:]
    if (
        len(log.topics) != 2
        or log.topics[0] not in (DEPOSIT, WITHDRAWAL)
        or len(data) != _WORD_DIGITS
        or not _is_hex(data)
    ):
        return None
    holder = _address(log.topics[1])
    return None if holder is None else (holder, int(data, 16) * (1 if log.topics[0] == DEPOSIT else -1))


def _of_transfer(topics: Sequence[str], data: str) -> list[Move] | None:
    if len(topics) == 1 and len(data) == 3 * _WORD_DIGITS:
        words = [f"0x{data[at : at + _WORD_DIGITS]}" for at in (0, _WORD_DIGITS)]
        topics, data = [topics[0], *words], data[2 * _WORD_DIGITS :]
    if len(topics) not in (3, 4):
        return None
    sender, receiver = _address(topics[1]), _address(topics[2])
    if sender is None or receiver is None:
        return None
    if len(topics) == 3 and not _has_value_in_topic(topics, data):
        return [("erc20", sender, receiver, str(int(data, 16)), None)] if len(data) == _WORD_DIGITS else None
    if len(topics) == 3:
        return None
    item = topics[3][2:]
    return [("erc721", sender, receiver, "1", str(int(item, 16)))] if not data and _is_hex(item) else None


def _single(data: str) -> dict[int, int] | None:
    return {int(data[:_WORD_DIGITS], 16): int(data[_WORD_DIGITS:], 16)} if len(data) == 2 * _WORD_DIGITS else None


def batch_of(data: str) -> dict[int, int] | None:
    """Return the values by token id in the data of a TransferBatch event; None if the data is invalid.

    Values of a repeated id are added, because a row is identified by its event and token id.
    """
    ids, values = _array(data, 0), _array(data, 1)
    if ids is None or values is None or len(ids) != len(values):
        return None
    summed: dict[int, int] = {}
    for item, value in zip(ids, values, strict=True):
        summed[item] = summed.get(item, 0) + value
    return summed if all(value <= _MAX for value in summed.values()) else None


def _array(data: str, place: int) -> list[int] | None:
    """Return the array of integers in the data of a TransferBatch event; None if the array is invalid.

    The word at position ``place`` of the data is the offset of the array in bytes.
    """
    words = list(_words(data))
    if len(words) <= place or words[place] % 32 or (start := words[place] // 32) >= len(words):
        return None
    numbers = words[start + 1 : start + 1 + words[start]]
    return numbers if len(numbers) == words[start] else None


def _words(data: str) -> Iterator[int]:
    return (int(data[at : at + _WORD_DIGITS], 16) for at in range(0, len(data), _WORD_DIGITS))


@lru_cache(maxsize=1 << 12)
def _lower(address: str) -> str:
    return address.lower()


@lru_cache(maxsize=1 << 16)
def _address(topic: str) -> str | None:
    """Return the address in a topic, which has leading zeros; None if the topic has no address."""
    is_one = len(topic) == _WORD_DIGITS + 2 and topic.startswith(_FILLING) and _is_hex(topic[2:])
    return f"0x{topic[26:].lower()}" if is_one else None


def _is_hex(text: str) -> bool:
    return text != "" and not text.strip(_DIGITS)


class TransferRows:
    """Collects transfers of one chain and source for a table. ``log_index_kind`` is the value of the column of
    this name in ``TRANSFERS``."""

    def __init__(self, chain: str, source: str, log_index_kind: str) -> None:
        self._constant = {"chain": chain, "time_kind": "exact", "log_index_kind": log_index_kind, "source": source}
        self._rows: list[Row] = []
        self.add = self._rows.append
        """Add one transfer."""

    def table(self) -> pa.Table:
        """Return the collected transfers as a table of the schema ``TRANSFERS``."""
        if not self._rows:
            return TRANSFERS.empty_table()
        columns: dict[str, Any] = dict(zip(_ROW_COLUMNS, zip(*self._rows, strict=True), strict=True))
        columns |= {name: pa.repeat(value, len(self._rows)) for name, value in self._constant.items()}
        return pa.table([pa.array(columns[field.name], field.type) for field in TRANSFERS], schema=TRANSFERS)
