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
from holderlake.engine.queries.negative_balances import negative_balances
from holderlake.engine.store.store import Store
from tests.engine.oracle import Oracle
from tests.engine.world import (
    COIN,
    END,
    UINT256,
    Row,
    a_token,
    held,
    histories,
    holders,
    lossless_histories,
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


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param(
            [transfer("mint -> a", 100), transfer("a -> b", 30), transfer("b -> c", 10)],
            [("a", 70), ("b", 20), ("c", 10)],
            id="received less sent",
        ),
        pytest.param([transfer("mint -> a", 5), transfer("a -> b", 5)], [("b", 5)], id="without zero balances"),
        pytest.param([transfer("mint -> a", 5), transfer("a -> a", 3)], [("a", 5)], id="a transfer to oneself"),
        pytest.param(
            [*(transfer(f"mint -> {name}", 5) for name in "cabd"), transfer("mint -> z", 6)],
            [("z", 6), ("a", 5), ("b", 5), ("c", 5), ("d", 5)],
            id="equal balances by address",
        ),
        pytest.param(
            [
                transfer("mint -> a", 5),
                transfer("mint -> a", 7, token=("eth", "other")),
                transfer("mint -> a", 9, token=("bsc", "coin")),
            ],
            [("a", 5)],
            id="other tokens and chains",
        ),
    ],
)
def test_holders_by_example(build: Build, rows: list[Row], expected: list[tuple[str, int]]) -> None:
    assert holders(build(*rows)) == expected


def test_ranks_count_from_one_to_the_limit(build: Build) -> None:
    store = build(*(transfer(f"mint -> {name}", 9 - size) for size, name in enumerate("abcd")))
    rows = holders_as_of(store, *COIN, from_unix(END), 3).to_pylist()
    assert [(row["rank"], row["address"]) for row in rows] == [(1, "a"), (2, "b"), (3, "c")]


@pytest.mark.parametrize(("at", "expected"), [(9, [("a", 5)]), (10, [("a", 3), ("b", 2)]), (11, [("a", 3), ("b", 2)])])
def test_a_transfer_counts_from_its_own_second_on(build: Build, at: int, expected: list[tuple[str, int]]) -> None:
    store = build(transfer("mint -> a", 5, at=1), transfer("a -> b", 2, at=10))
    assert holders(store, at) == expected


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


def test_a_share_is_a_part_of_minted_less_burnt(build: Build) -> None:
    store = build(transfer("mint -> a", 120), transfer("a -> burn", 20), transfer("a -> dead", 50))
    rows = holders_as_of(store, *COIN, from_unix(END), 80).to_pylist()
    assert {row["share"] for row in rows} == {0.5}


@pytest.mark.parametrize(("minted", "share"), [(10, 1), (0, 0)])
def test_a_share_of_a_lossy_history_is_at_most_one(build: Build, minted: int, share: float) -> None:
    (row,) = holders_as_of(
        build(transfer("mint -> a", minted), transfer("lost -> a", 90)), *COIN, from_unix(END), 80
    ).to_pylist()
    assert (row["address"], row["share"]) == ("a", share)


@settled(12)
@given(lossless_histories())
def test_shares_of_a_lossless_history_sum_to_at_most_1(history: list[Row]) -> None:
    with world(*history) as store:
        if not held(store):
            return
        shares = holders_as_of(store, *COIN, from_unix(END), END)["share"].to_pylist()
        assert all(0 <= share <= 1 for share in shares)
        assert sum(shares) <= 1 + 1e-12


# ---------------------------------------------------------------------- lossy histories


def test_a_negative_balance_is_reported_and_no_holder(build: Build) -> None:
    store = build(transfer("mint -> a", 5), transfer("b -> a", 3), transfer("c -> a", 4))
    assert holders(store) == [("a", 12)]
    reported = negative_balances(store, *COIN, from_unix(END)).to_pylist()
    assert [(row["address"], row["balance"]) for row in reported] == [("c", "-4"), ("b", "-3")]


def test_a_lossless_history_has_nothing_to_report(build: Build) -> None:
    reported = negative_balances(build(transfer("mint -> a", 5)), *COIN, from_unix(END))
    assert reported.num_rows == 0


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


@settled(12)
@given(histories())
def test_supply_is_conserved(history: list[Row]) -> None:
    minted = sum(int(row["value"]) for row in history if row["from_address"] == transfer("mint -> a")["from_address"])
    burnt = sum(int(row["value"]) for row in history if row["to_address"] == transfer("a -> burn")["to_address"])
    with world(*history) as store:
        assert sum(held(store).values()) == minted - burnt
        assert balances_as_of(store, *COIN, from_unix(END)).supply == minted - burnt


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


def test_rounded_amounts_leave_the_supply_exact(flawed_store: Store) -> None:
    balances = balances_as_of(flawed_store, *flawed_histories.token_of("rounded_coin"), from_unix(2 * END))
    assert balances.supply == 6_000_000 * 10**18
    assert balances.negative and all(balance > -(10**12) for _, balance in balances.negative)


@pytest.mark.parametrize("name", flawed_histories.NAMES)
def test_negative_balances_show_which_histories_are_lossy(name: str, flawed_store: Store) -> None:
    below = negative_balances(flawed_store, *flawed_histories.token_of(name), from_unix(2 * END)).to_pylist()
    assert {row["address"]: int(row["balance"]) for row in below} == flawed_histories.below_zero(name)
    assert bool(below) is (name in flawed_histories.LOSSY)
