"""Indexed tokens: sources of marks, which one decides, and that a change is effective at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from holderlake.core.contract.requests import MapOptions
from holderlake.core.contract.times import from_unix
from holderlake.engine.catalog.indexed_tokens import COMMAND, IMPORT, SETTINGS, SOURCES, indexed_tokens
from holderlake.engine.maps.batch import map_batches
from holderlake.engine.maps.relationships import subgraph
from holderlake.engine.queries.tokens import search_tokens, tokens_table
from holderlake.engine.store.store import Store
from tests.engine.world import COIN, END, Key, a_token, clusters, draw, table, transfer, world

USDC: Key = ("eth", "usdc")
NATIVE: Key = ("eth", "native")
ROWS = [
    transfer("mint -> a", 60),
    transfer("mint -> b", 40),
    transfer("mint -> a", 9, token=USDC),
    transfer("a -> b", 9, 5, token=USDC),
]


def is_indexed(store: Store, key: Key = USDC) -> bool:
    (row,) = tokens_table(store, [key]).to_pylist()
    assert [one["is_indexed"] for one in search_tokens(store, key[1]).to_pylist()] == [row["is_indexed"]]
    return bool(row["is_indexed"])


def test_a_marked_token_connects_holders_of_another_token_at_once() -> None:
    with world(*ROWS) as store:
        assert (clusters(draw(store)), is_indexed(store)) == ([], False)
        store.index_tokens([USDC], COMMAND)
        assert (clusters(draw(store)), is_indexed(store)) == ([{"a", "b"}], True)
        store.index_tokens([USDC], COMMAND, False)
        assert (clusters(draw(store)), is_indexed(store)) == ([], False)


@pytest.mark.parametrize("is_marked", [False, True])
def test_passes_and_subgraphs_follow_the_marks(is_marked: bool) -> None:
    with world(*ROWS) as store:
        store.index_tokens([USDC], COMMAND, is_marked)
        (tables,) = map_batches(store, [COIN], [from_unix(END)], MapOptions(), from_unix(END))
        assert tables["clusters"].num_rows == int(is_marked)
        links = subgraph(store, ["a", "b"], None, from_unix(END))
        assert links["transfer_token"].to_pylist() == ["usdc"] * is_marked


def test_a_mark_changes_answers_at_any_instant() -> None:
    with world(*ROWS) as store:
        known = store.generation()
        store.index_tokens([USDC], COMMAND)
        assert store.first_change_since(known) == 0
        known = store.generation()
        store.index_tokens([USDC], COMMAND)
        assert store.generation() == known


def test_a_token_may_be_marked_before_its_transfers() -> None:
    with world() as store:
        store.index_tokens([USDC], COMMAND)
        assert [(token.address, token.name) for token in store.read(indexed_tokens)] == [("usdc", None)]
        store.add_transfers(table(ROWS), "file")
        assert is_indexed(store)
        assert clusters(draw(store)) == [{"a", "b"}]


def test_the_strongest_source_decides() -> None:
    with world(*ROWS) as store:
        for source, is_marked in zip(reversed(SOURCES), [True, False, True, False], strict=True):
            store.index_tokens([USDC], source, is_marked)
            assert is_indexed(store) is is_marked


def test_very_many_transfers_do_not_mark_a_token() -> None:
    spam = [transfer(f"a -> b{number}", token=("eth", "spam")) for number in range(300)]
    with world(*ROWS, *spam) as store:
        assert store.read(indexed_tokens) == []


def test_other_metadata_leave_a_mark() -> None:
    with world(*ROWS) as store:
        store.index_tokens([USDC], COMMAND)
        store.add_tokens([a_token(USDC, name="Dollar")])
        assert is_indexed(store)


def test_settings_mark_tokens_until_they_no_longer_name_them(tmp_path: Path) -> None:
    with Store(tmp_path, index=[USDC]) as store:
        store.add_transfers(table(ROWS), "file")
        assert is_indexed(store)
    with Store(tmp_path) as store:
        assert is_indexed(store)
    with Store(tmp_path, index=[]) as store:
        assert not is_indexed(store)


def test_opening_with_the_same_settings_does_not_wait_for_an_import(tmp_path: Path) -> None:
    with Store(tmp_path, index=[USDC]) as store, store.change():
        Store(tmp_path, index=[USDC]).close()


def test_every_source_is_listed_with_its_tokens() -> None:
    with world(*ROWS) as store:
        store.index_tokens([USDC], IMPORT)
        store.index_tokens([COIN], SETTINGS)
        assert [(token.address, token.source) for token in store.read(indexed_tokens)] == [
            ("coin", SETTINGS),
            ("usdc", IMPORT),
        ]
