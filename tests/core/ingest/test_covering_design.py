"""Covering blocks: every pair of a large address set is asked for, at little more than the least cost."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holderlake.core.contract.requests import SubgraphRequest
from holderlake.core.ingest.covering import blocks_cost, covering_blocks


def _addresses(count: int) -> list[str]:
    return [f"0x{number:040x}" for number in range(count)]


@given(st.integers(2, 120), st.integers(4, 12))
def test_each_pair_is_in_a_block_of_the_allowed_size(count: int, most: int) -> None:
    blocks = covering_blocks(_addresses(count), most)
    assert all(2 <= len(block) <= most for block in blocks)
    covered = {pair for block in blocks for pair in combinations(sorted(block), 2)}
    assert covered == set(combinations(sorted(_addresses(count)), 2))


@pytest.mark.parametrize(("count", "blocks"), [(1_000, 1), (1_500, 3), (1_650, 4), (2_331, 7), (3_250, 13)])
def test_the_number_of_blocks_is_the_best_known(count: int, blocks: int) -> None:
    assert len(covering_blocks(_addresses(count))) == blocks


@pytest.mark.parametrize("count", [1_001, 1_500, 2_000, 3_000, 5_000])
def test_the_cost_is_near_the_lower_bound(count: int) -> None:
    # An address meets at most 999 others in a block, and each of its blocks is paid for with it.
    least = 100 * count * -(-(count - 1) // 999)
    assert blocks_cost(covering_blocks(_addresses(count))) <= 1.6 * least


def test_blocks_cost_as_much_as_their_requests() -> None:
    blocks = covering_blocks(_addresses(1_200))
    assert blocks_cost(blocks) == sum(SubgraphRequest(addresses=tuple(block)).cost for block in blocks)


def test_a_repeated_address_is_paid_once() -> None:
    assert covering_blocks(["0xa", "0xb", "0xa"]) == [["0xa", "0xb"]]
