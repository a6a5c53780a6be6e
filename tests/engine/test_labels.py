"""All that sources say of an address becomes one label: the best name, and every kind."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import pytest

from holderlake.contract.chains import ZERO_ADDRESS
from holderlake.engine.catalog.labels import AddressLabel
from holderlake.engine.records import Label
from holderlake.engine.store.store import Store
from tests.engine.world import DEAD, a_token

Build = Callable[..., Store]


def test_an_address_without_a_label_is_left_out(build: Build) -> None:
    assert build(labels=[Label("a", None, "s", name="Ann")]).labels(["b"]) == {}


def test_the_name_of_highest_precedence_wins(build: Build) -> None:
    store = build(
        labels=[Label("a", None, "s1", name="Low", precedence=1), Label("a", None, "s2", name="High", precedence=2)]
    )
    assert store.labels(["a"])["a"].name == "High"


def test_a_label_of_the_chain_names_before_a_higher_one_of_another_chain(build: Build) -> None:
    store = build(
        labels=[
            Label("a", "eth", "s", name="On Ethereum", precedence=1),
            Label("a", "bsc", "s", name="On BSC", precedence=5),
            Label("a", None, "s", name="Anywhere", precedence=3),
        ]
    )
    assert store.labels(["a"], "eth")["a"].name == "On Ethereum"
    assert store.labels(["a"], "bsc")["a"].name == "On BSC"
    assert store.labels(["a"], "base")["a"].name == "On BSC"
    assert store.labels(["a"])["a"].name == "On BSC"


def test_a_label_without_a_name_does_not_hide_a_name(build: Build) -> None:
    store = build(
        labels=[Label("a", "eth", "s1", is_cex=True, precedence=9), Label("a", None, "s2", name="Ann", precedence=1)]
    )
    assert store.labels(["a"], "eth")["a"] == AddressLabel(name="Ann", is_cex=True)


def test_kinds_add_up_over_sources_and_chains(build: Build) -> None:
    store = build(
        labels=[
            Label("a", "eth", "s1", is_cex=True),
            Label("a", "bsc", "s2", is_dex=True),
            Label("a", None, "s3", is_contract=True),
        ]
    )
    assert store.labels(["a"], "eth")["a"] == AddressLabel(is_cex=True, is_dex=True, is_contract=True)


def test_the_entity_comes_from_the_first_label_that_knows_one(build: Build) -> None:
    store = build(
        labels=[
            Label("a", None, "s1", name="Ann", precedence=2),
            Label("a", None, "s2", name="Bob", entity_id="bob-inc", precedence=1),
        ]
    )
    assert store.labels(["a"])["a"] == AddressLabel(name="Ann", entity_id="bob-inc")


@pytest.mark.parametrize("is_paid", [True, False])
def test_the_label_that_gives_the_name_says_whether_it_is_paid(build: Build, is_paid: bool) -> None:
    store = build(
        labels=[
            Label("a", None, "s1", name="Ann", precedence=2, is_paid_label=is_paid),
            Label("a", None, "s2", name="Bob", precedence=1, is_paid_label=not is_paid),
        ]
    )
    assert store.labels(["a"])["a"].is_paid_label is is_paid


def test_a_source_that_speaks_again_replaces_what_it_said(build: Build) -> None:
    store = build(labels=[Label("a", "eth", "s", name="Old", is_cex=True)])
    store.add_labels([Label("a", "eth", "s", name="New")])
    assert store.labels(["a"])["a"] == AddressLabel(name="New")


def test_a_tokens_own_contract_is_a_contract(build: Build) -> None:
    store = build(tokens=[a_token(("eth", "coin"))], labels=[Label("coin", None, "s", name="Coin")])
    assert store.labels(["coin"])["coin"] == AddressLabel(name="Coin", is_contract=True)


@pytest.mark.parametrize("address", [ZERO_ADDRESS, DEAD, "1nc1nerator11111111111111111111111111111111"])
def test_burn_addresses_are_contracts(build: Build, address: str) -> None:
    assert build().labels([address])[address].is_contract


# ---------------------------------------------------------------------- what each source says


def test_every_source_of_an_address_is_told_by_falling_precedence_as_it_was_stored(build: Build) -> None:
    labels = [
        Label("a", "eth", "explorer", "Ann 4", "ann", is_cex=True, precedence=40),
        Label("a", "tron", "hand:mine", "Ann", is_paid_label=True, precedence=100),
        Label("a", "bsc", "explorer", is_dex=True, is_contract=True, precedence=40),
        Label("a", "bsc", "another", "Anne", precedence=40),
    ]
    store = build(labels=[*labels, Label("b", None, "hand:mine", "Bob")])
    assert store.labels_of("a") == [labels[1], labels[3], labels[2], labels[0]]
    assert store.labels_of("nobody") == []


def test_what_a_source_says_again_replaces_only_what_it_said_itself(build: Build) -> None:
    store = build(labels=[Label("a", None, "s1", "One"), Label("a", None, "s2", "Two")])
    store.add_labels([Label("a", None, "s1", "Uno")])
    assert [(label.source, label.name) for label in store.labels_of("a")] == [("s1", "Uno"), ("s2", "Two")]


def test_labels_of_equal_precedence_are_merged_the_same_in_whatever_order_they_came(build: Build) -> None:
    labels = [Label("a", None, source, f"of {source}", f"entity of {source}", precedence=5) for source in ("s2", "s1")]
    merged = [build(labels=listed).labels(["a"])["a"] for listed in (labels, labels[::-1])]
    assert merged[0] == merged[1] == AddressLabel("of s1", "entity of s1")


def test_labels_are_imported_whole_or_not_at_all(build: Build) -> None:
    store = build()
    with pytest.raises(sqlite3.Error):
        store.add_labels([Label("a", None, "s", "Ann"), Label("b", None, "s", "Bob", precedence=None)])
    assert (store.labels_of("a"), store.generation()) == ([], 0)
