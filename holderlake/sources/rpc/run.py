"""Import a chain's blocks from a node into the store, each block once.

Only blocks with enough confirmations are read. At the start and at the end, the newest stored hashes are compared with
those of the node. If a reorganisation changed them, the store is rolled back to the newest block that store and node
have in common, and reading continues from there. A killed import resumes at its last checkpoint.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from holderlake.core.contract.chains import KNOWN_CHAINS, NATIVE, ZERO_ADDRESS
from holderlake.core.contract.times import utc_now
from holderlake.engine.catalog.indexed_tokens import IMPORT
from holderlake.engine.queries.balances import largest_balances
from holderlake.engine.records import Label, TokenInfo
from holderlake.engine.store.store import Store
from holderlake.sources.notices import assumed_decimals, notices_of, partly_indexed
from holderlake.sources.rpc.balances import BalancesRead, read_balances
from holderlake.sources.rpc.causes import FAILURES, Contract
from holderlake.sources.rpc.checkpoints import ALL_TOKENS, Checkpoints, Interval, missing_blocks
from holderlake.sources.rpc.errors import ChainMoved, Diverged, WrongChain
from holderlake.sources.rpc.messages import Call, code, eth_call
from holderlake.sources.rpc.node import Node
from holderlake.sources.rpc.reading import (
    RECEIPTS,
    SOURCE,
    SPARSE,
    EventReader,
    Piece,
    Reader,
    Tracer,
    ValueReader,
    Width,
    in_order,
    parts,
    tracer_of,
)
from holderlake.sources.rpc.undone import record_undone

_TURNS: Final = 20
"""The most reorganisations during one import. Then the import fails."""
_FLUSH_SECONDS: Final = 20.0
_TOKENS_A_QUERY: Final = 200
_ROWS_OF_TOKEN: Final = 50_000
"""Number of rows of a token that decide whether its values are numbers of items."""
_FEWEST_HIDDEN: Final = 3
_PART_HIDDEN: Final = 10
"""One in this number of blocks without transfers must have some by its header; by chance one in thousands has."""
_FIRST_ROWS: Final = """
FROM read_parquet($files)
QUALIFY row_number() OVER (PARTITION BY token_address ORDER BY block_number, log_index) <= $rows
"""


_NAME, _SYMBOL, _DECIMALS = "0x06fdde03", "0x95d89b41", "0x313ce567"
_QUESTIONS: Final = (_NAME, _SYMBOL, _DECIMALS)
_WORD_BYTES: Final = 32
_MAX_DECIMALS: Final = 255
_NAME_CHARACTERS: Final = 100
_DELEGATED: Final = "0xef0100"
"""First bytes, in hexadecimal, of the code of a wallet that delegates to a contract (EIP-7702). It counts as a
wallet."""


@dataclass(frozen=True)
class Selection:
    """Blocks and tokens to import.

    ``first_block`` and ``last_block`` are the first and the last block. If ``last_block`` is None, it is the newest
    final block. ``tokens`` are addresses, and may include ``native``; None means all tokens. If ``tokens`` is None,
    ``native`` adds the chain's coin. ``traced`` adds the values of inner calls, if the node has traces.
    ``balances_at`` are unix seconds at which the balances of the tokens are read from their contracts, too.
    """

    tokens: tuple[str, ...] | None = None
    native: bool = False
    traced: bool = True
    first_block: int = 0
    last_block: int | None = None
    balances_at: tuple[int, ...] = ()

    @property
    def contracts(self) -> list[str]:
        """The addresses of the named tokens, without ``native``; empty if all tokens are imported."""
        return [token for token in self.tokens or () if token != NATIVE]

    @property
    def named_tokens(self) -> list[str]:
        """The tokens that the user named, which become indexed. If all tokens are imported, only ``native`` can be
        among them."""
        return [*self.contracts, *([NATIVE] if self.has_native else [])]

    @property
    def has_native(self) -> bool:
        """True if the chain's coin is imported."""
        return self.native or NATIVE in (self.tokens or ())


@dataclass(frozen=True)
class ReadOptions:
    """Options of reading.

    - ``confirmations``: a block is final if at least this number of blocks follow it.
    - ``reorg_depth``: number of newest blocks whose hashes are all stored.
    - ``blocks``, ``most_blocks``: number of blocks in the first request, and the most in any request.
    - ``concurrency``: number of ranges of blocks that are read at the same time.
    - ``commit_rows``: number of rows after which the rows are stored.
    - ``top``: number of largest holders of each token that are tested for being contracts.
    - ``has_state``: the node can call contracts, so tokens are described, and contracts found among the holders.
    """

    confirmations: int = 12
    reorg_depth: int = 128
    blocks: int = 2_000
    most_blocks: int = 100_000
    concurrency: int = 4
    commit_rows: int = 200_000
    top: int = 500
    has_state: bool = True


@dataclass
class NodeReport:
    """Result of an import. Of the requested blocks, those from ``first_block`` to ``last_block`` were final.

    ``blocks`` is the number of blocks that were read. A block counts twice if events and values were read separately.
    ``logs`` counts events and transactions, ``passed_over`` events that are not transfers, and ``removed`` rows that
    reorganisations removed; ``undone_after`` is the last block before these. ``values_from`` is the source of the
    native coin's amounts. ``balances_read`` has the balances that were read at the instants of
    ``Selection.balances_at``. ``rejected`` has the errors of endpoints that were not used, ``notices``
    sentences about assumed decimals and about rows that may repeat rows of files.
    """

    chain: str
    first_block: int = 0
    last_block: int = -1
    blocks: int = 0
    logs: int = 0
    rows: int = 0
    added: int = 0
    duplicates: int = 0
    conflicts: int = 0
    passed_over: int = 0
    reorgs: int = 0
    removed: int = 0
    undone_after: int | None = None
    tokens_described: int = 0
    contracts_found: int = 0
    requests: int = 0
    seconds: float = 0.0
    values_from: str | None = None
    balances_read: list[BalancesRead] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def plain(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return asdict(self)


OnProgress = Callable[[NodeReport, int], None]
"""A function that gets the report so far and the number of blocks to read."""


async def chain_named(node: Node, chain: str | None) -> str:
    """Return ``chain``, or if it is None, the name of the chain with the node's chain id.

    Raises ``WrongChain`` for an unknown id.
    """
    if chain is not None:
        return chain
    evm_id = await node.evm_id()
    for known_chain in KNOWN_CHAINS.values():
        if known_chain.evm_id == evm_id:
            return known_chain.id
    raise WrongChain(f"the node's chain id {evm_id} is unknown; name the chain, for example --chain mychain")


class ChainImport:
    """One import of one chain. ``on_progress`` is called after each range of blocks that was read."""

    def __init__(
        self,
        store: Store,
        node: Node,
        chain: str,
        selection: Selection,
        options: ReadOptions | None = None,
        on_progress: OnProgress = lambda _report, _blocks: None,
    ) -> None:
        self._store = store
        self._node = node
        self._chain = chain
        self._selection = selection
        self._options = options or ReadOptions()
        self._on_progress = on_progress
        self._checkpoints = Checkpoints(store.root, chain)
        self._report = NodeReport(chain, first_block=selection.first_block)
        self._partly_indexed: Counter[str] = Counter()
        self._silent = self._hidden = 0
        self._began = time.monotonic()
        self._total = 0

    @property
    def report(self) -> NodeReport:
        """The report so far."""
        return self._report

    async def run(self) -> NodeReport:
        """Import the missing blocks and return the report. Raises ``RpcError``.

        Rows that were stored before an error remain stored.
        """
        with self._checkpoints, self._checkpoints.exclusive():
            await self._identify()
            self._store.index_tokens([(self._chain, token) for token in self._selection.named_tokens], IMPORT)
            await self._catch_up()
            await self._describe()
            await self._compare_supplies()
            await self._read_balances()
        self._report.requests = self._node.requests
        self._report.rejected = self._node.rejected
        self._report.seconds = time.monotonic() - self._began
        return self._report

    async def _identify(self) -> None:
        evm_id, stored_id = await self._node.evm_id(), self._checkpoints.evm_id()
        if stored_id not in (None, evm_id):
            raise WrongChain(
                f"chain {self._chain} was imported from chain id {stored_id}, but the node has chain id {evm_id}; "
                "use a node of the same chain, or name another chain with --chain"
            )
        self._checkpoints.keep_evm_id(evm_id)
        if not self._checkpoints.hashes(0, 0):
            self._checkpoints.keep_hashes({0: (await self._node.headers([0]))[0].hash})

    # ------------------------------------------------------------------ reading forward

    async def _catch_up(self) -> None:
        reorganisation: ChainMoved | None = None
        for _ in range(_TURNS):
            head = await self._node.head()
            await self._settle(head)
            final = head - self._options.confirmations
            last_block = final if self._selection.last_block is None else min(self._selection.last_block, final)
            try:
                await self._read_missing(last_block, head)
                if not await self._settle(await self._node.head()):
                    self._report.last_block = last_block
                    return
            except ChainMoved as error:
                reorganisation = error
        raise ChainMoved(
            f"the chain was reorganised {_TURNS} times while it was read; check the node, or use another one"
        ) from reorganisation

    async def _read_missing(self, last_block: int, head: int) -> None:
        recent_from = max(0, head - self._options.reorg_depth)
        tracer = (
            await self._tracer(last_block)
            if self._selection.has_native and last_block >= self._selection.first_block
            else RECEIPTS
        )
        events, values = self._missing_events(last_block), self._missing_values(tracer, last_block)
        self._total = self._report.blocks + sum(interval.size for interval in (*events, *values))
        for interval, scopes in events.items():
            tokens = None if ALL_TOKENS in scopes else scopes
            width = Width(self._options.blocks, self._options.most_blocks)
            await self._sweep(interval, scopes, EventReader(self._node, self._chain, tokens, recent_from, width))
        for interval, scopes in values.items():
            width = Width(1, max(1, (self._node.batch - 1) // 2))
            await self._sweep(interval, scopes, ValueReader(self._node, self._chain, tracer, width))
        self._checkpoints.thin_out(recent_from, SPARSE)

    def _missing_events(self, last_block: int) -> dict[Interval, list[str]]:
        every = self._checkpoints.covered(ALL_TOKENS)
        scopes = [ALL_TOKENS] if self._selection.tokens is None else self._selection.contracts
        covered = {scope: [*every, *self._checkpoints.covered(scope)] for scope in scopes}
        return missing_blocks(covered, self._selection.first_block, last_block)

    def _missing_values(self, tracer: Tracer, last_block: int) -> dict[Interval, list[str]]:
        if not self._selection.has_native:
            return {}
        scopes = {tracer.scope, "internal"}  # traces include the values of transactions
        covered = [interval for scope in scopes for interval in self._checkpoints.covered(scope)]
        return missing_blocks({tracer.scope: covered}, self._selection.first_block, last_block)

    async def _tracer(self, block: int) -> Tracer:
        tracer = (
            await tracer_of(self._node, [self._selection.first_block, block]) if self._selection.traced else RECEIPTS
        )
        self._report.values_from = tracer.name
        return tracer

    async def _sweep(self, interval: Interval, scopes: Sequence[str], reader: Reader) -> None:
        """Read the blocks of an interval, and store their rows.

        Rows are stored when there are ``ReadOptions.commit_rows`` of them, after some seconds, and at the end.
        """
        pending: list[Piece] = []
        began = time.monotonic()
        async with aclosing(in_order(reader, *interval, self._options.concurrency)) as pieces:
            async for batch in pieces:
                for piece in batch:
                    self._check_hashes(pending, piece)
                    pending.append(piece)
                    self._count(piece)
                is_full = sum(piece.rows.num_rows for piece in pending) >= self._options.commit_rows
                if is_full or time.monotonic() - began > _FLUSH_SECONDS:
                    await asyncio.to_thread(self._store_pieces, pending, scopes)
                    pending, began = [], time.monotonic()
        if pending:
            await asyncio.to_thread(self._store_pieces, pending, scopes)

    def _check_hashes(self, pending: Sequence[Piece], piece: Piece) -> None:
        """Raise ``ChainMoved`` if ``piece`` does not follow the previous one, or if its hashes differ from the stored
        hashes.

        Without this check, a new hash would replace the stored one. No one would notice that rows of another block are
        stored.
        """
        known_hashes = self._checkpoints.hashes(piece.first_block - 1, piece.last_block)
        known_hashes |= pending[-1].hashes if pending else {}  # pieces are consecutive
        piece_hashes = piece.hashes | ({piece.first_block - 1: piece.parent} if piece.parent else {})
        for block, block_hash in piece_hashes.items():
            if known_hashes.get(block, block_hash) != block_hash:
                raise ChainMoved(
                    f"block {block} has the hash {block_hash} instead of {known_hashes[block]}: it was reorganised; "
                    "the import reads it again"
                )

    def _count(self, piece: Piece) -> None:
        report = self._report
        report.blocks += piece.last_block - piece.first_block + 1
        report.logs += piece.logs
        report.passed_over += piece.passed_over
        self._partly_indexed += piece.partly_indexed
        self._silent += piece.silent
        self._hidden += piece.hidden
        report.rows += piece.rows.num_rows
        report.seconds = time.monotonic() - self._began
        self._on_progress(report, self._total)

    def _store_pieces(self, pieces: Sequence[Piece], scopes: Iterable[str]) -> None:
        self._checkpoints.keep_hashes({block: text for piece in pieces for block, text in piece.hashes.items()})
        rows = pa.concat_tables(piece.rows for piece in pieces)
        if rows.num_rows:
            outcome = self._store.add_transfers(rows, SOURCE)
            self._report.added += outcome.added
            self._report.duplicates += outcome.duplicates
            self._report.conflicts += outcome.conflicts
            self._report.notices += outcome.undecided
        self._checkpoints.cover(scopes, pieces[0].first_block, pieces[-1].last_block)

    async def _read_balances(self) -> None:
        if self._selection.balances_at:
            self._report.balances_read = await read_balances(
                self._store,
                self._node,
                self._chain,
                self._selection.contracts,
                self._selection.balances_at,
                self._report.last_block,
            )

    async def _compare_supplies(self) -> None:
        """Add a notice if headers show events that the node has discarded, and for each named token whose events are
        not proven complete by the supply of its contract.

        A node that has discarded old logs answers with an empty list for their blocks.
        """
        report, block = self._report, self._report.last_block
        if self._hidden >= _FEWEST_HIDDEN and self._hidden * _PART_HIDDEN >= self._silent:
            report.notices.append(
                f"{self._hidden:,} examined blocks without transfers have Transfer events by their headers: the node "
                "has discarded events, so transfers are missing. Use another node, for example an archive node, "
                "with another --chain or engine.store"
            )
        if not (report.blocks and self._options.has_state):
            return
        for token in self._tokens_in_store() if self._selection.tokens is not None else ():
            covered = self._checkpoints.covered(token.address)
            if token.standard in ("native", "erc1155") or any(interval.last_block > block for interval in covered):
                continue
            try:
                (supply,) = await Contract(self._store, self._node, self._chain, token.address).state([None], block)
            except FAILURES:
                supply = None
            stored = largest_balances(self._store, self._chain, token.address, utc_now(), 1).supply
            if supply is None and token.standard == "erc20":
                report.notices.append(
                    f"Nothing proves that all events of {token.address} were read, because the node gives no supply at "
                    f"block {block:,}"
                )
            elif supply not in (None, stored):
                report.notices.append(
                    f"The supply of {token.address} at block {block:,} is {supply:,}, but that of the stored transfers "
                    f"is {stored:,}: transfers are missing, for example those before --from-block or of blocks whose "
                    "events the node has discarded, or the token changes balances without transfers. 'holderlake "
                    "import verify --against URL' compares with another node, and --repair reads again"
                )

    # ------------------------------------------------------------------ reorganisations

    async def _settle(self, head: int) -> bool:
        """Roll the store back to the newest block, up to ``head``, that is in the store and in the node's chain.

        Return True if rows were removed. Raises ``Diverged`` if there is no such block.
        """
        stored_hashes = self._checkpoints.hashes(0, head)
        newest = max(stored_hashes, default=None)
        newest_first = sorted(stored_hashes, reverse=True)
        for blocks in filter(None, [newest_first[:1], *parts(newest_first[1:], self._node.batch)]):
            headers = await self._node.headers(blocks)
            shared = next((block for block in blocks if headers[block].hash == stored_hashes[block]), None)
            if shared is not None:
                return shared != newest and self._roll_back(shared)
        if stored_hashes:
            raise Diverged(
                f"the node shares no block with the imported chain {self._chain}; it is another network, or was "
                "reset. Use a node of the imported network, or another --chain or engine.store"
            )
        return False

    def _roll_back(self, block: int) -> bool:
        record_undone(self._store, self._chain, block, utc_now())
        self._report.removed += self._store.roll_back(self._chain, block)
        self._report.reorgs += 1
        earlier = self._report.undone_after
        self._report.undone_after = block if earlier is None else min(block, earlier)
        self._checkpoints.roll_back(block)
        return True

    # ------------------------------------------------------------------ metadata of contracts

    async def _describe(self) -> None:
        """Ask contracts for the metadata of tokens: once, and for decimals until a contract reports them."""
        tokens = self._tokens_in_store()
        token_contracts = [token for token in tokens if token.address != NATIVE] if self._options.has_state else []
        new_addresses = set(self._checkpoints.not_asked("token", (token.address for token in token_contracts)))
        nameless = [
            token for token in token_contracts if token.address in new_addresses and token.name == token.address
        ]
        due = list(dict.fromkeys([*nameless, *(token for token in token_contracts if token.has_assumed_decimals)]))
        answers = await described(self._node, due)
        self._store.add_tokens(  # others stay indexed
            replace(token, is_indexed=False)
            for earlier, token in zip(due, answers, strict=True)
            if (token, token.is_assumed) != (earlier, earlier.is_assumed)
        )
        self._checkpoints.keep_asked("token", new_addresses)
        notice = assumed_decimals(self._tokens_in_store())
        self._report.notices += [*([notice] if notice else []), *partly_indexed(self._partly_indexed)]
        if self._report.added:
            self._report.notices += self._odd_values(tokens if self._selection.tokens is not None else nameless)
        self._report.tokens_described = sum(token.name != token.address for token in answers[: len(nameless)])
        if self._selection.tokens is not None and self._options.has_state:
            await self._find_contracts(tokens)

    def _odd_values(self, tokens: Sequence[TokenInfo]) -> list[str]:
        """Return notices about tokens whose first stored values are probably not amounts, such as numbers of items."""
        notices: list[str] = []
        for group in parts([token.address for token in tokens if token.standard == "erc20"], _TOKENS_A_QUERY):
            files = self._store.files((self._chain, address) for address in group)
            notices += notices_of(self._store.query(_FIRST_ROWS, {"files": files, "rows": _ROWS_OF_TOKEN}))
        return notices

    def _tokens_in_store(self) -> list[TokenInfo]:
        wished = (
            None if self._selection.tokens is None else {*self._selection.tokens, *([NATIVE] * self._selection.native)}
        )
        keys = [
            (history.chain, history.token_address)
            for history in self._store.histories()
            if history.chain == self._chain and (wished is None or history.token_address in wished)
        ]
        return list(self._store.tokens(keys).values())

    async def _find_contracts(self, tokens: Sequence[TokenInfo]) -> None:
        now = utc_now()
        holders = [
            address
            for token in tokens
            for address, _ in largest_balances(self._store, self._chain, token.address, now, self._options.top).holders
            if address != ZERO_ADDRESS
        ]
        new_addresses = self._checkpoints.not_asked("code", holders)
        labels = await contracts(self._node, self._chain, new_addresses)
        if labels:
            self._store.add_labels(labels)
        self._checkpoints.keep_asked("code", new_addresses)
        self._report.contracts_found = len(labels)


async def described(node: Node, tokens: Sequence[TokenInfo]) -> list[TokenInfo]:
    """Return the tokens with the name, symbol and decimals that their contracts report.

    Values that a contract does not report stay unchanged. Raises ``RpcError``.
    """
    calls = [eth_call(token.address, question) for token in tokens for question in _QUESTIONS]
    answers = await _all(node, calls)
    return [
        _described(token, *token_answers)
        for token, token_answers in zip(tokens, parts(answers, len(_QUESTIONS)), strict=True)
    ]


async def contracts(node: Node, chain: str, addresses: Iterable[str]) -> list[Label]:
    """Return a label for each of the addresses that is a contract at the newest block. Raises ``RpcError``."""
    address_list = list(addresses)
    answers = await _all(node, [code(address) for address in address_list])
    return [
        Label(address, chain, SOURCE, is_contract=True)
        for address, contract_code in zip(address_list, answers, strict=True)
        if contract_code and contract_code != "0x" and not contract_code.startswith(_DELEGATED)
    ]


async def _all(node: Node, calls: Sequence[Call]) -> list[str | None]:
    answers: list[str | None] = []
    for part in parts(calls, node.batch):
        answers += await node.ask(part, list)
    return answers


def _described(token: TokenInfo, name: str | None, symbol: str | None, decimals: str | None) -> TokenInfo:
    own_name, own_symbol = text_of(name), text_of(symbol)
    places = decimals_of(decimals) if token.standard == "erc20" else 0
    return replace(
        token,
        name=own_name or own_symbol or token.name,
        symbol=own_symbol or own_name or token.symbol,
        decimals=token.decimals if places is None else places,
        is_assumed=token.is_assumed and places is None,
    )


def text_of(answer: str | None) -> str | None:
    """Return the text in a contract's answer to a call; None if it is invalid. The answer is a string, or 32 bytes in
    early tokens."""
    raw = _bytes(answer)
    if len(raw) == _WORD_BYTES:
        return _clean(raw.rstrip(b"\0"))
    if len(raw) < 2 * _WORD_BYTES:
        return None
    start = int.from_bytes(raw[:_WORD_BYTES], "big")
    if start + _WORD_BYTES > len(raw):
        return None
    length = int.from_bytes(raw[start : start + _WORD_BYTES], "big")
    return _clean(raw[start + _WORD_BYTES : start + _WORD_BYTES + length])


def decimals_of(answer: str | None) -> int | None:
    """Return the decimals in a contract's answer; None if the answer is invalid."""
    raw = _bytes(answer)
    places = int.from_bytes(raw[:_WORD_BYTES], "big") if len(raw) >= _WORD_BYTES else None
    return places if places is not None and places <= _MAX_DECIMALS else None


def _bytes(answer: str | None) -> bytes:
    try:
        return bytes.fromhex((answer or "").removeprefix("0x"))
    except ValueError:
        return b""


def _clean(raw: bytes) -> str | None:
    """Return bytes as printable text in one line of limited length; None if nothing printable remains."""
    text = raw.decode("utf-8", "ignore")
    words = "".join(letter if letter.isprintable() else " " for letter in text).split()
    return " ".join(words)[:_NAME_CHARACTERS].strip() or None
