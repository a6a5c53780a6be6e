"""Pages of holders: together they are the complete list, exact, with each holder once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holderlake.core.contract.times import from_unix
from holderlake.engine.errors import NoHolders, UnknownToken, UnsupportedToken
from holderlake.engine.queries.holders import HOLDERS_PAGE, HolderPosition, holders_as_of, holders_page
from holderlake.engine.store.store import Store
from tests.engine.oracle import Oracle
from tests.engine.world import COIN, END, UINT256, Key, Row, a_token, cex, histories, settled, transfer, world
from tests.helpers import flawed_histories

Build = Callable[..., Store]


def pages(store: Store, limit: int, at: int = END, token: Key = COIN, details: bool = False) -> Iterator[list[Row]]:
    """Yield all pages of holders."""
    position = None
    while True:
        page, position = holders_page(store, *token, from_unix(at), limit, position, details)
        yield page.to_pylist()
        if position is None:
            return


def joined(store: Store, limit: int, **more: object) -> list[Row]:
    return [row for page in pages(store, limit, **more) for row in page]


@settled(25)
@given(histories(), st.integers(1, 4), st.integers(0, 101))
def test_all_pages_together_equal_brute_force(history: list[Row], limit: int, at: int) -> None:
    expected = Oracle(history, []).holders(COIN, at)
    with world(*history) as store:
        if not expected:
            with pytest.raises(NoHolders):
                joined(store, limit, at=at)
            return
        found = list(pages(store, limit, at=at))
    rows = [row for page in found for row in page]
    assert [(row["address"], int(row["amount_raw"])) for row in rows] == expected
    assert [row["rank"] for row in rows] == list(range(1, len(expected) + 1))
    assert [len(page) for page in found[:-1]] == [limit] * (len(found) - 1)
    assert 1 <= len(found[-1]) <= limit


@pytest.mark.parametrize("limit", [17, 92, 10**9])
def test_pages_of_a_lossy_history_are_its_list_of_holders(limit: int, flawed_store: Store) -> None:
    token = flawed_histories.token_of("lossy_coin")
    whole = holders_as_of(flawed_store, *token, from_unix(END * 2), 10**9).to_pylist()
    found = joined(flawed_store, limit, at=END * 2, token=token)
    assert len(whole) == 92
    assert [{name: row[name] for name in whole[0]} for row in found] == whole


def test_a_position_is_the_last_holder_of_its_page(build: Build) -> None:
    store = build(transfer("mint -> a", UINT256), transfer("mint -> b", 7), transfer("mint -> c", 6))
    _, position = holders_page(store, *COIN, from_unix(END), 2)
    assert position == HolderPosition(7, "b", 2)


def test_a_page_continues_after_a_position_that_is_no_holder(build: Build) -> None:
    store = build(*(transfer(f"mint -> {name}", value) for name, value in (("a", 9), ("b", 5), ("c", 5), ("d", 1))))
    page, _ = holders_page(store, *COIN, from_unix(END), 9, HolderPosition(5, "bb", 40))
    assert [(row["rank"], row["address"]) for row in page.to_pylist()] == [(41, "c"), (42, "d")]


def test_shares_are_of_the_whole_supply_on_every_page(build: Build) -> None:
    store = build(transfer("mint -> a", 60), transfer("mint -> b", 30), transfer("mint -> c", 10))
    assert [row["share"] for row in joined(store, 1)] == [0.6, 0.3, 0.1]


def test_later_transfers_do_not_change_pages_of_an_instant(build: Build) -> None:
    store = build(*(transfer(f"mint -> {name}", value, at=5) for name, value in (("a", 9), ("b", 5), ("c", 1))))
    first, position = holders_page(store, *COIN, from_unix(5), 1)
    store.add_transfers(pa.Table.from_pylist([transfer("a -> z", 9, at=6)]), "later")
    rest, end = holders_page(store, *COIN, from_unix(5), 9, position)
    assert [row["address"] for row in first.to_pylist() + rest.to_pylist()] == ["a", "b", "c"]
    assert end is None


@pytest.mark.parametrize("details", [False, True])
def test_details_are_those_of_the_list_of_holders(build: Build, details: bool) -> None:
    moves = [transfer(f"mint -> {name}", value) for name, value in (("a", 9), ("b", 5), ("c", 1))]
    store = build(*moves, transfer("a -> b"), labels=[cex("b")])
    whole = holders_as_of(store, *COIN, from_unix(END), 80, details).to_pylist()
    assert [{name: row[name] for name in whole[0]} for row in joined(store, 1, details=details)] == whole
    assert whole[0]["degree"] == (2 if details else None)


def test_a_page_after_the_last_holder_is_empty(build: Build) -> None:
    page, position = holders_page(build(transfer("mint -> a")), *COIN, from_unix(END), 5, HolderPosition(1, "a", 1))
    assert (page.num_rows, position) == (0, None)
    assert page.schema.equals(HOLDERS_PAGE)


def test_the_first_page_has_the_errors_of_the_list(build: Build) -> None:
    store = build(transfer("mint -> a", at=5), tokens=[a_token(("eth", "odd"), unsupported="it rebases")])
    for key, error, at in (
        (COIN, NoHolders, 4),
        (("eth", "no"), UnknownToken, 5),
        (("eth", "odd"), UnsupportedToken, 5),
    ):
        with pytest.raises(error):
            holders_page(store, *key, from_unix(at), 5)


def test_pages_have_one_schema(build: Build) -> None:
    store = build(*(transfer(f"mint -> {name}", UINT256 // 2) for name in "ab"), labels=[cex("b")])
    first, position = holders_page(store, *COIN, from_unix(END), 1, details=True)
    second, _ = holders_page(store, *COIN, from_unix(END), 1, position)
    assert all(page.schema.equals(HOLDERS_PAGE, check_metadata=True) for page in (first, second))
