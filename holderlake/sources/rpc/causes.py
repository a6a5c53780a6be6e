"""Compare supplies and balances of tokens with those of their contracts, and find the causes of differences.

If a balance differs, bisection over the contract's past finds the first block after which it does. The receipts of this
block show whether events are missing in the store. If none are, the changes of balances in the block, compared with its
events, show the cause.
"""

from __future__ import annotations

import functools
import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from holderlake.core.contract.chains import ZERO_ADDRESS
from holderlake.engine.queries.balances import Balances
from holderlake.engine.store.store import Store
from holderlake.sources.rpc.errors import InvalidAnswer, Refused, TooLarge, Unavailable
from holderlake.sources.rpc.events import EVENTS, TRANSFER, Rows, add_transfers, moves_of, wrapping
from holderlake.sources.rpc.messages import (
    Log,
    block_events,
    code_at,
    eth_call,
    logs,
    transaction_events,
    transaction_hashes,
)
from holderlake.sources.rpc.node import Node
from holderlake.sources.rpc.reading import is_minting

_TOTAL_SUPPLY, _BALANCE_OF = "0x18160ddd", "0x70a08231"
_LARGEST: Final = 50
_RANDOM: Final = 150
_EXAMINED: Final = 8
"""Number of differing holders of a token whose causes are examined."""
FAILURES: Final = (Refused, Unavailable, InvalidAnswer, TooLarge, ValueError)
_ROWS: Final = """
SELECT block_number, log_index, tx_hash, from_address, to_address, value
FROM read_parquet($files)
WHERE chain = $chain AND token_address = $token AND (from_address = $address OR to_address = $address)
ORDER BY block_number, log_index
"""
_IN_BLOCK: Final = """
SELECT block_number, log_index, tx_hash, from_address, to_address, value
FROM read_parquet($files)
WHERE chain = $chain AND token_address = $token AND block_number = $block
ORDER BY log_index
"""

WORDS: Final[Mapping[str, str]] = {
    "omitted_events": "the node's eth_getLogs omits {count} events of the token that its receipts have; compare with "
    "another node, or import the block again from one",
    "earlier_transfers": "it has transfers before the first imported block; import them, or the balances before it",
    "unreadable_events": "{count} Transfer events have a form that can't be read",
    "rebasing": "the balances of all holders changed by the same ratio without transfers, as rebasing tokens do; its "
    "balances here are not exact",
    "fee": "a transfer credits its receiver less, or charges its sender more, than its event says, as tokens with a "
    "fee do; its balances here are not exact",
    "wrong_receiver": "the event of a transfer names {address} as the receiver, but the contract credits another "
    "address",
    "wrong_sender": "the event of a transfer names {address} as the sender, but the contract charges another address",
    "doubled_event": "the contract emits the event of one transfer several times",
    "fake_event": "the contract emits the event of a transfer that changes no balance",
    "silent_mint": "the contract credits {address} without an event (a silent mint)",
    "silent_burn": "the contract charges {address} without an event (a silent burn)",
    "silent_move": "the contract moves balances from or to {address} without an event (a silent move)",
    "unknown": "the cause is unknown, because the node keeps no state of earlier blocks; use a node that keeps it, or "
    "compare with the events of another node: --against URL",
}
"""The causes of differences between events and balances, and their sentences."""


@dataclass(frozen=True)
class Cause:
    """A cause for which balances of a token differ from its events, ``kind`` is a key of ``WORDS``.

    ``block`` is the first block with the difference, None if it is not known. ``address`` is a holder that differs.
    ``other_events`` are the topics of the token's events in the block that are no transfers.
    """

    kind: str
    words: str
    block: int | None = None
    address: str | None = None
    other_events: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Drift:
    """A token whose supply or sampled balances at ``block`` differ from those of its contract.

    ``supply`` and ``contract_supply`` are raw integers (the latter null if the contract has no such function).
    ``balances`` is the number of ``sampled`` holders that differ. ``omitted`` has the number of events by block that
    the store lacks, although the node's receipts have them.
    """

    token: str
    block: int
    supply: int
    contract_supply: int | None
    balances: int
    sampled: int
    causes: list[Cause] = field(default_factory=list)
    omitted: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Compared:
    """Result for a token: the number of compared balances, and the differences, None if there are none.

    No balance is compared if ``has_state`` is False: the node keeps no state of the block.
    """

    sampled: int
    drift: Drift | None
    has_state: bool = True


def sampled_holders(balances: Balances) -> list[tuple[str, int]]:
    """Return the largest holders with their balances, and others chosen at random, in each run others."""
    ranked = sorted((*balances.holders, *balances.negative), key=lambda holder: -holder[1])
    ranked = [holder for holder in ranked if holder[0] != ZERO_ADDRESS]
    smaller = ranked[_LARGEST:]
    return [*ranked[:_LARGEST], *random.SystemRandom().sample(smaller, min(_RANDOM, len(smaller)))]


async def compared(
    store: Store, node: Node, chain: str, token: str, first_block: int, block: int, balances: Balances
) -> Compared | None:
    """Compare a token's ``balances`` after the block ``block`` with its contract; None if the contract has no answer.

    ``first_block`` is the first imported block.
    """
    sample = sampled_holders(balances)
    contract = Contract(store, node, chain, token)
    try:
        supply, *contract_balances = await contract.state([None, *(address for address, _ in sample)], block)
    except FAILURES:
        contract_balances = [None]
    if None in contract_balances:
        return None if await contract.keeps_state(block) else Compared(0, None, has_state=False)
    wrong = [address for (address, balance), answer in zip(sample, contract_balances, strict=True) if balance != answer]
    if not wrong and supply in (None, balances.supply):
        return Compared(len(sample), None)
    drift = Drift(token, block, balances.supply, supply, len(wrong), len(sample))
    pairs = [(balance, int(answer or 0)) for (_, balance), answer in zip(sample, contract_balances, strict=True)]
    if _is_ratio(pairs):
        drift.causes.append(Cause("rebasing", WORDS["rebasing"]))
        return Compared(len(sample), drift)
    is_supply_wrong = supply not in (None, balances.supply)
    suspects = wrong[:_EXAMINED] if wrong else [None]
    if is_supply_wrong and None not in suspects:
        suspects = [*suspects, None]
    await _examine(contract, drift, suspects, wrong, first_block, block)
    return Compared(len(sample), drift)


async def _examine(
    contract: Contract,
    drift: Drift,
    suspects: Sequence[str | None],
    wrong: Sequence[str],
    first_block: int,
    last_block: int,
) -> None:
    """Add the causes of the differences of ``suspects`` (None is the supply) to ``drift``."""
    examined: set[int] = set()
    for suspect in suspects:
        try:
            if first_block and await contract.is_different(suspect, first_block - 1):
                drift.causes.append(Cause("earlier_transfers", WORDS["earlier_transfers"], None, suspect))
                return
            block = await contract.first_difference(suspect, first_block, last_block)
            if block in examined:
                continue
            examined.add(block)
            drift.causes.extend(await _causes_in(contract, drift, block, suspect, wrong))
        except FAILURES:
            drift.causes.append(Cause("unknown", WORDS["unknown"], None, suspect))
            return


async def _causes_in(
    contract: Contract, drift: Drift, block: int, suspect: str | None, wrong: Sequence[str]
) -> list[Cause]:
    """Return the causes of the differences that begin in a block."""
    stored_rows = contract.rows_in(block)
    emitted = await contract.events_in(block)
    transfers = _transfers(emitted, await contract.wrapped_by(emitted))
    readable = Counter(transfers)
    lacking = readable - Counter((row[2], row[3], row[4], row[5]) for row in stored_rows)
    if lacking:
        count = sum(lacking.values())
        drift.omitted[block] = count
        return [Cause("omitted_events", WORDS["omitted_events"].format(count=count), block, suspect)]
    unreadable = sum(log.topics[:1] == [TRANSFER] and moves_of(log) is None for log in emitted)
    if unreadable:
        return [Cause("unreadable_events", WORDS["unreadable_events"].format(count=unreadable), block, suspect)]
    parties = {party for row in stored_rows for party in (row[3], row[4])} | set(wrong[:50])
    parties |= {suspect} if suspect else set()
    parties.discard(ZERO_ADDRESS)
    residuals, balances_before, balances_after, supply = await _residuals(contract, sorted(parties), stored_rows, block)
    changed = [(balances_before[party], balances_after[party]) for party in sorted(parties) if balances_before[party]]
    other_topics = sorted({log.topics[0] for log in emitted if log.topics and log.topics[0] not in EVENTS})
    if not stored_rows and _is_ratio(changed):
        return [Cause("rebasing", WORDS["rebasing"], block, suspect, other_topics)]
    kinds = dict(_of_events(stored_rows, residuals, supply)) or _silent(residuals, supply, suspect)
    return [
        Cause(kind, WORDS[kind].format(address=address or "an unknown address"), block, address, other_topics)
        for kind, address in kinds.items()
    ]


async def _residuals(
    contract: Contract, parties: Sequence[str], stored_rows: Sequence[tuple[Any, ...]], block: int
) -> tuple[dict[str, int], dict[str, int], dict[str, int], int]:
    """Return what the events of a block do not explain: by address, and of the supply.

    The second and third dictionaries have the contract's balances before and after the block.
    """
    addresses: list[str | None] = [None, *parties]
    earlier = await contract.state(addresses, block - 1) if block else [0] * len(addresses)
    later = await contract.state(addresses, block)
    balances_before = {party: int(value or 0) for party, value in zip(parties, earlier[1:], strict=True)}
    balances_after = {party: int(value or 0) for party, value in zip(parties, later[1:], strict=True)}
    event_changes: dict[str, int] = defaultdict(int)
    for _, _, _, sender, receiver, value in stored_rows:
        event_changes[sender] -= int(value)
        event_changes[receiver] += int(value)
    residuals = {party: balances_after[party] - balances_before[party] - event_changes[party] for party in parties}
    supply = 0 if later[0] is None else int(later[0]) - int(earlier[0] or 0) + event_changes[ZERO_ADDRESS]
    return {party: value for party, value in residuals.items() if value}, balances_before, balances_after, supply


def _of_events(
    stored_rows: Sequence[tuple[Any, ...]], residuals: Mapping[str, int], supply: int
) -> Iterable[tuple[str, str | None]]:
    """Yield the causes that show in the events of a block, with an address that differs."""
    counts = Counter((row[2], row[3], row[4], int(row[5])) for row in stored_rows)
    for (_, sender, receiver, value), count in counts.items():
        to, by = residuals.get(receiver, 0), residuals.get(sender, 0)
        is_mint, is_burn = sender == ZERO_ADDRESS, receiver == ZERO_ADDRESS
        if not value or not (to or by):
            continue
        repeated_amount = value * (count - 1)
        if count > 1 and (to == -repeated_amount or is_burn) and (by == repeated_amount or is_mint):
            yield "doubled_event", receiver
        elif (to == -value or (is_burn and supply)) and (by == value or (is_mint and supply)):
            yield "fake_event", receiver
        elif to == -value:
            yield "wrong_receiver", receiver
        elif by == value:
            yield "wrong_sender", sender
        elif -value < to < 0 or -value < by < 0:
            yield "fee", receiver if to else sender


def _silent(residuals: Mapping[str, int], supply: int, suspect: str | None) -> dict[str, str | None]:
    """Return the cause of changes without events, with an address that differs."""
    address = suspect or next(iter(residuals), None)
    rises, falls = any(value > 0 for value in residuals.values()), any(value < 0 for value in residuals.values())
    if not supply and (rises and falls):
        return {"silent_move": address}
    if supply:
        return {"silent_mint" if supply > 0 else "silent_burn": address}
    return {"silent_mint" if rises else "silent_burn": address}


def _is_ratio(pairs: Sequence[tuple[int, int]]) -> bool:
    """Return whether the second of all pairs of numbers is the first times one ratio other than 1, but for rounding."""
    numbers = [pair for pair in pairs if pair[0] > 0]
    if len({base for base, _ in numbers}) <= 1 or all(base == scaled for base, scaled in numbers):
        return False
    largest_base, largest_scaled = max(numbers)
    return all(
        abs(scaled * largest_base - largest_scaled * base) <= 2 * (largest_base + abs(largest_scaled))
        for base, scaled in numbers
    )


def _transfers(events: Sequence[Log], wrapped: Collection[str]) -> list[tuple[str, str, str, str]]:
    """Return the readable transfers among events: transaction, sender, receiver and value.

    Deposits and withdrawals of the tokens ``wrapped`` mint and burn.
    """
    rows = Rows("", "", "")
    add_transfers(rows, events, defaultdict(int), wrapped)
    columns = ("tx_hash", "from_address", "to_address", "value")
    return list(zip(*(rows.table()[name].to_pylist() for name in columns), strict=True))


class Contract:
    """A token's contract on a node, and the stored rows of the token."""

    def __init__(self, store: Store, node: Node, chain: str, token: str) -> None:
        self._store = store
        self._node = node
        self._chain = chain
        self.token = token
        self.batch = max(1, node.batch - 1)

    async def state(self, addresses: Sequence[str | None], block: int) -> list[int | None]:
        """Return balances after a block. None among ``addresses`` is the total supply, None in the result no answer."""
        data = [
            _TOTAL_SUPPLY if address is None else f"{_BALANCE_OF}{address.removeprefix('0x'):0>64}"
            for address in addresses
        ]
        answers = await self._node.ask([eth_call(self.token, question, block) for question in data], list)
        return [None if answer in (None, "0x") else int(answer, 16) for answer in answers]

    async def first_difference(self, address: str | None, first_block: int, last_block: int) -> int:
        """Return the first block after which a balance, or the supply if None, differs from the stored transfers.

        Raises ``ValueError`` if the node has no state of a block between.
        """
        low, high = first_block, last_block
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if await self.is_different(address, middle) else (middle + 1, high)
        return low

    async def is_different(self, address: str | None, block: int) -> bool:
        """Return whether a balance, or the supply if None, differs from the stored transfers after a block.

        Raises ``ValueError`` if the node has no state of the block.
        """
        changes = self._changes(ZERO_ADDRESS if address is None else address)
        stored_amount = sum(value for place, value in changes if place <= block) * (-1 if address is None else 1)
        (answer,) = await self.state([address], block)
        if answer is None:
            if not await self._is_without_code(block):
                raise ValueError(f"no state of block {block}")
            answer = 0  # the contract did not exist yet
        return answer != stored_amount

    async def _is_without_code(self, block: int) -> bool:
        (code,) = await self._node.ask([code_at(self.token, block)], list)
        return bool(code == "0x")

    @functools.lru_cache(maxsize=2)  # noqa: B019 - the object lives for one token
    def _changes(self, address: str) -> list[tuple[int, int]]:
        """Return the block and the change of a balance for each stored transfer of an address."""
        return [
            (row[0], (row[4] == address) * int(row[5]) - (row[3] == address) * int(row[5]))
            for row in self._query(_ROWS, {"address": address})
        ]

    def rows_in(self, block: int) -> list[tuple[Any, ...]]:
        """Return the stored transfers of a block: block, log index, transaction, sender, receiver, value."""
        return self._query(_IN_BLOCK, {"block": block})

    def _query(self, sql: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
        files = self._store.files([(self._chain, self.token)])
        all_parameters = {"files": files, "chain": self._chain, "token": self.token, **parameters}
        return [tuple(row.values()) for row in self._store.query(sql, all_parameters).to_pylist()]

    async def events_in(self, block: int) -> list[Log]:
        """Return the token's events in a block, from its receipts if the node has them, else from ``eth_getLogs``."""
        try:
            (receipts,) = await self._node.ask([block_events(block)], list)
            if receipts is None:
                raise ValueError(f"no receipts of block {block}")
        except FAILURES:
            receipts = await self._receipts_by_transaction(block)
        events = [log for receipt in receipts if receipt is not None for log in receipt.logs]
        return [log for log in events if log.address.lower() == self.token]

    async def wrapped_by(self, events: Sequence[Log]) -> frozenset[str]:
        """Return the token, as a set, if a Deposit or Withdrawal among these events mints or burns; else no token."""
        for log in events:
            if wrapping(log) is not None and await is_minting(self._node, log, events):
                return frozenset({self.token})
        return frozenset()

    async def keeps_state(self, block: int) -> bool:
        """Return whether the node has the contract's code at a block, so that it keeps the state of it."""
        try:
            (answer,) = await self._node.ask([code_at(self.token, block)], list)
        except FAILURES:
            return False
        return answer is not None

    async def _receipts_by_transaction(self, block: int) -> list[Any]:
        try:
            (hashes,) = await self._node.ask([transaction_hashes(block)], list)
            return await self._node.ask([transaction_events(transaction) for transaction in hashes.transactions], list)
        except (*FAILURES, AttributeError):
            (answer,) = await self._node.ask([logs(block, block, [self.token], [])], list)
            return [_Logs(answer)]


@dataclass(frozen=True)
class _Logs:
    logs: list[Log]
