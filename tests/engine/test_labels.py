"""All labels of an address are merged into one: the best name, and every kind."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Literal

import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holderlake.core.contract.chains import ZERO_ADDRESS
from holderlake.core.contract.requests import MapOptions
from holderlake.core.contract.rules import Rules
from holderlake.core.contract.times import from_unix
from holderlake.engine.catalog.labels import AddressLabel, labels_of
from holderlake.engine.maps.maps import map_as_of, maps_of
from holderlake.engine.queries.holders import holders_as_of, holders_of
from holderlake.engine.records import Label
from holderlake.engine.store.store import Store
from holderlake.sources.labels import EXPLORER, HAND
from tests.engine.world import COIN, DEAD, END, a_token, settled, transfer, world

Build = Callable[..., Store]


ANN, BOB = Label("a", None, "s1", name="Ann", precedence=2), Label("a", None, "s2", name="Bob", precedence=1)
CHAINS = [
    Label("a", "eth", "s", name="On Ethereum", precedence=1),
    Label("a", "bsc", "s", name="On BSC", precedence=5),
    Label("a", None, "s", name="Anywhere", precedence=3),
]


@pytest.mark.parametrize(
    ("labels", "chain", "merged"),
    [
        ([Label("b", None, "s1", name="Ann")], None, None),
        ([BOB, ANN], None, AddressLabel("Ann")),
        (CHAINS, "eth", AddressLabel("Anywhere")),
        (CHAINS, "bsc", AddressLabel("On BSC")),
        (CHAINS, "base", AddressLabel("Anywhere")),
        (CHAINS, None, AddressLabel("On BSC")),
        ([Label("a", "eth", "s1", is_cex=True, precedence=9), ANN], "eth", AddressLabel("Ann", is_cex=True)),
        (
            [
                Label("a", "eth", "s1", is_cex=True),
                Label("a", "bsc", "s2", is_dex=True),
                replace(ANN, is_contract=True),
            ],
            "eth",
            AddressLabel("Ann", is_cex=True, is_contract=True),
        ),
        ([ANN, replace(BOB, entity_id="bob-inc")], None, AddressLabel("Ann", "bob-inc")),
        ([replace(ANN, is_paid_label=True), BOB], None, AddressLabel("Ann", is_paid_label=True)),
        ([ANN, replace(BOB, is_paid_label=True)], None, AddressLabel("Ann")),
    ],
)
def test_labels_are_merged(build: Build, labels: list[Label], chain: str | None, merged: AddressLabel | None) -> None:
    assert build(labels=labels).labels(["a"], chain).get("a") == merged


def test_a_label_by_hand_for_all_chains_wins_over_a_list_of_one_chain(build: Build) -> None:
    labels = [
        Label("a", "eth", "explorer", "Exchange 4", precedence=EXPLORER),
        Label("a", None, "hand:mine", "Ann", precedence=HAND),
    ]
    assert build(labels=labels).labels(["a"], "eth")["a"].name == "Ann"


def test_a_tokens_own_contract_is_a_contract(build: Build) -> None:
    store = build(tokens=[a_token(("eth", "coin"))], labels=[Label("coin", None, "s", name="Coin")])
    assert store.labels(["coin"])["coin"] == AddressLabel(name="Coin", is_contract=True)
    assert store.labels(["coin"], "bsc")["coin"] == AddressLabel(name="Coin")


@pytest.mark.parametrize("address", [ZERO_ADDRESS, DEAD, "1nc1nerator11111111111111111111111111111111"])
def test_burn_addresses_are_contracts(build: Build, address: str) -> None:
    assert build().labels([address])[address].is_contract


def test_a_label_of_one_chain_marks_no_holder_on_another(build: Build) -> None:
    keys = [("eth", "0xa"), ("bsc", "0xb")]
    moves = [transfer(path, 5, token=key) for key in keys for path in ("mint -> ex", "mint -> a")]
    store = build(*moves, tokens=map(a_token, keys), labels=[Label("ex", "eth", "s", "Kite", is_cex=True)])
    maps = {
        chain: map_as_of(store, chain, token, from_unix(END), MapOptions(), from_unix(END)) for chain, token in keys
    }
    assert {chain: tables["maps"]["cexs"].to_pylist() for chain, tables in maps.items()} == {"eth": [0.5], "bsc": [0.0]}
    nodes = maps["bsc"]["map_nodes"].select(["address", "label", "is_cex"]).to_pylist()
    assert [node["label"] for node in nodes] == [None, None]
    lists = holders_as_of(store, "bsc", "0xb", from_unix(END), 10, details=True)
    assert lists["is_cex"].to_pylist() == [False, False]


# ---------------------------------------------------------------------- labels of each source


def test_labels_of_an_address_are_listed_by_falling_precedence(build: Build) -> None:
    labels = [
        Label("a", "eth", "explorer", "Ann 4", "ann", is_cex=True, precedence=40),
        Label("a", "tron", "hand:mine", "Ann", is_paid_label=True, precedence=100),
        Label("a", "bsc", "explorer", is_dex=True, is_contract=True, precedence=40),
        Label("a", "bsc", "another", "Anne", precedence=40),
    ]
    store = build(labels=[*labels, Label("b", None, "hand:mine", "Bob")])
    assert store.read(labels_of, "a") == [labels[1], labels[3], labels[2], labels[0]]
    assert store.read(labels_of, "unknown") == []


def test_a_new_label_replaces_that_of_the_same_source_alone(build: Build) -> None:
    store = build(labels=[Label("a", None, "s1", "One", is_cex=True), Label("a", None, "s2", "Two")])
    store.add_labels([Label("a", None, "s1", "Uno")])
    assert [(label.source, label.name) for label in store.read(labels_of, "a")] == [("s1", "Uno"), ("s2", "Two")]
    assert store.labels(["a"])["a"] == AddressLabel(name="Uno")


def test_labels_of_equal_precedence_are_merged_alike_in_any_order(build: Build) -> None:
    labels = [Label("a", None, source, f"of {source}", f"entity of {source}", precedence=5) for source in ("s2", "s1")]
    merged = [build(labels=listed).labels(["a"])["a"] for listed in (labels, labels[::-1])]
    assert merged[0] == merged[1] == AddressLabel("of s1", "entity of s1")


def test_labels_are_imported_all_or_none(build: Build) -> None:
    store = build()
    with pytest.raises(sqlite3.Error):
        store.add_labels([Label("a", None, "s", "Ann"), Label("b", None, "s", "Bob", precedence=None)])
    assert (store.read(labels_of, "a"), store.generation()) == ([], 0)


# ---------------------------------------------------------------------- periods

TRANSFERS = [
    *(transfer(f"mint -> {name}", 100 - place, at=1) for place, name in enumerate("abcdef")),
    *(transfer(path, 1, at=place) for place, path in enumerate(["a -> b", "c -> d", "a -> x", "x -> c", "d -> e"], 2)),
]
MOMENTS = st.none() | st.integers(1, 9)
PERIODS = st.builds(
    lambda address, source, kind, start, length, precedence: Label(
        *(address, None, source, f"{source} of {address} from {start}"),
        **{kind: True},
        precedence=precedence,
        valid_from=start,
        valid_to=None if length is None else (start or 0) + length,
    ),
    st.sampled_from("abcx"),
    st.sampled_from(("s1", "s2")),
    st.sampled_from(("is_cex", "is_dex", "is_contract")),
    MOMENTS,
    MOMENTS,
    st.integers(1, 2),
)


def valid_at(labels: Iterable[Label], second: int | None) -> list[Label]:
    """The labels that count at a second, without their periods; None: the last ones of each source. An oracle."""
    last = {(label.address, label.source, label.valid_from or 0): label for label in labels}
    begun = {key[:2]: (key[2], last[key]) for key in sorted(last) if second is None or key[2] <= second}
    return [
        replace(label, valid_from=None, valid_to=None)
        for _, label in begun.values()
        if second is None or label.valid_to is None or second <= label.valid_to
    ]


@settled(25)
@given(labels=st.lists(PERIODS, max_size=8), choice=st.sampled_from(("latest", "as_of")))
def test_a_map_has_the_labels_of_its_instant(labels: list[Label], choice: Literal["latest", "as_of"]) -> None:
    seconds = range(1, 12)
    rules = Rules(magic_links=1, labels=choice)
    with world(*TRANSFERS, labels=labels, rules=rules) as store:
        token = store.token(*COIN)
        assert token
        view, instants = store.view(), [from_unix(second) for second in seconds]
        maps = maps_of(store, view, token, instants, MapOptions(), from_unix(END))
        lists = holders_of(store, view, token, instants, 10, details=True)
    for second, instant in zip(seconds, instants, strict=True):
        known = valid_at(labels, second if choice == "as_of" else None)
        with world(*TRANSFERS, labels=known, rules=rules) as plain:
            expected = map_as_of(plain, *COIN, instant, MapOptions(), from_unix(END))
            expected_list = holders_as_of(plain, *COIN, instant, 10, details=True)
        for name, table in maps.items():
            assert table.filter(pc.field("as_of") == instant).to_pylist() == expected[name].to_pylist()
        assert lists.filter(pc.field("as_of") == instant).to_pylist() == expected_list.to_pylist()


def test_the_labels_of_a_source_replace_its_earlier_periods(build: Build) -> None:
    store = build(labels=[Label("a", None, "s", "Ann"), Label("b", None, "s", "Bob", valid_from=5)])
    store.add_labels([Label("a", None, "s", "Cid", valid_from=3), Label("a", None, "s", "Dan", valid_from=7)])
    found = [(label.name, label.valid_from) for address in "ab" for label in store.read(labels_of, address)]
    assert found == [("Cid", 3), ("Dan", 7), ("Bob", 5)]
    assert [label.valid_to for label in store.read(labels_of, "a")] == [6, None]
