"""Compare supplies and balances of tokens with those of their contracts, and find the causes of differences.

If a balance differs, bisection over the contract's past finds the first block after which it does. The receipts of this
block show whether events are missing in the store. If none are, the changes of balances in the block, compared with its
events, show the cause. If several causes would explain them, a later block with another difference decides.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from holderlake.core.contract.chains import ZERO_ADDRESS
from holderlake.engine.queries.balances import Balances
from holderlake.engine.store.store import Store
from holderlake.sources.rpc import messages
from holderlake.sources.rpc.errors import InvalidAnswer, Refused, TooLarge, Unavailable
from holderlake.sources.rpc.events import EVENTS, TRANSFER, TransferRows, add_transfers, moves_of, wrapping
from holderlake.sources.rpc.messages import Log, ReceiptEvents, code, eth_call, logs, transaction_events
from holderlake.sources.rpc.node import Node
from holderlake.sources.rpc.reading import is_minting

Event: TypeAlias = tuple[str, str, str, int]
"""A transfer in a block: transaction, sender, receiver, value."""
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
_MOST_CHOICES: Final = 1_024
"""Maximum sets of events of a block that are tried as an explanation."""
_MOST_BLOCKS: Final = 3
"""Maximum blocks of a holder that are examined, if the first ones allow several causes."""
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
    "unclear": "the balances and events of the block allow several causes ({kinds}), and no other examined block shows "
    "which one it is",
    "unknown": "the cause is unknown, because the node keeps no state of earlier blocks; use a node that keeps it, or "
    "compare with the events of another node: --against URL",
}
"""The causes of differences between events and balances, and their sentences."""


@dataclass(frozen=True)
class Cause:
    """A cause for which balances of a token differ from its events, ``kind`` is a key of ``WORDS``.

    ``block`` is the first block with the difference, None if it is not known, and ``blocks`` are all examined ones that
    show the cause. ``address`` is a holder that differs. ``other_events`` are the topics of the token's events in
    ``block`` that are no transfers.
    """

    kind: str
    words: str
    block: int | None = None
    address: str | None = None
    other_events: list[str] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)


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
    right = [address for address, _ in sample if address not in wrong]
    await _examine(contract, drift, suspects, [*wrong[:_LARGEST], *right[:_EXAMINED]], first_block, block)
    return Compared(len(sample), drift)


async def _examine(
    contract: Contract,
    drift: Drift,
    suspects: Sequence[str | None],
    holders: Sequence[str],
    first_block: int,
    last_block: int,
) -> None:
    """Add the causes of the differences of ``suspects`` (None is the supply) to ``drift``.

    ``holders`` are those that differ, and some that do not: a rebase changes them, too.
    """
    examined: dict[int, list[list[Cause]]] = {}
    for suspect in suspects:
        try:
            if first_block and await contract.difference(suspect, first_block - 1):
                drift.causes.append(Cause("earlier_transfers", WORDS["earlier_transfers"], None, suspect))
                return
            begin, known = first_block, 0
            for _ in range(_MOST_BLOCKS):
                block = await contract.first_difference(suspect, begin, last_block, known)
                if block is None:
                    break
                if block not in examined:
                    examined[block] = await _possible_causes(contract, drift, block, suspect, holders)
                if len(examined[block]) == 1:
                    break
                begin, known = block + 1, await contract.difference(suspect, block)
        except FAILURES:
            drift.causes.append(Cause("unknown", WORDS["unknown"], None, suspect))
            break
    drift.causes.extend(_claims(examined))


def _claims(examined: Mapping[int, list[list[Cause]]]) -> list[Cause]:
    """Return each cause once, with the blocks that show it.

    A block that allows several causes shows those that other blocks show alone.
    """
    claims: dict[str, Cause] = {}
    for block, possible in sorted(examined.items(), key=lambda item: (len(item[1]) != 1, item[0])):
        decided = [causes for causes in possible if len(possible) == 1 or all(cause.kind in claims for cause in causes)]
        if not decided:
            kinds = ", ".join(sorted({cause.kind for causes in possible for cause in causes}))
            decided = [[Cause("unclear", WORDS["unclear"].format(kinds=kinds or "too many events"), block)]]
        for cause in decided[0]:
            claims.setdefault(cause.kind, cause).blocks.append(block)
    return list(claims.values())


async def _possible_causes(
    contract: Contract, drift: Drift, block: int, suspect: str | None, holders: Sequence[str]
) -> list[list[Cause]]:
    """Return the causes that explain the differences that begin in a block; one or several together for each way."""
    stored_rows = contract.rows_in(block)
    emitted = await contract.events_in(block)
    transfers = _transfers(emitted, await contract.wrapped_by(emitted))
    readable = Counter(transfers)
    lacking = readable - Counter((row[2], row[3], row[4], row[5]) for row in stored_rows)
    if lacking:
        count = sum(lacking.values())
        drift.omitted[block] = count
        return [[Cause("omitted_events", WORDS["omitted_events"].format(count=count), block, suspect)]]
    unreadable = sum(log.topics[:1] == [TRANSFER] and moves_of(log.topics, log.data) is None for log in emitted)
    if unreadable:
        return [[Cause("unreadable_events", WORDS["unreadable_events"].format(count=unreadable), block, suspect)]]
    parties = {party for row in stored_rows for party in (row[3], row[4])} | {*holders}
    parties |= {suspect} if suspect else set()
    parties.discard(ZERO_ADDRESS)
    residuals, expected, supply = await _residuals(contract, sorted(parties), stored_rows, block)
    other_topics = sorted({log.topics[0] for log in emitted if log.topics and log.topics[0] not in EVENTS})
    if _is_ratio([(value, value + residuals.get(party, 0)) for party, value in expected.items()]):
        return [[Cause("rebasing", WORDS["rebasing"], block, suspect, other_topics)]]
    all_events: Counter[Event] = Counter((row[2], row[3], row[4], int(row[5])) for row in stored_rows if int(row[5]))
    return [
        [
            Cause(kind, WORDS[kind].format(address=address or "an unknown address"), block, address, other_topics)
            for kind, address in kinds.items()
        ]
        for kinds in _Block(all_events, residuals, supply, suspect).explanations()
    ]


async def _residuals(
    contract: Contract, parties: Sequence[str], stored_rows: Sequence[tuple[Any, ...]], block: int
) -> tuple[dict[str, int], dict[str, int], int | None]:
    """Return what the events of a block do not explain, by address; the balances that they give; and what they do not
    explain of the supply, None if the contract reports none."""
    addresses: list[str | None] = [None, *parties]
    earlier = await contract.state(addresses, block - 1) if block else [0] * len(addresses)
    later = await contract.state(addresses, block)
    expected = {party: int(value or 0) for party, value in zip(parties, earlier[1:], strict=True)}
    minted = 0
    for _, _, _, sender, receiver, value in stored_rows:
        for party, change in ((sender, -int(value)), (receiver, int(value))):
            if party in expected:
                expected[party] += change
            else:
                minted -= change
    residuals = {party: int(value or 0) - expected[party] for party, value in zip(parties, later[1:], strict=True)}
    supply = None if later[0] is None else int(later[0]) - int(earlier[0] or 0) - minted
    return {party: value for party, value in residuals.items() if value}, expected, supply


Kinds: TypeAlias = dict[str, str | None]
"""Kinds of causes that hold together, each with an address that differs."""


@dataclass(frozen=True)
class _Block:
    """What the events of a block do not explain: ``residuals`` of balances, and of the supply (None if it is unknown).

    ``all_events`` are all events with a value, ``events`` those of addresses with a residual.
    """

    all_events: Counter[Event]
    residuals: Mapping[str, int]
    supply: int | None
    suspect: str | None

    @functools.cached_property
    def events(self) -> Counter[Event]:
        return Counter(
            {event: count for event, count in self.all_events.items() if self.residuals.keys() & {*event[1:3]}}
        )

    def of(self, is_rise: bool) -> dict[str, int]:
        """Return the residuals of addresses that have more, or less, than the events give them, without sign."""
        return {party: abs(value) for party, value in self.residuals.items() if (value > 0) == is_rise}

    def explanations(self) -> list[Kinds]:
        """Return the ways to explain the residuals; none if the block has too many events for an answer."""
        if math.prod(count + 1 for count in self.events.values()) > _MOST_CHOICES:
            return []
        return (
            self._unmoved() or self._misnamed() or self._fees() or [_silent(self.residuals, self.supply, self.suspect)]
        )

    def _unmoved(self) -> list[Kinds]:
        """Events that moved nothing explain all residuals, or those of their addresses."""
        repeated = Counter({event: count - 1 for event, count in self.events.items() if count > 1})
        partly: list[Kinds] = []
        for kind, events in (("doubled_event", repeated), ("fake_event", self.events)):
            for chosen in _choices(events):
                unexplained, (_, sender, receiver, _) = self._without(chosen), next(iter(chosen))
                if not unexplained:
                    return [{kind: receiver}]
                if partly or unexplained.keys() & {party for event in chosen for party in event[1:3]}:
                    continue
                if sum(map(abs, unexplained.values())) == 2 * sum(event[3] * count for event, count in chosen.items()):
                    partly = [{"wrong_sender": sender, "wrong_receiver": receiver}]
                else:
                    supply = -unexplained.pop(ZERO_ADDRESS, 0) if self.supply is not None else None
                    partly = [{kind: receiver, **_silent(unexplained, supply, next(iter(unexplained), None))}]
        return partly

    def _without(self, chosen: Counter[Event]) -> dict[str, int]:
        """Return what remains of the residuals if the chosen events moved nothing; the supply is that of no address."""
        unexplained = Counter(self.residuals)
        unexplained[ZERO_ADDRESS] -= self.supply or 0
        for (_, sender, receiver, value), count in chosen.items():
            unexplained[sender] -= count * value
            unexplained[receiver] += count * value
        return {
            party: unexplained[party]
            for party in unexplained
            if unexplained[party] and (party != ZERO_ADDRESS or self.supply is not None)
        }

    def _misnamed(self) -> list[Kinds]:
        """Whole events went to other receivers, or came from other senders, which may be parties of other events."""
        return [
            {kind: next(iter(self.of(is_rise)))}
            for kind, side, is_rise in (("wrong_receiver", 2, False), ("wrong_sender", 1, True))
            if not self.supply and any(self._is_misnamed(chosen, side) for chosen in _choices(self.events))
        ]

    def _is_misnamed(self, chosen: Counter[Event], side: int) -> bool:
        """Return whether others got what the receivers (side 2) of the chosen events lack, or paid for the senders."""
        sign, unexplained = (1 if side == 2 else -1), Counter(self.residuals)
        for event, count in chosen.items():
            unexplained[event[2] if side == 2 else event[1]] += sign * count * event[3]
        others = [sign * value for value in unexplained.values() if value]
        if min(others, default=0) < 0 or sum(others) > sum(event[3] * count for event, count in chosen.items()):
            return False
        return {*others} <= _sums(chosen)

    def _fees(self) -> list[Kinds]:
        """Parts of events are lacking. If a transfer of the block has no fee, it may be a silent change as well."""
        falls, rises = self.of(is_rise=False), self.of(is_rise=True)
        volumes = {
            party: max(
                sum(event[3] * count for event, count in self.events.items() if event[side] == party) for side in (1, 2)
            )
            for party in falls
        }
        if not falls or sum(rises.values()) > sum(falls.values()) or any(falls[one] >= volumes[one] for one in falls):
            return []
        is_charged = all(falls.keys() & {*event[1:3]} or ZERO_ADDRESS in event[1:3] for event in self.all_events)
        fee: Kinds = {"fee": next(iter(falls))}
        return [fee] if is_charged else [fee, _silent(self.residuals, self.supply, self.suspect)]


def _choices(events: Counter[Event]) -> Iterable[Counter[Event]]:
    """Yield all non-empty choices of events, which may occur several times; the largest ones first."""
    counts = itertools.product(*(range(count, -1, -1) for count in events.values()))
    return (Counter(dict(zip(events, chosen, strict=True))) for chosen in counts if any(chosen))


def _sums(events: Counter[Event]) -> set[int]:
    """Return the sums of the values of all choices of events, with 0."""
    sums = {0}
    for (_, _, _, value), count in events.items():
        sums = {total + value * times for total in sums for times in range(count + 1)}
    return sums


def _silent(residuals: Mapping[str, int], supply: int | None, suspect: str | None) -> Kinds:
    """Return the cause of changes without events, with an address that differs.

    If balances only fall, and the supply stays, the amount went to an address without transfers.
    """
    address = suspect or next(iter(residuals), None)
    rises, falls = any(value > 0 for value in residuals.values()), any(value < 0 for value in residuals.values())
    if supply:
        return {"silent_mint" if supply > 0 else "silent_burn": address}
    if falls and (rises or supply is not None):
        return {"silent_move": address}
    return {"silent_mint" if rises else "silent_burn": address}


def _is_ratio(pairs: Sequence[tuple[int, int]]) -> bool:
    """Return whether the second of all pairs of numbers is the first times one ratio other than 1, but for rounding.

    Two different numbers or more must change by more than rounding does.
    """
    numbers = [pair for pair in pairs if pair[0] > 0]
    if len({base for base, scaled in numbers if abs(scaled - base) * base > 2 * (base + abs(scaled))}) <= 1:
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
    rows = TransferRows("", "", "")
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

    async def first_difference(self, address: str | None, first_block: int, last_block: int, known: int) -> int | None:
        """Return the first block after which the difference of a balance, or of the supply if None, is not ``known``.

        None if it is ``known`` after the last block. Raises ``ValueError`` if the node has no state of a block between.
        """
        low, high = first_block, last_block
        if low > high or await self.difference(address, high) == known:
            return None
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if await self.difference(address, middle) != known else (middle + 1, high)
        return low

    async def difference(self, address: str | None, block: int) -> int:
        """Return by how much a balance, or the supply if None, exceeds that of the stored transfers after a block.

        A contract without an answer, such as one before its first upgrade, has no balances. Raises ``ValueError`` if
        the node has no state of the block.
        """
        changes = self._changes(ZERO_ADDRESS if address is None else address)
        stored_amount = sum(value for place, value in changes if place <= block) * (-1 if address is None else 1)
        try:
            (answer,) = await self.state([address], block)
        except (Refused, InvalidAnswer):
            answer = None
        if answer is None and not await self.keeps_state(block):
            raise ValueError(f"no state of block {block}")
        return (answer or 0) - stored_amount

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
            (receipts,) = await self._node.ask([messages.block_receipts(block, ReceiptEvents)], list)
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
            (answer,) = await self._node.ask([code(self.token, block)], list)
        except FAILURES:
            return False
        return answer is not None

    async def _receipts_by_transaction(self, block: int) -> list[Any]:
        try:
            (hashes,) = await self._node.ask([messages.block(block, messages.TransactionHashes)], list)
            return await self._node.ask([transaction_events(transaction) for transaction in hashes.transactions], list)
        except (*FAILURES, AttributeError):
            (answer,) = await self._node.ask([logs(block, block, [self.token], [])], list)
            return [_Logs(answer)]


@dataclass(frozen=True)
class _Logs:
    logs: list[Log]
