"""Read the transfers and block hashes of ranges of blocks.

Results of endpoints are validated: events must be of the requested blocks, tokens and kinds, each block's header must
exist, and the hashes of events, headers and parents must agree.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import gc
from abc import ABC, abstractmethod
from collections import Counter, defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

import pyarrow as pa

from holderlake.core.units import counted
from holderlake.engine.records import TRANSFERS
from holderlake.sources.rpc import messages
from holderlake.sources.rpc.errors import (
    ChainMoved,
    Contradiction,
    InvalidAnswer,
    Refused,
    RpcError,
    TooLarge,
    Unavailable,
)
from holderlake.sources.rpc.events import (
    EVENTS,
    TOPICS,
    TRANSFER,
    TransferRows,
    add_transfers,
    is_partly_indexed,
    may_have_transfers,
    moves_of,
    wrapping,
)
from holderlake.sources.rpc.messages import Block, Call, Header, Log, number
from holderlake.sources.rpc.native import Moved, add_values, of_call_frames, of_receipts
from holderlake.sources.rpc.node import Node, checked_header

SOURCE: Final = "rpc"
_ADDRESSES_A_CALL: Final = 500
_CUT_OFF_AT: Final = 1_000
"""If the number of events in an answer is a multiple of this number, the endpoint may have cut off further events."""
_SEVERAL: Final = 2
_PROBES: Final = 3
"""Number of events of a token whose balances are compared to decide whether its Deposit events mint."""

T = TypeVar("T")
SPARSE: Final = 10_000
"""Each block whose number is a multiple of it keeps its hash: a deep reorganisation is found by these."""
_TRY_AFTER: Final = 32
"""Number of consecutive successes after which a request has more blocks again. Each attempt that fails doubles it."""


class Width:
    """The number of blocks in the next request (``value``), from 1 to ``limit``.

    It doubles with each success. A request that is too large halves it, and it doubles only after many successes from
    then on: a request may be too large only because its blocks have many events. ``works``: a request had success.
    """

    def __init__(self, start: int, limit: int) -> None:
        self._limit, self._patience, self._successes, self._trial = limit, 0, 0, limit + 1
        self.works = False
        self.value = min(start, limit)

    @property
    def is_limited(self) -> bool:
        """True if a request was too large."""
        return self._patience > 0

    def shrink(self, failed: int) -> None:
        """Reduce the number of blocks after a request for ``failed`` blocks that was too large."""
        self._patience = 2 * self._patience if failed >= self._trial else max(self._patience, _TRY_AFTER)
        self._successes, self._trial = 0, self._limit + 1
        self.value = max(1, min(self.value, failed // 2))

    def grow(self, blocks: int) -> None:
        """Increase the number of blocks, if due, after a successful request for ``blocks`` blocks."""
        self.works = True
        self._successes += 1
        if self._successes >= self._patience:
            self._successes, self.value = 0, min(self._limit, max(self.value, 2 * blocks))
            self._trial = self.value if self._patience else self._limit + 1


@dataclass(frozen=True)
class Piece:
    """Transfers and hashes of the blocks from ``first_block`` to ``last_block``, both included.

    ``parent`` is the hash of the block before ``first_block``. ``hashes`` has hashes by block number. ``logs`` is the
    number of events or transactions that were read, ``passed_over`` the number of events that are not transfers.
    ``partly_indexed`` has the number of Transfer events with one indexed address by token. ``silent`` is
    the number of examined blocks without transfers that have events by their headers, ``hidden`` those that have
    transfers by them.
    """

    first_block: int
    last_block: int
    parent: str
    rows: pa.Table
    hashes: dict[int, str] = field(default_factory=dict)
    logs: int = 0
    passed_over: int = 0
    partly_indexed: Counter[str] = field(default_factory=Counter)
    silent: int = 0
    hidden: int = 0


class Reader(ABC):
    """A reader of ranges of blocks. It requests fewer blocks if a range is too large for the endpoint.

    ``width.value`` is the number of blocks in the next request.
    """

    method: str
    """The method that the reader calls, for messages."""

    def __init__(self, width: Width) -> None:
        self.width = width

    async def read(self, first_block: int, last_block: int) -> list[Piece]:
        """Return the blocks from ``first_block`` to ``last_block`` as consecutive ``Piece`` objects, in order. Raises
        ``RpcError``."""
        pieces: list[Piece] = []
        while first_block <= last_block:
            end = min(last_block, first_block + self.width.value - 1)
            try:
                pieces.append(await self._piece(first_block, end))
            except Contradiction:
                raise
            except (TooLarge, Refused, Unavailable, InvalidAnswer) as error:  # a long answer may arrive cut off
                await self._fit(error, first_block, end)
            else:
                self.width.grow(end - first_block + 1)
                first_block = end + 1
        return pieces

    async def _fit(self, error: RpcError, first_block: int, last_block: int) -> None:
        """Reduce the number of blocks after an error about a range. Raises ``error`` if fewer blocks do not help.

        Only an endpoint's words say that a range is too large, and no list has all words. So if they say something
        else, one block of the range is tried.
        """
        if first_block == last_block:
            if not isinstance(error, TooLarge) and not self.width.is_limited:
                raise error
            if self.width.works:
                reason = f"block {first_block} alone is too large for the endpoint"
            else:
                reason = f"the endpoint does not serve {self.method}: even one block is too much for it"
            raise Refused(f"{reason} ({error}); use another endpoint") from error
        if not isinstance(error, TooLarge):
            try:
                await self._piece(first_block, first_block)
            except RpcError:
                raise error from None
        self.width.shrink(last_block - first_block + 1)

    @abstractmethod
    async def _piece(self, first_block: int, last_block: int) -> Piece: ...


class EventReader(Reader):
    """Reader of the transfer events of ``tokens`` (addresses), or of all tokens if None.

    It returns the hash of every block from ``recent_from`` on. For earlier blocks, it returns the hashes of the first
    and the last block of each ``Piece``, and of every ``SPARSE``-th one.
    """

    method = "eth_getLogs"

    def __init__(self, node: Node, chain: str, tokens: Sequence[str] | None, recent_from: int, width: Width) -> None:
        super().__init__(width)
        self._node = node
        self._chain = chain
        self._tokens = None if tokens is None else frozenset(tokens)
        self._groups = [None] if tokens is None else [list(part) for part in parts(sorted(tokens), _ADDRESSES_A_CALL)]
        self._recent_from = recent_from
        self._topics = TOPICS if tokens is None else EVENTS
        self._is_wrapped: dict[str, bool] = {}

    async def _piece(self, first_block: int, last_block: int) -> Piece:
        recent = range(max(first_block, self._recent_from), last_block + 1)
        header_blocks = sorted(
            {first_block, last_block, *recent, *range(first_block + -first_block % SPARSE, last_block + 1, SPARSE)}
        )
        calls = [messages.logs(first_block, last_block, group, self._topics) for group in self._groups]
        calls += [messages.block(block) for block in header_blocks]
        logs, headers = await self._node.ask(
            calls, lambda answers: self._checked(first_block, last_block, header_blocks, answers)
        )
        unknown = sorted({number(log.block_number) for log in logs if log.block_timestamp is None} - headers.keys())
        headers |= await self._node.headers(unknown)
        _same_chain(logs, headers)
        rows = TransferRows(self._chain, SOURCE, "exact")
        wrapped = await self._wrapped_among(logs)
        times = {block: number(header.timestamp) for block, header in headers.items()}
        passed_over = add_transfers(rows, logs, times, wrapped)
        hashes = {block: headers[block].hash for block in header_blocks}
        partly = Counter(log.address.lower() for log in logs if is_partly_indexed(log.topics, log.data))
        with_logs = {log.block_number for log in logs}
        # the filter of a block with other tokens' events says too little of one token
        silent = [
            header
            for header in headers.values()
            if self._tokens is None and header.number not in with_logs and int(header.logs_bloom, 16)
        ]
        hidden = sum(map(may_have_transfers, silent))
        parent = headers[first_block].parent_hash
        counts = (len(logs), passed_over, partly, len(silent), hidden)
        return Piece(first_block, last_block, parent, rows.table(), hashes, *counts)

    async def _wrapped_among(self, logs: Sequence[Log]) -> set[str]:
        """Return the tokens among the events whose Deposit and Withdrawal events mint and burn."""
        candidates: dict[str, list[Log]] = {}
        for log in logs:
            if (holder_change := wrapping(log)) is not None and holder_change[1]:
                candidates.setdefault(log.address.lower(), []).append(log)
        for token in candidates.keys() - self._is_wrapped.keys():
            of_token = [log for log in logs if log.address.lower() == token]
            for log in candidates[token][:_PROBES]:
                decided = await is_minting(self._node, log, of_token)
                if decided is not None:
                    self._is_wrapped[token] = decided
                    break
        return {token for token in candidates if self._is_wrapped.get(token, True)}

    def _checked(
        self, first_block: int, last_block: int, header_blocks: Sequence[int], answers: Sequence[Any]
    ) -> tuple[list[Log], dict[int, Header]]:
        groups = len(self._groups)
        logs: list[Log] = [log for part in answers[:groups] for log in part]
        if (
            last_block > first_block
            and logs
            and any(part and len(part) % _CUT_OFF_AT == 0 for part in answers[:groups])
        ):
            raise TooLarge(
                f"the answer for blocks {first_block} to {last_block} has {counted(len(logs), 'event')} and may "
                "be truncated; "
                "request fewer blocks"
            )
        headers = {
            block: checked_header(block, header) for block, header in zip(header_blocks, answers[groups:], strict=True)
        }
        _linked(headers)
        self._check(logs, first_block, last_block)
        return logs, headers

    def _check(self, logs: Sequence[Log], first_block: int, last_block: int) -> None:
        """Raise ``InvalidAnswer`` if an event is of another block, token or kind than requested."""
        blocks = set(map(_number, {log.block_number for log in logs}))
        strange = min((block for block in blocks if not first_block <= block <= last_block), default=None)
        kinds = {log.topics[0] if log.topics else "" for log in logs}
        strangers = set() if self._tokens is None else {log.address.lower() for log in logs} - self._tokens
        faults = {
            f"of block {strange}": strange is not None,
            "that a reorganisation removed": any(log.removed for log in logs),
            "of a kind that was not requested": not kinds <= set(self._topics),
            f"of token {min(strangers, default='')[:64]}, which was not requested": bool(strangers),
        }
        for fault in (words for words, is_found in faults.items() if is_found):
            raise InvalidAnswer(
                f"the answer for blocks {first_block} to {last_block} has an event {fault}; use another endpoint"
            )


async def is_minting(node: Node, event: Log, logs: Sequence[Log]) -> bool | None:
    """Return whether a Deposit or Withdrawal event changes the balance of its holder; None if it makes no difference.

    ``logs`` are all events of the token. The contract's balances before and after the block decide. If the node does
    not keep them, the event counts, unless the transaction also has a transfer of this value to the contract itself:
    then the holder deposits tokens there.
    """
    token, block = event.address.lower(), number(event.block_number)
    holder, change = wrapping(event) or ("", 0)
    of_block = [log for log in logs if log.block_number == event.block_number]
    with_it, without = (_net(of_block, holder, wrapped) for wrapped in ({token}, frozenset[str]()))
    if with_it == without:
        return None
    data = f"0x70a08231{holder.removeprefix('0x'):0>64}"
    try:
        calls = [messages.eth_call(token, data, place) for place in (max(block - 1, 0), block)]
        balance_before, balance_after = (int(answer or "", 16) for answer in await node.ask(calls, list))
    except (Refused, Unavailable, InvalidAnswer, TooLarge, ValueError):
        of_transaction = [log for log in of_block if log.transaction_hash == event.transaction_hash]
        moves = [
            move for log in of_transaction if log.topics[0] == TRANSFER for move in moves_of(log.topics, log.data) or ()
        ]
        return not any(token in move[1:3] and int(move[3]) == abs(change) for move in moves)
    return balance_after - balance_before != without


def _net(logs: Sequence[Log], holder: str, wrapped: Collection[str]) -> int:
    """Return what the events change in a holder's balance."""
    rows = TransferRows("", "", "")
    add_transfers(rows, logs, defaultdict(int), wrapped)
    columns = (rows.table()[name].to_pylist() for name in ("from_address", "to_address", "value"))
    return sum(int(value) * ((to == holder) - (by == holder)) for by, to, value in zip(*columns, strict=True))


class ValueReader(Reader):
    """Reader of transfers of the native coin by the method ``tracer``. Block 0 of a chain has no transactions."""

    def __init__(self, node: Node, chain: str, tracer: Tracer, width: Width) -> None:
        super().__init__(width)
        self.method = tracer.name
        self._node = node
        self._chain = chain
        self._tracer = tracer

    async def _piece(self, first_block: int, last_block: int) -> Piece:
        begin = max(first_block, 1)
        if begin > last_block:
            return Piece(first_block, last_block, "", TRANSFERS.empty_table())
        calls = [
            call
            for block in range(begin, last_block + 1)
            for call in (messages.block(block, Block), self._tracer.call(block))
        ]
        calls = [replace(call, is_divisible=last_block > begin) for call in calls]
        piece = await self._node.ask(calls, lambda answers: self._checked(begin, last_block, answers))
        return replace(piece, first_block=first_block, parent=piece.parent if begin == first_block else "")

    def _checked(self, first_block: int, last_block: int, answers: Sequence[Any]) -> Piece:
        rows = TransferRows(self._chain, SOURCE, "synthetic")
        headers: dict[int, Header] = {}
        transactions = 0
        for place, (block, outcome) in enumerate(parts(answers, _SEVERAL), start=first_block):
            headers[place] = checked_header(place, block)
            if outcome is None:
                raise InvalidAnswer(
                    f"the node returned null for {self._tracer.name} of block {place}, perhaps because it does not "
                    "keep old blocks; use another endpoint"
                )
            try:
                add_values(rows, block, self._tracer.amounts(block, outcome))
            except ValueError as error:
                raise InvalidAnswer(f"the node sent an invalid block {place}: {error}; use another endpoint") from None
            transactions += len(block.transactions)
        _linked(headers)
        hashes = {block: header.hash for block, header in headers.items()}
        return Piece(first_block, last_block, headers[first_block].parent_hash, rows.table(), hashes, transactions)


@dataclass(frozen=True)
class Tracer:
    """A method to read the amounts of the native coin that a block's transactions moved.

    ``name`` is the source of the amounts in the import's report. ``scope`` is the key of its blocks in the checkpoints.
    ``call`` returns the call for a block, and ``amounts`` reads the call's result.
    """

    name: str
    scope: str
    call: Callable[[int], Call]
    amounts: Callable[[Block, Any], dict[str, list[Moved]]]


RECEIPTS: Final = Tracer("receipts", "native", messages.block_receipts, of_receipts)
TRACES: Final = Tracer("debug_traceBlockByNumber", "internal", messages.call_frames, of_call_frames)


async def tracer_of(node: Node, blocks: Sequence[int]) -> Tracer:
    """Return the traces of calls if the node has them for all of ``blocks``, else the receipts. Many nodes have no
    traces, or not for old blocks."""
    try:
        answers = await node.ask([TRACES.call(max(1, block)) for block in blocks], list)
    except (Refused, Unavailable, InvalidAnswer):
        return RECEIPTS
    return RECEIPTS if None in answers else TRACES


async def in_order(reader: Reader, first_block: int, last_block: int, concurrency: int) -> AsyncGenerator[list[Piece]]:
    """Yield lists of ``Piece`` objects of the blocks from ``first_block`` to ``last_block``, in order.

    Up to ``concurrency`` ranges of blocks are read at the same time. Raises ``RpcError``.
    """
    under_way: deque[asyncio.Task[list[Piece]]] = deque()
    _freeze_objects()
    try:
        while first_block <= last_block or under_way:
            while first_block <= last_block and len(under_way) < concurrency:
                end = min(first_block + reader.width.value - 1, last_block)
                under_way.append(asyncio.create_task(reader.read(first_block, end)))
                first_block = end + 1
            yield await under_way.popleft()
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


@functools.cache
def _freeze_objects() -> None:
    """Exclude the objects that exist now from garbage collection: its scans take a quarter of the CPU of an import."""
    gc.freeze()
    atexit.register(gc.unfreeze)  # the last collection of the process takes them, too


def parts(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield consecutive slices of ``items`` with ``size`` elements. The last one may be shorter."""
    return (items[at : at + size] for at in range(0, len(items), size))


def _linked(headers: dict[int, Header]) -> None:
    """Raise ``InvalidAnswer`` if a header's parent hash differs from the hash of the previous block.

    If ``headers`` lacks the previous block, nothing is compared.
    """
    for block, header in headers.items():
        previous = headers.get(block - 1)
        if previous is not None and header.parent_hash != previous.hash:
            raise InvalidAnswer(
                f"block {block} does not follow block {block - 1}: the chain was reorganised between two reads; "
                "use another endpoint"
            )


def _same_chain(logs: Iterable[Log], headers: dict[int, Header]) -> None:
    """Raise ``ChainMoved`` if an event's block hash differs from the hash in the block's header."""
    for text, block_hash in {(log.block_number, log.block_hash) for log in logs}:
        header = headers.get(number(text))
        if header is not None and header.hash != block_hash:
            raise ChainMoved(f"block {number(text)} was reorganised while it was read; the import reads it again")


def _number(text: str) -> int:
    try:
        return number(text)
    except ValueError as error:
        raise InvalidAnswer(f"the node sent an event with an invalid block: {error}; use another endpoint") from None
