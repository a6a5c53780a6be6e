"""Tokens are found by exact address, exact symbol, then the beginning of symbol or name; and told as tables."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from contract.times import from_unix
from engine.records import TokenInfo
from engine.store import Store
from engine.tokens import SERVED_CHAINS, chains_table, search_tokens, tokens_table
from tests.engine.world import COIN, a_token, transfer

Build = Callable[..., Store]

HEX = "0xabcdef0123456789abcdef0123456789abcdef01"
SOL = "So11111111111111111111111111111111111111112"


def named(address: str, symbol: str, name: str = "", **changed: object) -> TokenInfo:
    return a_token(("eth", address), symbol=symbol, name=name or symbol, **changed)


def found(store: Store, text: str, limit: int = 50) -> list[str]:
    return search_tokens(store, text, limit)["token_address"].to_pylist()


def test_an_exact_address_comes_before_an_exact_symbol_before_a_prefix(build: Build) -> None:
    store = build(
        tokens=[
            named("t1", "pepecoin"),
            named("t2", "x", "Pepe the Frog"),
            named("t3", "PEPE"),
            named("pepe", "other"),
            named("t5", "dope", "my pepe"),
            named("t6", "a", "Pepe, indexed", is_indexed=True),
        ]
    )
    assert found(store, "pepe") == ["pepe", "t3", "t6", "t1", "t2"]


def test_indexed_tokens_come_first_among_equals(build: Build) -> None:
    store = build(tokens=[named("t1", "USD"), named("t2", "USD", is_indexed=True)])
    assert found(store, "usd") == ["t2", "t1"]


@pytest.mark.parametrize("text", ["usdc", "USDC", "uSdC", "  usdc "])
def test_case_and_blanks_around_a_symbol_do_not_matter(build: Build, text: str) -> None:
    assert found(build(tokens=[named("t1", "USDC")]), text) == ["t1"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("100%", ["t1"]), ("%", []), ("a_", ["t2"]), ("_b", []), ("a\\", ["t3"]), ("\\", [])],
)
def test_wildcards_in_a_query_are_literal(build: Build, text: str, expected: list[str]) -> None:
    store = build(tokens=[named("t1", "100%PURE"), named("t2", "a_b"), named("t3", "a\\b"), named("t4", "axb")])
    assert found(store, text) == expected


@pytest.mark.parametrize("text", ["'; DROP TABLE tokens; --", '"', "a' OR '1'='1"])
def test_a_query_is_never_sql(build: Build, text: str) -> None:
    store = build(tokens=[named("t1", "USDC")])
    assert found(store, text) == []
    assert found(store, "usdc") == ["t1"]


@pytest.mark.parametrize("text", [HEX, HEX.upper(), "0x" + HEX[2:].upper()])
def test_a_hexadecimal_address_is_found_in_any_case(build: Build, text: str) -> None:
    store = build(tokens=[named(HEX, "HEX")])
    assert found(store, text) == [HEX]
    assert [token.address for token in store.search(text, 50)] == [HEX]


def test_a_hexadecimal_address_is_found_on_every_chain(build: Build) -> None:
    store = build(tokens=[a_token(("eth", HEX)), a_token(("bsc", HEX))])
    assert search_tokens(store, HEX)["chain"].to_pylist() == ["bsc", "eth"]


def test_a_solana_address_is_found_exactly_only(build: Build) -> None:
    store = build(tokens=[a_token(("solana", SOL), symbol="WSOL", name="Wrapped SOL")])
    assert found(store, SOL) == [SOL]
    assert found(store, SOL.lower()) == []


def test_native_tokens_are_found_by_their_constant(build: Build) -> None:
    store = build(tokens=[a_token(("eth", "native"), symbol="ETH", name="Ethereum")])
    assert found(store, "Native") == ["native"]


def test_a_search_ends_at_its_limit(build: Build) -> None:
    store = build(tokens=[named(f"t{number}", f"coin{number}") for number in range(9)])
    assert found(store, "coin", limit=3) == ["t0", "t1", "t2"]


def test_a_search_that_finds_nothing_is_an_empty_table(build: Build) -> None:
    assert found(build(), "nothing") == []


# ---------------------------------------------------------------------- metadata and chains as tables


def test_tokens_come_in_the_order_asked_for_and_unknown_ones_are_left_out(build: Build) -> None:
    store = build(tokens=[named("t1", "ONE"), named("t2", "TWO")])
    told = tokens_table(store, [("eth", "t2"), ("eth", "nothing"), ("bsc", "t1"), ("eth", "t1")])
    assert told["symbol"].to_pylist() == ["TWO", "ONE"]


def test_statistics_are_null_unless_asked_for(build: Build) -> None:
    store = build(transfer("mint -> a", at=3), transfer("a -> b", at=9))
    (plain,) = tokens_table(store, [COIN]).to_pylist()
    (full,) = tokens_table(store, [COIN], stats=True).to_pylist()
    assert (plain["transfers_count"], plain["min_date"], plain["max_date"]) == (None, None, None)
    assert (full["transfers_count"], full["min_date"], full["max_date"]) == (2, from_unix(3), from_unix(9))


def test_a_token_without_transfers_has_none_counted(build: Build) -> None:
    (row,) = tokens_table(build(tokens=[a_token(COIN)]), [COIN], stats=True).to_pylist()
    assert (row["transfers_count"], row["min_date"], row["max_date"]) == (0, None, None)


def test_a_stores_own_chains_are_served_beside_the_contracts(build: Build) -> None:
    assert chains_table(build())["chain"].to_pylist() == list(SERVED_CHAINS)
    store = build(tokens=[a_token(("eth", "t")), a_token(("gnosis", "t")), a_token(("mychain", "t"))])
    rows = {row["chain"]: row for row in chains_table(store).to_pylist()}
    assert list(rows) == [*SERVED_CHAINS, "gnosis", "mychain"]
    assert (rows["gnosis"]["name"], rows["gnosis"]["coingecko_id"]) == ("Gnosis", "xdai")
    assert (rows["mychain"]["name"], rows["mychain"]["coingecko_id"]) == ("mychain", None)
