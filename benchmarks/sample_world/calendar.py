"""Planned actions of the sample world, and the transfers that they make. No transfer exceeds the sender's balance."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from heapq import heappop, heappush
from typing import Any, Final

import pyarrow as pa

from benchmarks.sample_world.randomness import Rng
from holderlake.core.contract.chains import ZERO_ADDRESS
from holderlake.core.contract.times import to_unix
from holderlake.engine.records import TRANSFERS, TokenInfo

START: Final = datetime(2024, 11, 1)
END: Final = datetime(2026, 11, 1)
BEGIN_TIME: Final = to_unix(START)
END_TIME: Final = to_unix(END)

MINUTE: Final = 60
HOUR: Final = 3_600
DAY: Final = 86_400
MAX_ID: Final = 2**256 - 1


def day(year: int, month: int, number: int, hour: int = 12, minute: int = 0) -> int:
    """Return the unix seconds of a day (``number`` in its month) at a time in UTC, by default noon."""
    return to_unix(datetime(year, month, number, hour, minute))


def every(days: int, start: int, end: int) -> list[int]:
    """Return the unix seconds from ``start`` to ``end`` (excluded) with a distance of ``days`` days."""
    return list(range(start, end, days * DAY))


@dataclass(frozen=True)
class BlockClock:
    """The blocks of a chain. A period of ``seconds`` seconds has ``blocks`` blocks; the first block has the number
    ``first``."""

    first_block: int
    blocks: int
    seconds: int

    def block(self, time: int) -> tuple[int, int]:
        """Return the number of the block that contains the unix second ``time``, and the block's own time."""
        turns = (time - BEGIN_TIME) // self.seconds
        return self.first_block + turns * self.blocks, BEGIN_TIME + turns * self.seconds


CLOCKS: Final = {
    "eth": BlockClock(21_089_000, 1, 12),
    "base": BlockClock(21_831_000, 1, 2),
    "bsc": BlockClock(43_610_000, 1, 3),
    "solana": BlockClock(298_900_000, 5, 2),
}


class Calendar:
    """Planned actions by time. An action gets its time (unix seconds) as first argument, and may plan later actions."""

    def __init__(self) -> None:
        self._actions: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._planned = 0

    def at(self, time: int, action: Callable[..., None], *details: Any) -> None:
        """Plan an action with the arguments ``details``. Actions at the same time run in the order of planning."""
        heappush(self._actions, (time, self._planned, action, details))
        self._planned += 1

    def run(self) -> None:
        """Run all actions within the world's two years."""
        while self._actions:
            time, _, action, details = heappop(self._actions)
            if BEGIN_TIME <= time < END_TIME:
                action(time, *details)


class SampleTransfers:
    """All transfers of the sample world so far, and the balances of all tokens and NFT items that follow from them."""

    def __init__(self, rng: Rng) -> None:
        self._draw = rng
        self.numbers: dict[str, int] = {}
        """The transactions by their hashes, numbered in the order in which they were made."""
        self._rows: list[tuple[Any, ...]] = []
        self._logs: dict[tuple[str, int], int] = defaultdict(int)
        self._balances: dict[tuple[str, str], dict[tuple[str, int | None], int]] = defaultdict(lambda: defaultdict(int))

    def balance(self, token: TokenInfo, holder: str, item: int | None = None) -> int:
        """Return the holder's balance of the token, or of one item (token id) of it."""
        return self._balances[token.chain, token.address][holder, item]

    def transaction(self, token: TokenInfo) -> str:
        """Return a new transaction hash for transfers of ``token``. Several transfers may have the same hash."""
        drawn = self._draw.base58(88) if token.chain == "solana" else self._draw.hexadecimal(64)
        self.numbers[drawn] = len(self.numbers)
        return drawn

    def move(
        self,
        time: int,
        token: TokenInfo,
        sender: str,
        receiver: str,
        amount: int,
        item: int | None = None,
        transaction: str | None = None,
    ) -> None:
        """Add a transfer of a raw amount of a token, or of one ``item`` (token id).

        Raises ``ValueError`` if the sender has less than the amount.
        """
        self.move_items(time, token, sender, receiver, {item: amount}, transaction)

    def move_items(
        self,
        time: int,
        token: TokenInfo,
        sender: str,
        receiver: str,
        amounts: Mapping[int | None, int],
        transaction: str | None = None,
    ) -> None:
        """Add a transfer of several items with one log index (ERC-1155). ``amounts`` has the amount by token id.

        Without items, the only key of ``amounts`` is None.
        """
        block, block_time = CLOCKS[token.chain].block(time)
        log_index = self._logs[token.chain, block]
        self._logs[token.chain, block] += 1
        transaction = transaction or self.transaction(token)
        balances = self._balances[token.chain, token.address]
        for item, amount in amounts.items():
            if amount <= 0 or (sender != ZERO_ADDRESS and balances[sender, item] < amount):
                raise ValueError(
                    f"{sender} can't send {amount} {token.symbol} at unix second {time}; plan an amount from 1 to the "
                    "sender's balance"
                )
            if sender != ZERO_ADDRESS:
                balances[sender, item] -= amount
            if receiver != ZERO_ADDRESS:
                balances[receiver, item] += amount
            item_text = None if item is None else str(item)
            # on a real chain a native transfer has no log entry, so its index is synthetic
            log_kind = "synthetic" if token.standard == "native" else "exact"
            origin = (block, block_time, transaction, log_index, "exact", log_kind, "sample")
            parties = (token.chain, token.address, token.standard, sender, receiver)
            self._rows.append((*parties, str(amount), item_text, *origin))

    def table(self) -> pa.Table:
        """Return all transfers (schema ``TRANSFERS``) by chain, block and log index."""
        rows = sorted(self._rows, key=lambda row: (row[0], row[7], row[10]))
        columns = zip(*rows, strict=True)
        return pa.table(
            [pa.array(column, kind.type) for column, kind in zip(columns, TRANSFERS, strict=True)], schema=TRANSFERS
        )
