"""Check stored transfers of tokens against a node: events, missing blocks, supplies and balances.

The events of each range of blocks are read again and compared with the stored rows. ``totalSupply`` and ``balanceOf``
are asked at the last checked block. If the events are equal but balances are not, the token changes balances without
transfers, as rebasing tokens and tokens with a fee do; that is no fault of the import.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final

from holderlake.contract.times import from_unix, to_unix
from holderlake.engine.errors import BadSource
from holderlake.engine.queries.balances import balances_as_of
from holderlake.engine.sources.rpc.client.errors import InvalidAnswer, Refused, Unavailable
from holderlake.engine.sources.rpc.client.messages import eth_call, number
from holderlake.engine.sources.rpc.client.node import Node
from holderlake.engine.sources.rpc.importing.checkpoints import Checkpoints
from holderlake.engine.sources.rpc.importing.intervals import Interval, gaps, merged
from holderlake.engine.sources.rpc.importing.reading import EventReader, Piece, in_order
from holderlake.engine.sources.rpc.importing.run import ALL_TOKENS, ReadOptions
from holderlake.engine.sources.rpc.importing.width import Width
from holderlake.engine.store.store import Store

_TOTAL_SUPPLY, _BALANCE_OF = "0x18160ddd", "0x70a08231"
_SAMPLE: Final = 20
_DIFFERENCES: Final = """
WITH stored AS (
    SELECT token_address, block_number, log_index, from_address, to_address, value, token_id
    FROM read_parquet($files)
    WHERE chain = $chain AND token_address IN (SELECT unnest($tokens)) AND block_number BETWEEN $first AND $last
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
GROUP BY token_address
ORDER BY token_address
"""
_OTHERS: Final = """
SELECT count(*) AS rows
FROM read_parquet($files)
WHERE chain = $chain AND block_number >= $block AND source <> 'rpc'
"""


@dataclass(frozen=True)
class Scope:
    """The blocks to check: from ``first`` to ``last``, which is by default the newest imported one.

    With ``sample``, only the events of so many ranges of ``ReadOptions.blocks`` blocks, chosen at random, are compared.
    """

    first: int = 0
    last: int | None = None
    sample: int | None = None


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
class Drift:
    """A token whose events are complete, but whose supply or sampled balances at ``block`` differ from its contract's.

    ``supply`` and ``contract_supply`` are raw integers (the latter null if the contract has no such function).
    ``balances`` is the number of ``sampled`` holders that differ.
    """

    token: str
    block: int
    supply: int
    contract_supply: int | None
    balances: int
    sampled: int


@dataclass
class Verified:
    """Result of a check of the blocks from ``first`` to ``last``, of which ``blocks`` were compared.

    ``as_of`` is the time (UTC) of the last block, ``source`` the hosts of the nodes. ``unread`` are blocks between them
    that were never imported. ``equal`` are tokens whose supply and balances are those of their contracts. ``unasked``
    are tokens whose contract did not answer at the last block, because the node keeps no state of the past or the token
    has no such function.
    """

    chain: str
    tokens: list[str]
    source: str
    first: int = 0
    last: int = -1
    as_of: datetime | None = None
    blocks: int = 0
    events: int = 0
    unread: list[Interval] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    drifts: list[Drift] = field(default_factory=list)
    equal: list[str] = field(default_factory=list)
    unasked: list[str] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """True if no block is missing and no row differs."""
        return not (self.unread or self.differences)

    def plain(self) -> dict[str, Any]:
        """Return the result as plain data."""
        unread = [own._asdict() for own in self.unread]
        as_of = None if self.as_of is None else to_unix(self.as_of)
        return asdict(self) | {"unread": unread, "as_of": as_of, "is_complete": self.is_complete}


async def verify(
    store: Store,
    node: Node,
    chain: str,
    tokens: Sequence[str],
    options: ReadOptions,
    scope: Scope,
    on_blocks: Callable[[int, int], None] = lambda done, wished: None,
) -> Verified:
    """Compare the stored transfers of tokens (addresses) with the node's.

    ``on_blocks`` is called with the number of checked blocks and of all. Raises ``RpcError``.
    """
    found = Verified(chain, sorted(tokens), ", ".join(node.hosts))
    with Checkpoints(store.root, chain) as checkpoints:
        every = checkpoints.covered(ALL_TOKENS)
        covered = {token: merged([*every, *checkpoints.covered(token)]) for token in tokens}
    known = [interval for own in covered.values() for interval in own if interval.last >= scope.first]
    if not known:
        return found
    found.first = max(scope.first, min(interval.first for interval in known))
    found.last = max(interval.last for interval in known) if scope.last is None else scope.last
    found.unread = merged(gap for own in covered.values() for gap in gaps(own, found.first, found.last))
    width = Width(options.blocks, options.most_blocks)
    reader = EventReader(node, chain, sorted(tokens), found.last + 1, width)
    ranges = _ranges(found.first, found.last, options.blocks, scope.sample)
    wished = sum(own.last - own.first + 1 for own in ranges)
    for own in ranges:
        async with aclosing(in_order(reader, own.first, own.last, options.concurrency)) as pieces:
            async for some in pieces:
                for piece in some:
                    _compare(store, found, piece)
                    on_blocks(found.blocks, wished)
    await _ask_contracts(store, node, found)
    return found


def _ranges(first: int, last: int, blocks: int, sample: int | None) -> list[Interval]:
    """Return the blocks to compare: all, or ``sample`` ranges chosen at random, without those that overlap."""
    whole = (last - first) // blocks + 1
    if sample is None or sample >= whole:
        return [Interval(first, last)]
    chosen = random.sample(range(whole), sample)
    return [Interval(first + blocks * one, min(last, first + blocks * (one + 1) - 1)) for one in sorted(chosen)]


def _compare(store: Store, found: Verified, piece: Piece) -> None:
    """Add the differences between the events of some blocks and the stored rows to ``found``."""
    parameters = {"chain": found.chain, "tokens": found.tokens, "first": piece.first, "last": piece.last}
    rows = store.query(_DIFFERENCES, parameters, {"asked": piece.rows})
    found.differences += [Difference(*row.values()) for row in rows.to_pylist()]
    found.blocks += piece.last - piece.first + 1
    found.events += piece.rows.num_rows


def undo_from(store: Store, chain: str, block: int) -> None:
    """Remove the chain's rows from a block on, so that the next import reads them again.

    Raises ``BadSource`` if rows from there on come from files, because no node would bring them back.
    """
    parameters = {"chain": chain, "block": block}
    (others,) = store.query(_OTHERS, parameters)["rows"].to_pylist()
    if others:
        raise BadSource(
            f"{others:,} rows of chain {chain} from block {block:,} on were imported from files and would be lost; "
            "import the chain into another engine.store instead"
        )
    with Checkpoints(store.root, chain) as checkpoints, checkpoints.exclusive():
        store.roll_back(chain, block - 1)
        checkpoints.roll_back(block - 1)


async def _ask_contracts(store: Store, node: Node, found: Verified) -> None:
    """Compare supplies and sampled balances of tokens whose events are complete with those of their contracts."""
    header = (await node.headers([found.last]))[found.last]
    found.as_of = as_of = from_unix(number(header.timestamp))
    chance = random.Random(found.last)  # noqa: S311 - a sample, the same each time
    different = {one.token for one in found.differences}
    for token in found.tokens:
        if token in different or found.unread:
            continue
        ours = balances_as_of(store, found.chain, token, as_of)
        sample = chance.sample(ours.holders, min(_SAMPLE, len(ours.holders)))
        questions = [_TOTAL_SUPPLY, *(f"{_BALANCE_OF}{address.removeprefix('0x'):0>64}" for address, _ in sample)]
        try:
            said = await node.ask([eth_call(token, question, found.last) for question in questions], list)
            supply, *balances = [None if answer in (None, "0x") else int(answer, 16) for answer in said]
        except (Refused, Unavailable, InvalidAnswer, ValueError):
            found.unasked.append(token)
            continue
        if None in balances:
            found.unasked.append(token)
            continue
        wrong = sum(own != answer for (_, own), answer in zip(sample, balances, strict=True))
        if wrong or supply not in (None, ours.supply):
            found.drifts.append(Drift(token, found.last, ours.supply, supply, wrong, len(sample)))
        else:
            found.equal.append(token)
