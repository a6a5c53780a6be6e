"""Maps equal brute force on random worlds and histories with flaws, and later transfers do not change them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holderlake.core.contract.requests import MapOptions
from holderlake.core.contract.rules import Rules
from holderlake.core.contract.tables import MAP_TABLES, TABLES
from holderlake.core.contract.times import dt_update_text, from_unix
from holderlake.engine.errors import NoHolders, UnknownToken, UnsupportedToken
from holderlake.engine.maps.maps import map_as_of
from holderlake.engine.maps.relationships import subgraph
from holderlake.engine.queries.addresses import addresses_table
from holderlake.engine.queries.holders import holders_as_of
from holderlake.engine.queries.negative_balances import negative_balances
from holderlake.engine.queries.tokens import chains_table, search_tokens, tokens_table
from holderlake.engine.records import Label, TokenInfo
from holderlake.engine.store.store import Store
from tests.engine.oracle import Oracle
from tests.engine.random_worlds import TOKENS, random_oracle
from tests.engine.world import (
    COIN,
    END,
    NAMES,
    UINT256,
    Key,
    Row,
    a_token,
    cex,
    dex,
    draw,
    exactly,
    figures,
    histories,
    nodes,
    settled,
    table,
    transfer,
    world,
)
from tests.helpers import flawed_histories

Build = Callable[..., Store]
OTHER = ("bsc", "other")


# ---------------------------------------------------------------------- brute force


ELSEWHERE = {"holder_limit", "use_magic_nodes", "use_time_nodes", "rules", "other_scores", "negative_balances"}
"""Columns that the pipeline fills, or that have tests of their own."""


def comparable(drawn: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """The engine's rows without the common columns, amounts as fractions, in the oracle's words."""

    def plain(row: Row) -> Row:
        amounts = {name.removesuffix("_exact") for name in row if name.endswith("_exact")}
        left_out = ELSEWHERE | {"chain", "as_of", "token_address", "dt_update"} | {f"{name}_exact" for name in amounts}
        kept = {name: value for name, value in row.items() if name not in left_out}
        return kept | {name: exactly(row, name) for name in amounts}

    return {name: [plain(row) for row in rows] for name, rows in drawn.items()}


def assert_equal_to_brute_force(store: Store, oracle: Oracle, token: Key, at: int, **options: Any) -> None:
    expected = oracle.map(token, at, **options)
    found = comparable(draw(store, at, token, **options))
    (scores,), (found_scores,) = expected["maps"], found["maps"]
    assert found_scores.pop("service_score") == pytest.approx(scores.pop("service_score"), abs=0.011)
    for name in MAP_TABLES:
        assert found[name] == expected[name], name


@pytest.mark.later(integration=9, long=14)
@pytest.mark.parametrize("seed", range(40))
def test_a_random_world_is_drawn_as_by_brute_force(seed: int) -> None:
    chance = Random(seed)
    oracle = random_oracle(chance)
    with world(*oracle.transfers, tokens=oracle.tokens, labels=oracle.labels, rules=oracle.rules) as store:
        for _ in range(2):
            token, at = chance.choice(TOKENS), chance.randint(100, 450)
            if not oracle.holders(token, at):
                with pytest.raises(NoHolders):
                    draw(store, at, token)
                continue
            assert_equal_to_brute_force(
                store,
                oracle,
                token,
                at,
                limit=chance.randint(2, 20),
                use_magic_nodes=chance.random() < 0.8,
                use_time_nodes=chance.random() < 0.8,
            )


@pytest.mark.parametrize("name", ["rounded_coin", "lossy_coin"])
def test_a_flawed_history_is_drawn_as_by_brute_force(name: str) -> None:
    chance = Random(name)
    rows, token = flawed_histories.history(name), flawed_histories.token_of(name)
    seconds = sorted(row["block_time"] for row in rows)
    early, last = seconds[len(seconds) // 10], seconds[-1]
    largest = [address for address, _ in Oracle(rows, []).holders(token, last)[:20]]
    oracle = Oracle(
        rows,
        [a_token(token, decimals=18)],
        [cex(address) for address in chance.sample(largest, 3)] + [dex(address) for address in largest[:1]],
        Rules(supernode_degree=14, hypernode_transfers=60, time_window=7_200),
    )
    with world(*rows, tokens=oracle.tokens, labels=oracle.labels, rules=oracle.rules) as store:
        for at in [last, *(chance.randint(early, last) for _ in range(3))]:
            for limit in (20, 80):
                assert_equal_to_brute_force(
                    store, oracle, token, at, limit=limit, use_magic_nodes=True, use_time_nodes=True
                )


# ---------------------------------------------------------------------- the past does not change


@pytest.mark.integration
@settled(9)
@given(histories(), st.integers(1, 99))
def test_later_transfers_do_not_change_the_map_of_a_second(history: list[Row], at: int) -> None:
    labels, rules = [cex("e"), dex("f")], Rules(supernode_degree=3, hypernode_transfers=12, time_window=20)
    elsewhere = [row | {"chain": "bsc", "token_address": "other"} for row in history[::3]]
    early, late = [], []
    for row in [transfer("mint -> a", 2**255), *history, *elsewhere]:
        (early if row["block_time"] <= at else late).append(row)
    with world(*early, tokens=[a_token(OTHER, is_indexed=True)], labels=labels, rules=rules) as store:
        before = drawn_if_held(store, at)
        store.add_transfers(table(late), "later")
        assert drawn_if_held(store, at) == before


def drawn_if_held(store: Store, at: int) -> dict[str, list[Row]] | None:
    try:
        return draw(store, at)
    except NoHolders:
        return None


def test_a_transfer_of_the_very_second_is_on_the_map(build: Build) -> None:
    store = build(transfer("mint -> a", 9), transfer("a -> b", 4, at=50))
    assert nodes(draw(store, 49), "top_holder") == ["a"]
    assert nodes(draw(store, 50), "top_holder") == ["a", "b"]


# ---------------------------------------------------------------------- nodes


def test_a_map_is_labelled_by_its_own_chain(build: Build) -> None:
    store = build(
        transfer("mint -> a"),
        transfer("mint -> a", token=OTHER),
        labels=[Label("a", "eth", "s", name="Ann"), Label("a", "bsc", "s", name="Bao")],
    )
    labels = [draw(store, token=token)["map_nodes"][0]["label"] for token in (COIN, OTHER)]
    assert labels == ["Ann", "Bao"]


def test_a_map_tells_when_it_was_made(build: Build) -> None:
    made = datetime(2026, 11, 20, 12, 0, 0, 250)
    store = build(transfer("mint -> a"))
    tables = map_as_of(store, *COIN, from_unix(5), MapOptions(), made)
    assert tables["maps"]["dt_update"].to_pylist() == [dt_update_text(made)] == ["2026-11-20T12:00:00.000250"]


# ---------------------------------------------------------------------- no answer


def test_a_map_before_the_first_holder_is_none(build: Build) -> None:
    with pytest.raises(NoHolders):
        draw(build(transfer("mint -> a", at=10)), 9)


def test_a_map_of_an_unknown_token_is_none(build: Build) -> None:
    with pytest.raises(UnknownToken):
        draw(build(), token=("eth", "nothing"))


def test_a_map_of_an_unsupported_token_is_none_and_says_why(build: Build) -> None:
    store = build(transfer("mint -> a"), tokens=[a_token(COIN, unsupported="its balances rebase")])
    with pytest.raises(UnsupportedToken, match="its balances rebase"):
        draw(store)


# ---------------------------------------------------------------------- types


def every_answer(store: Store) -> dict[str, pa.Table]:
    at = from_unix(END)
    return {
        **map_as_of(store, *COIN, at, MapOptions(), at),
        "holders": holders_as_of(store, *COIN, at, 80, details=True),
        "addresses": addresses_table(store, NAMES, at),
        "tokens": tokens_table(store, [COIN], stats=True),
        "search": search_tokens(store, "coin"),
        "chains": chains_table(store),
        "subgraph_transfers": subgraph(store, NAMES, COIN, at),
        "negative_balances": negative_balances(store, *COIN, at),
    }


@pytest.fixture
def answers(build: Build) -> dict[str, pa.Table]:
    store = build(
        transfer("mint -> a", UINT256),
        transfer("a -> b", 10**30 + 1),
        transfer("insider -> a", 5),
        transfer("insider -> b", 5),
        transfer("a -> c", 1),
        transfer("b -> c", 1),
        tokens=[TokenInfo(*COIN, "Coin", "COIN", 18)],
        labels=[cex("c")],
    )
    found = every_answer(store)
    assert all(rows.num_rows for rows in found.values()), "every table has something to judge"
    return found


def test_no_amount_is_a_float(answers: dict[str, pa.Table]) -> None:
    parts_of_a_whole = {"share", "cexs", "dexs", "contracts", "fresh_wallets", "top_10_adjusted", "bundles"}
    figures = {"service_score", "gini_index", "herfindahl_hirschman_index"}
    floats = {field.name for rows in answers.values() for field in rows.schema if pa.types.is_floating(field.type)}
    assert floats == parts_of_a_whole | figures
    amounts = {
        field.name: str(field.type)
        for rows in answers.values()
        for field in rows.schema
        if any(word in field.name for word in ("amount", "value", "balance"))
    }
    assert amounts == {
        "amount": "decimal128(38, 18)",
        "amount_exact": "string",
        "negative_balances": "string",
        "total_value": "decimal128(38, 18)",
        "total_value_exact": "string",
        "balance": "string",
    }


def test_every_answer_has_the_lakes_schema_without_fetched_at(answers: dict[str, pa.Table]) -> None:
    for name in (*MAP_TABLES, "holders", "addresses", "tokens", "chains"):
        assert answers[name].schema.equals(TABLES[name].engine_schema, check_metadata=True), name
    assert answers["search"].schema.equals(TABLES["tokens"].engine_schema)
    of_the_lake = TABLES["subgraph_transfers"].engine_schema.names
    assert answers["subgraph_transfers"].schema.names == of_the_lake[of_the_lake.index("from_address") :]


def test_every_row_of_a_map_is_found_by_its_key(answers: dict[str, pa.Table]) -> None:
    for name in (*MAP_TABLES, "holders"):
        keys = answers[name].select(TABLES[name].key).to_pylist()
        assert len({tuple(key.values()) for key in keys}) == len(keys), name


def test_no_unit_is_lost_between_a_transfer_and_its_map(answers: dict[str, pa.Table]) -> None:
    held = sum(exactly(row, "amount") for row in answers["map_nodes"].to_pylist() if row["kind"] == "top_holder")
    below = sum(int(row["balance"]) for row in answers["negative_balances"].to_pylist())
    assert held * 10**18 + below == UINT256


def test_figures_are_plain_numbers(build: Build) -> None:
    values = figures(draw(build(transfer("mint -> a", 3), transfer("mint -> b", UINT256))))
    assert values["herfindahl_hirschman_index"] == 1.0
    assert values["service_score"] == 0.0
