"""The sample world is the same on every machine, its balances are consistent, and its tokens have their histories."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest

from benchmarks.sample_world.base import FRESH_BUYING
from benchmarks.sample_world.world import made_world
from holderlake.core.contract.chains import ZERO_ADDRESS
from holderlake.core.contract.times import to_unix
from holderlake.sources.sample_world import World

FINGERPRINT = "9bc78f289d64a5dda9afab7f7afad3a6d36849f5d48c2ae2c476f8e1ea5c9140"
"""Digest of all transfers, tokens, labels, rules and address sets. It changes only if a history changes."""

Row = dict[str, Any]
DEAD = "0x000000000000000000000000000000000000dead"


def fingerprint(world: World) -> str:
    rules = world.rules
    parts = (
        [column.to_pylist() for column in world.transfers.columns],
        [(token.chain, token.address, token.symbol, token.decimals, token.is_indexed) for token in world.tokens],
        [(label.address, label.chain, label.name, label.is_cex, label.is_contract) for label in world.labels],
        (rules.supernode_degree, rules.hypernode_transfers, sorted(rules.time_allowed)),
        world.address_sets,
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()


@pytest.fixture(scope="module")
def rows(world: World) -> list[Row]:
    return list(world.transfers.to_pylist())


@pytest.fixture(scope="module")
def histories(rows: list[Row]) -> dict[tuple[str, str], list[Row]]:
    """Return the transfers of each token, in order."""
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        found[row["chain"], row["token_address"]].append(row)
    return found


@pytest.fixture(scope="module")
def stories(world: World, histories: dict[tuple[str, str], list[Row]]) -> dict[str, list[Row]]:
    """Return the transfers of tokens with a unique symbol, by symbol."""
    return {
        token.symbol: histories[token.chain, token.address]
        for token in world.tokens
        if not (token.is_indexed or token.standard == "native")
    }


def seconds(*date: int) -> int:
    return to_unix(datetime(*date))  # type: ignore[arg-type]


def held(history: list[Row], at: int | None = None) -> Counter[str]:
    """Return the balances above zero at an instant, in raw units."""
    balances: Counter[str] = Counter()
    for row in history:
        if at is None or row["block_time"] <= at:
            balances[row["from_address"]] -= int(row["value"])
            balances[row["to_address"]] += int(row["value"])
    del balances[ZERO_ADDRESS]
    return +balances


def partners(rows: list[Row]) -> dict[str, set[str]]:
    met: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        met[row["from_address"]].add(row["to_address"])
        met[row["to_address"]].add(row["from_address"])
    return met


def labelled(world: World, kind: str) -> set[str]:
    return {label.address for label in world.labels if getattr(label, kind)}


def share(balances: Counter[str], *addresses: str) -> float:
    return sum(balances[address] for address in addresses) / balances.total()


# ---------------------------------------------------------------- made the same everywhere


def test_the_world_is_the_known_one(world: World) -> None:
    assert fingerprint(world) == FINGERPRINT


@pytest.mark.integration
def test_the_generator_makes_the_same_world(world: World) -> None:
    made, _ = made_world()
    assert fingerprint(made) == FINGERPRINT
    assert (made.tokens, made.labels, made.rules) == (world.tokens, world.labels, world.rules)


# ---------------------------------------------------------------- the laws of balances


def test_blocks_and_times_rise_together(world: World, rows: list[Row]) -> None:
    by_chain: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        assert to_unix(world.start) <= row["block_time"] < to_unix(world.end)
        by_chain[row["chain"]].append(row)
    for chain_rows in by_chain.values():
        for before, after in pairwise(chain_rows):
            if before["block_number"] == after["block_number"]:
                assert before["block_time"] == after["block_time"]
                assert before["log_index"] <= after["log_index"]
            else:
                assert before["block_number"] < after["block_number"]
                assert before["block_time"] < after["block_time"]


def test_no_balance_is_ever_negative(histories: dict[tuple[str, str], list[Row]]) -> None:
    for history in histories.values():
        balances: Counter[tuple[str, str | None]] = Counter()
        for row in history:
            amount = int(row["value"])
            assert amount > 0
            if row["from_address"] != ZERO_ADDRESS:
                balances[row["from_address"], row["token_id"]] -= amount
                assert balances[row["from_address"], row["token_id"]] >= 0
            balances[row["to_address"], row["token_id"]] += amount


def test_minted_less_burnt_is_the_sum_of_balances(histories: dict[tuple[str, str], list[Row]]) -> None:
    for history in histories.values():
        minted = sum(int(row["value"]) for row in history if row["from_address"] == ZERO_ADDRESS)
        burnt = sum(int(row["value"]) for row in history if row["to_address"] == ZERO_ADDRESS)
        assert minted > 0
        assert held(history).total() == minted - burnt


# ---------------------------------------------------------------- tokens, labels, sets


def test_every_token_has_metadata_and_a_history(world: World, histories: dict[tuple[str, str], list[Row]]) -> None:
    described = {(token.chain, token.address): token for token in world.tokens}
    assert set(described) == set(histories)
    assert len(described) == len(world.tokens)
    for key, history in histories.items():
        assert {row["token_standard"] for row in history} == {described[key].standard}


def test_native_and_stable_tokens_are_indexed_and_no_others(world: World) -> None:
    indexed = {(token.chain, token.symbol) for token in world.tokens if token.is_indexed}
    assert indexed == {(chain, "PBLD") for chain in ("eth", "base", "bsc", "solana")} | {
        ("eth", "ETH"),
        ("base", "ETH"),
        ("bsc", "BNB"),
        ("solana", "SOL"),
    }


def test_addresses_of_a_set_have_transfers_with_each_other(world: World, rows: list[Row]) -> None:
    met = partners(rows)
    assert {"kelpwire-insiders", "driftwood-snipers", "fernlight-whale"} <= set(world.address_sets)
    for addresses in world.address_sets.values():
        assert 2 <= len(set(addresses)) == len(addresses) <= 1_000
        assert all(address in met for address in addresses)
    for name in ("kelpwire-insiders", "driftwood-snipers", "fernlight-whale"):
        addresses = world.address_sets[name]
        assert all(met[address] & set(addresses) for address in addresses)


# ---------------------------------------------------------------- the stories


def test_fernlight_starts_fair_and_ends_with_a_whale(world: World, stories: dict[str, list[Row]]) -> None:
    venues = labelled(world, "is_dex")
    start = held(stories["FERN"], seconds(2024, 12, 19))
    people = {address: amount for address, amount in start.items() if address not in venues}
    assert len(people) == 270
    assert max(people.values()) < 1.1 * min(people.values())
    whale = world.address_sets["fernlight-whale"]
    shares = [share(held(stories["FERN"], seconds(2025, month, 1)), *whale) for month in (5, 7, 10, 12)]
    shares.append(share(held(stories["FERN"]), *whale))
    assert shares[0] == 0
    assert shares == sorted(shares)
    assert 0.3 < shares[-1] < 0.6


def test_kelpwire_insiders_sell_off(world: World, stories: dict[str, list[Row]]) -> None:
    insiders = world.address_sets["kelpwire-insiders"][2:]
    dates = (seconds(2025, 10, 1), seconds(2026, 2, 1), seconds(2026, 6, 1), seconds(2026, 10, 31))
    shares = [share(held(stories["KELP"], date), *insiders) for date in dates]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.3
    assert shares[-1] < 0.08


def test_more_than_a_hundred_fresh_wallets_buy_fledgling(stories: dict[str, list[Row]], rows: list[Row]) -> None:
    born: dict[str, int] = {}
    for row in rows:
        for address in (row["from_address"], row["to_address"]):
            born[address] = min(row["block_time"], born.get(address, row["block_time"]))
    day_after = FRESH_BUYING + 24 * 3_600
    holders = held(stories["FLDG"], day_after)
    fresh = [address for address in holders if born[address] > day_after - 10 * 86_400]
    assert len(fresh) > 100
    assert share(holders, *fresh) > 0.2


def test_cinder_loses_all_its_holders(stories: dict[str, list[Row]]) -> None:
    assert len(held(stories["CNDR"], seconds(2025, 3, 1))) > 60
    assert held(stories["CNDR"], seconds(2025, 12, 16)) == Counter()
    assert held(stories["CNDR"]) == Counter()


def test_myriad_moss_has_amounts_beyond_128_bits(stories: dict[str, list[Row]]) -> None:
    assert sum(int(row["value"]) > 2**128 for row in stories["MOSS"]) > 1_000
    assert held(stories["MOSS"]).total() > 10**45


def test_the_rules_give_one_hypernode_and_three_supernodes(world: World, rows: list[Row]) -> None:
    known = {label.address for label in world.labels} | {ZERO_ADDRESS, DEAD}
    moves = Counter(address for row in rows for address in (row["from_address"], row["to_address"]))
    hypernodes = {address for address, count in moves.items() if count > world.rules.hypernode_transfers} - known
    met = partners(rows)
    supernodes = {address for address in met if len(met[address]) >= world.rules.supernode_degree} - known
    bot, first, second, payer = world.address_sets["sunpetal-machines"]
    assert hypernodes == {bot}
    assert supernodes == {first, second, payer}


def test_every_history_continues_to_the_end_except_cinder(stories: dict[str, list[Row]]) -> None:
    def quiet(history: list[Row]) -> Iterator[int]:
        return (after["block_time"] - before["block_time"] for before, after in pairwise(history))

    for symbol, history in stories.items():
        assert max(quiet(history)) < 60 * 86_400, symbol
        assert (history[-1]["block_time"] > seconds(2026, 9, 1)) == (symbol != "CNDR"), symbol
