"""Balances and holders: exact to the unit, as of any second, and independent of later imports."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holderlake.core.contract.times import from_unix
from holderlake.engine.errors import NoHolders, UnknownToken, UnsupportedToken
from holderlake.engine.queries.balances import balances_as_of
from holderlake.engine.queries.holders import holders_as_of
from holderlake.engine.store.store import Store
from tests.engine.oracle import Oracle
from tests.engine.world import (
    COIN,
    END,
    UINT256,
    Row,
    a_token,
    histories,
    holders,
    settled,
    table,
    transfer,
    world,
)
from tests.helpers import flawed_histories
from tests.helpers.amounts import exact_amount

Build = Callable[..., Store]
OTHER = ("bsc", "other")


# ---------------------------------------------------------------------- who holds what


def test_amounts_are_in_token_units_and_exact(build: Build) -> None:
    store = build(transfer("mint -> a", UINT256), transfer("mint -> b", 1), tokens=[a_token(COIN, decimals=18)])
    big, small = holders_as_of(store, *COIN, from_unix(END), 80).to_pylist()
    assert big["amount"] is None
    assert big["amount_exact"] == "115792089237316195423570985008687907853269984665640564039457.584007913129639935"
    assert small["amount"] == Decimal("0.000000000000000001")
    assert small["amount_exact"] is None


@pytest.mark.parametrize("decimals", [0, 1, 6, 18, 24, 77])
def test_every_number_of_decimals_is_exact(build: Build, decimals: int) -> None:
    store = build(transfer("mint -> a", 123456789012345678901), tokens=[a_token(COIN, decimals=decimals)])
    (row,) = holders_as_of(store, *COIN, from_unix(END), 80).to_pylist()
    assert Fraction(exact_amount(row, "amount")) == Fraction(123456789012345678901, 10**decimals)


def test_details_are_null_unless_requested(build: Build) -> None:
    store = build(transfer("mint -> a", 5, at=3))
    (bare,) = holders_as_of(store, *COIN, from_unix(END), 80).to_pylist()
    (full,) = holders_as_of(store, *COIN, from_unix(END), 80, details=True).to_pylist()
    assert (bare["degree"], bare["is_contract"], bare["first_activity_date"]) == (None, None, None)
    assert (full["degree"], full["is_contract"], full["first_activity_date"]) == (1, False, from_unix(3))


# ---------------------------------------------------------------------- shares


# ---------------------------------------------------------------------- lossy histories


# ---------------------------------------------------------------------- no answer


def test_there_are_no_holders_before_the_first_transfer(build: Build) -> None:
    store = build(transfer("mint -> a", 5, at=10))
    with pytest.raises(NoHolders, match=r"coin \(coin on eth\) has no holders at 1970-01-01T00:00:09Z"):
        holders(store, at=9)


@pytest.mark.parametrize("rows", [[], [transfer("mint -> a", 5), transfer("a -> burn", 5)]])
def test_a_token_without_balances_has_no_holders(build: Build, rows: list[Row]) -> None:
    with pytest.raises(NoHolders):
        holders(build(*rows, tokens=[a_token(COIN)]))


@pytest.mark.parametrize("token", [("eth", "nothing"), ("bsc", "coin")])
def test_a_token_without_metadata_and_transfers_is_unknown(build: Build, token: tuple[str, str]) -> None:
    with pytest.raises(UnknownToken, match=f"the store has no token {token[1]} on chain {token[0]}"):
        holders(build(transfer("mint -> a", 5)), token=token)


def test_an_unsupported_token_is_refused_with_its_reason(build: Build) -> None:
    store = build(transfer("mint -> a", 5), tokens=[a_token(COIN, unsupported="its balances rebase")])
    with pytest.raises(UnsupportedToken, match="its balances rebase"):
        holders(store)


# ---------------------------------------------------------------------- any history


@settled(25)
@given(histories(), st.integers(0, 101))
def test_balances_equal_plain_sums(history: list[Row], at: int) -> None:
    oracle = Oracle(history, [a_token(COIN)])
    with world(*history) as store:
        balances = balances_as_of(store, *COIN, from_unix(at))
    supply, expected = oracle.balances(COIN, at)
    assert dict([*balances.holders, *balances.negative]) == expected
    assert balances.supply == supply
    assert balances.holders == oracle.holders(COIN, at)
    assert all(balance < 0 for _, balance in balances.negative)


@pytest.mark.long
@settled(12)
@given(histories(), st.integers(1, 99))
def test_later_transfers_do_not_change_the_answer_of_a_second(history: list[Row], at: int) -> None:
    early = [row for row in history if row["block_time"] <= at]
    with world(transfer("mint -> a"), *early, transfer("mint -> b", 3, token=OTHER)) as store:
        before = holders_as_of(store, *COIN, from_unix(at), 80, details=True) if holders_exist(store, at) else None
        late = [row for row in history if row["block_time"] > at]
        store.add_transfers(table([*late, transfer("a -> b", 7, at + 1, token=OTHER)]), "later")
        after = holders_as_of(store, *COIN, from_unix(at), 80, details=True) if holders_exist(store, at) else None
    assert after == before


def holders_exist(store: Store, at: int) -> bool:
    return bool(balances_as_of(store, *COIN, from_unix(at)).holders)


# ---------------------------------------------------------------------- histories with flaws


@pytest.mark.parametrize("name", flawed_histories.NAMES)
def test_a_flawed_history_is_exact_to_the_unit(name: str, flawed_store: Store) -> None:
    rows, token = flawed_histories.history(name), flawed_histories.token_of(name)
    oracle = Oracle(rows, [])
    seconds = sorted(row["block_time"] for row in rows)
    for at in (seconds[(len(seconds) - 1) * tenth // 9] for tenth in range(10)):
        balances = balances_as_of(flawed_store, *token, from_unix(at))
        supply, expected = oracle.balances(token, at)
        assert dict([*balances.holders, *balances.negative]) == expected
        assert (balances.supply, balances.holders) == (supply, oracle.holders(token, at))


@pytest.mark.parametrize("name", flawed_histories.NAMES)
def test_a_flawed_history_becomes_a_table_of_exact_amounts(name: str, flawed_store: Store) -> None:
    rows, token = flawed_histories.history(name), flawed_histories.token_of(name)
    decimals = 18 if rows[0]["token_standard"] == "erc20" else 0
    found = holders_as_of(flawed_store, *token, from_unix(2 * END), END).to_pylist()
    expected = Oracle(rows, []).holders(token, 2 * END)
    assert [(row["address"], exact_amount(row, "amount") * 10**decimals) for row in found] == expected
