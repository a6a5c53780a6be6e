"""Check stored transfers of tokens against a node: events, missing blocks, supplies and balances.

The events of each range of blocks are read again and compared with the stored rows. ``totalSupply`` and ``balanceOf``
are asked at the last checked block. If the events are equal but balances are not, ``causes`` finds the reason.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from holderlake.core.contract.chains import NATIVE
from holderlake.core.contract.times import from_unix, to_unix
from holderlake.engine.errors import BadSource
from holderlake.engine.files.listing import OPENING
from holderlake.engine.queries.balances import balances_as_of
from holderlake.engine.store.store import Store
from holderlake.sources.rpc.causes import Drift, compared
from holderlake.sources.rpc.checkpoints import ALL_TOKENS, Checkpoints, Interval, gaps, merge_intervals
from holderlake.sources.rpc.messages import number
from holderlake.sources.rpc.node import Node
from holderlake.sources.rpc.reading import EventReader, Piece, Width, in_order
from holderlake.sources.rpc.run import ChainImport, ReadOptions, Selection

_INTERNAL: Final = "internal"
_DIFFERENCES: Final = """
WITH stored AS (
    SELECT token_address, block_number, log_index, from_address, to_address, value, token_id
    FROM read_parquet($files)
    WHERE chain = $chain AND block_number BETWEEN $first AND $last
),
fetched AS (
    SELECT token_address, block_number, log_index, from_address, to_address, value, token_id FROM asked
)
SELECT token_address, min(block_number), max(block_number), sum(missing)::BIGINT, sum(extra)::BIGINT
FROM (
    SELECT *, 1 AS missing, 0 AS extra FROM (FROM fetched EXCEPT ALL FROM stored)
    UNION ALL
    SELECT *, 0, 1 FROM (FROM stored EXCEPT ALL FROM fetched)
)
WHERE (token_address IN (SELECT unnest($tokens))) = $are_chosen
GROUP BY token_address
ORDER BY token_address
"""
_ROWS_OF_FILES: Final = """
SELECT count(*) AS rows
FROM read_parquet($files)
WHERE chain = $chain AND block_number >= $block AND source <> 'rpc'
"""
_NEWEST: Final = """
SELECT max(block_number) AS block FROM read_parquet($files) WHERE block_time = $second
"""


@dataclass(frozen=True)
class Difference:
    """Blocks from ``first`` to ``last`` of a token, whose stored rows differ from the node's.

    ``missing`` rows are not stored, ``extra`` rows are not on the chain; a changed row counts as both.
    """

    token: str
    first: int
    last: int
    missing: int
    extra: int


@dataclass(frozen=True)
class BlockGap:
    """Blocks from ``first`` to ``last`` that were never imported.

    ``token`` is the token, or ``*`` for all of them.
    """

    token: str
    first: int
    last: int


@dataclass
class NodeCheck:
    """Result of a check of the blocks from ``first`` to ``last``, of which ``blocks`` were compared.

    ``as_of`` is the time (UTC) of the last block, ``source`` the hosts of the nodes. ``unread`` are blocks between the
    first and the last one that the store lacks. ``equal`` are tokens whose supply and balances are those of their
    contracts. ``sampled`` is the number of compared balances. ``unasked`` are tokens whose contract has no function
    for supply and balances, ``without_state`` those for which the node keeps no state of the last block.
    """

    chain: str
    tokens: list[str]
    source: str
    first: int = 0
    last: int = -1
    as_of: datetime | None = None
    blocks: int = 0
    events: int = 0
    unread: list[BlockGap] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    drifts: list[Drift] = field(default_factory=list)
    sampled: int = 0
    equal: list[str] = field(default_factory=list)
    unasked: list[str] = field(default_factory=list)
    without_state: list[str] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """True if no block is missing and no row differs."""
        return not (self.unread or self.differences)

    @property
    def is_equal(self) -> bool:
        """True if the data are complete, and no supply or balance differs from that of its contract."""
        return self.is_complete and not self.drifts

    def plain(self) -> dict[str, Any]:
        """Return the result as plain data."""
        as_of = None if self.as_of is None else to_unix(self.as_of)
        return asdict(self) | {"as_of": as_of, "is_complete": self.is_complete, "is_equal": self.is_equal}


async def verify(
    store: Store,
    node: Node,
    chain: str,
    selection: Selection,
    options: ReadOptions,
    sample: int | None = None,
    on_blocks: Callable[[int, int], None] = lambda done, wished: None,
    against: Node | None = None,
) -> list[NodeCheck]:
    """Compare the stored transfers of tokens with the node's: from the first block of ``selection``, or the first
    imported one if it is later, to its last block, by default the newest imported one.

    With ``sample``, only the events of this number of random ranges of ``ReadOptions.blocks`` blocks are compared.
    Tokens with the same first and last imported block are one check. ``on_blocks`` is called with the number of checked
    blocks and of all. ``against`` is a second node: its events are compared instead of those of ``node``. Raises
    ``RpcError``, and ``BadSource`` if no block of a token, or of all, can be compared.
    """
    tokens = None if selection.tokens is None else selection.contracts
    with Checkpoints(store.root, chain) as checkpoints:
        every = _ends(_imported(checkpoints, [ALL_TOKENS]), selection) if tokens is None else None
        checks = _checks(store, checkpoints, chain, tokens, selection, every)
    head, last_block = await node.head(), max(check.last for check in checks)
    if last_block > head:
        raise BadSource(
            f"the node's newest block is {head:,}, so block {last_block:,} can't be compared; name an earlier one"
        )
    ranges = [_ranges(check.first, check.last, options.blocks, sample) for check in checks]
    wished, done = sum(interval.size for intervals in ranges for interval in intervals), 0
    for check, intervals in zip(checks, ranges, strict=True):
        check.source = ", ".join((against or node).hosts)
        other_tokens = None
        if (check.first, check.last) == every:  # also tokens of which the store has no row
            other_tokens = [
                NATIVE,
                *(token for other_check in checks if other_check is not check for token in other_check.tokens),
            ]
        reads = None if other_tokens is not None else sorted(check.tokens)
        reader = EventReader(against or node, chain, reads, check.last + 1, Width(options.blocks, options.most_blocks))
        for interval in intervals:
            async with aclosing(in_order(reader, *interval, options.concurrency)) as pieces:
                async for read in pieces:
                    for piece in read:
                        _compare(store, check, piece, other_tokens)
                        on_blocks(done + check.blocks, wished)
        done += check.blocks
        check.tokens = sorted({*check.tokens, *(difference.token for difference in check.differences)})
        await _ask_contracts(store, node, check)
    return checks


def _checks(
    store: Store,
    checkpoints: Checkpoints,
    chain: str,
    tokens: Sequence[str] | None,
    selection: Selection,
    every: tuple[int, int] | None,
) -> list[NodeCheck]:
    """Return the checks to make, without results but for the blocks that the store lacks.

    ``every`` is the first and the last block of an import of all tokens.
    """
    chosen_tokens = tokens
    if chosen_tokens is None:
        chosen_tokens = [history.token_address for history in store.histories() if history.chain == chain]
    groups: dict[tuple[int, int], list[str]] = defaultdict(list, {every: []} if every else {})
    lacking = []
    for token in chosen_tokens:
        if token == NATIVE:
            continue
        if ends := _ends(_imported(checkpoints, [ALL_TOKENS, token]), selection):
            groups[ends].append(token)
        else:
            lacking.append(token)
    if not groups or (lacking and tokens is not None):
        subject = ", ".join(lacking) if lacking and tokens is not None else "the chosen tokens"
        raise BadSource(
            f"no block of {subject} in this range was imported from a node of chain {chain}, so nothing can be "
            "compared; 'holderlake import node' imports blocks. The chain's coin has no events to compare"
        )
    checks = []
    for (first_block, last_block), group in sorted(groups.items()):
        scopes = [ALL_TOKENS] if (first_block, last_block) == every else group
        read = {token: [*checkpoints.covered(ALL_TOKENS), *checkpoints.covered(token)] for token in scopes}
        unread = [
            BlockGap(token, *gap) for token, covered in read.items() for gap in gaps(covered, first_block, last_block)
        ]
        checks.append(NodeCheck(chain, sorted(group), "", first_block, last_block, unread=unread))
    return checks


def _imported(checkpoints: Checkpoints, scopes: Sequence[str]) -> list[Interval]:
    """Return the blocks that were read for one of the scopes."""
    return merge_intervals(interval for scope in scopes for interval in checkpoints.covered(scope))


def _ends(imported: Sequence[Interval], selection: Selection) -> tuple[int, int] | None:
    """Return the first and the last block to compare; None if there is none."""
    if not imported:
        return None
    first_block = max(selection.first_block, imported[0].first_block)
    last_block = imported[-1].last_block if selection.last_block is None else selection.last_block
    return (first_block, last_block) if first_block <= last_block else None


def _ranges(first_block: int, last_block: int, blocks: int, sample: int | None) -> list[Interval]:
    """Return the blocks to compare: all, or ``sample`` ranges chosen at random, without those that overlap."""
    range_count = (last_block - first_block) // blocks + 1
    if sample is None or sample >= range_count:
        return [Interval(first_block, last_block)]
    places = random.sample(range(range_count), sample)
    return [
        Interval(first_block + blocks * place, min(last_block, first_block + blocks * (place + 1) - 1))
        for place in sorted(places)
    ]


def _compare(store: Store, check: NodeCheck, piece: Piece, other_tokens: Sequence[str] | None) -> None:
    """Add the differences between the events of some blocks and the stored rows to ``check``.

    They are those of the check's tokens; with ``other_tokens``, of all tokens but these.
    """
    parameters = {
        "chain": check.chain,
        "tokens": check.tokens if other_tokens is None else other_tokens,
        "are_chosen": other_tokens is None,
        "first": piece.first_block,
        "last": piece.last_block,
    }
    if other_tokens is None:
        parameters["files"] = store.files((check.chain, token) for token in check.tokens)
    rows = store.query(_DIFFERENCES, parameters, {"asked": piece.rows})
    check.differences += [Difference(*row.values()) for row in rows.to_pylist()]
    check.blocks += piece.last_block - piece.first_block + 1
    check.events += piece.rows.num_rows


async def repair(store: Store, node: Node, chain: str, checks: Sequence[NodeCheck], options: ReadOptions) -> None:
    """Read again all blocks from the first that differs on, and those that the store lacks.

    The store removes whole blocks only, so the rows of all tokens are removed from there on, and read again up to where
    they ended. After an interruption, importing the tokens again reads what is missing. Raises ``RpcError``, and
    ``BadSource`` if data from files would be lost; then nothing was removed.
    """
    final = replace(options, confirmations=0)

    async def read(selection: Selection) -> None:
        await ChainImport(store, node, chain, selection, final).run()

    await read(Selection(tokens=(), last_block=-1))  # it refuses a node of another network before anything is removed
    wrong = [difference.first for check in checks for difference in check.differences]
    if wrong:
        for selection in _selections(_removed_from(store, chain, min(wrong))):
            await read(selection)
    lacking: dict[Interval, list[str]] = defaultdict(list)
    for gap in (gap for check in checks for gap in check.unread):
        lacking[Interval(gap.first, gap.last)].append(gap.token)
    for (first_block, last_block), tokens in sorted(lacking.items()):
        await read(
            Selection(None if ALL_TOKENS in tokens else tuple(tokens), first_block=first_block, last_block=last_block)
        )


def _removed_from(store: Store, chain: str, block: int) -> dict[Interval, set[str]]:
    """Remove the chain's rows from a block on. Return the blocks that had been read, with their scopes.

    Raises ``BadSource`` if rows or opening balances from there on come from files: no node would bring them back.
    """
    parameters = {"chain": chain, "block": block}
    (lost_rows,) = store.query(_ROWS_OF_FILES, parameters)["rows"].to_pylist()
    listing = store.view().listing
    keys = [(history.chain, history.token_address) for history in store.histories() if history.chain == chain]
    lost_rows += sum(
        part.kind == OPENING and part.last_block >= block for key in keys for part in listing.parts_of(key)
    )
    if lost_rows:
        raise BadSource(
            f"{lost_rows:,} of chain {chain}'s rows or opening balances from block {block:,} on came from files "
            "and would be lost; import the chain into another engine.store instead"
        )
    with Checkpoints(store.root, chain) as checkpoints, checkpoints.exclusive():
        removed = checkpoints.covered_from(block)
        checkpoints.roll_back(block - 1)
        store.roll_back(chain, block - 1)
    return removed


def _selections(scopes: Mapping[Interval, set[str]]) -> list[Selection]:
    """Return what to import, so that the blocks of all scopes are read."""
    selections = []
    for (first_block, last_block), interval_scopes in sorted(scopes.items()):
        if ALL_TOKENS in interval_scopes:
            selections.append(Selection(first_block=first_block, last_block=last_block))
        if tokens := interval_scopes - {ALL_TOKENS, NATIVE, _INTERNAL}:
            selections.append(Selection(tuple(sorted(tokens)), first_block=first_block, last_block=last_block))
        if interval_scopes & {NATIVE, _INTERNAL}:
            selections.append(
                Selection(
                    (NATIVE,), traced=_INTERNAL in interval_scopes, first_block=first_block, last_block=last_block
                )
            )
    return selections


async def _ask_contracts(store: Store, node: Node, check: NodeCheck) -> None:
    """Compare supplies and sampled balances of tokens whose events are complete with those of their contracts."""
    header = (await node.headers([check.last]))[check.last]
    check.as_of = as_of = from_unix(number(header.timestamp))
    different = {difference.token for difference in check.differences}
    lacking = {gap.token for gap in check.unread}
    for token in check.tokens:
        if token in different or lacking & {token, ALL_TOKENS}:
            continue
        ours = balances_as_of(store, check.chain, token, as_of)
        files = store.files([(check.chain, token)])
        (newest,) = store.query(_NEWEST, {"second": to_unix(as_of), "files": files})["block"].to_pylist()
        block = max(check.last, newest or 0)  # balances are those after all blocks of the same second
        result = await compared(store, node, check.chain, token, check.first, block, ours)
        if result is None:
            check.unasked.append(token)
            continue
        if not result.has_state:
            check.without_state.append(token)
            continue
        check.sampled += result.sampled
        if result.drift is None:
            check.equal.append(token)
            continue
        check.drifts.append(result.drift)
        omitted = result.drift.omitted.items()
        check.differences += [Difference(token, place, place, count, 0) for place, count in omitted]
