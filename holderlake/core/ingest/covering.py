"""Blocks of addresses in which every pair of an address set is together, for requests about large sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product

from holderlake.core.contract.prices import SUBGRAPH_ADDRESS, SUBGRAPH_BASE
from holderlake.core.contract.requests import MAX_SUBGRAPH_ADDRESSES

Design = list[tuple[int, ...]]
"""Blocks as tuples of group numbers. Every pair of groups is in at least one block."""

_FIVE_IN_FOUR: Design = [(0, 1, 2), (0, 3, 4), (1, 2, 3), (1, 2, 4)]


def covering_blocks(addresses: Sequence[str], block_size: int = MAX_SUBGRAPH_ADDRESSES) -> list[list[str]]:
    """Return lists of at most ``block_size`` addresses. Every pair of distinct addresses is in at least one list."""
    distinct = list(dict.fromkeys(addresses))
    if len(distinct) <= block_size:
        return [distinct]
    options = [_deal(distinct, design) for design in _designs(len(distinct), block_size)]
    fitting = [blocks for blocks in options if all(len(block) <= block_size for block in blocks)]
    return [block for block in min(fitting, key=blocks_cost) if len(block) > 1]


def blocks_cost(blocks: Sequence[Sequence[str]]) -> int:
    """Return the total cost of one request per block, in hundredths of a credit."""
    return sum(SUBGRAPH_BASE + SUBGRAPH_ADDRESS * len(block) for block in blocks)


def _designs(count: int, block_size: int) -> Iterator[Design]:
    """Yield the designs to compare, for ``count`` addresses and at most ``block_size`` addresses in a block.

    A design is a list of blocks, and a block a tuple of group numbers (from 0).
    Of the projective planes only the smallest that fits is yielded: a larger one puts each address in more blocks.
    """
    groups = max(3, -(-count // (block_size // 2)))
    yield list(combinations(range(groups), 2))
    yield list(combinations(range(groups + 1), 2))
    yield _FIVE_IN_FOUR
    for order in (2, 3, 5, 7, 11, 13, 17, 19, 23):
        points = order * order + order + 1
        if -(-count // points) * (order + 1) <= block_size:
            yield _projective_plane(order)
            return


def _projective_plane(order: int) -> Design:
    """Return the lines of the projective plane of a prime order. A line is a tuple of point numbers (from 0).

    Any two points are together in exactly one line.
    """
    points = [(1, y, z) for y, z in product(range(order), repeat=2)]
    points += [(0, 1, z) for z in range(order)] + [(0, 0, 1)]
    return [
        tuple(
            number
            for number, point in enumerate(points)
            if sum(a * b for a, b in zip(line, point, strict=True)) % order == 0
        )
        for line in points
    ]


def _deal(addresses: Sequence[str], design: Design) -> list[list[str]]:
    groups = 1 + max(number for block in design for number in block)
    dealt = [list(addresses[number::groups]) for number in range(groups)]
    return [[address for number in block for address in dealt[number]] for block in design]
