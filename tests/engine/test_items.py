"""Items of NFTs: the holders of an item and the items of an address equal brute force."""

from __future__ import annotations

from collections import Counter
from random import Random

import pyarrow as pa
import pytest

from holderlake.core.contract.times import from_unix
from holderlake.engine.catalog.opening_balances import OPENING_BALANCES
from holderlake.engine.errors import NoHolders, UnknownToken
from holderlake.engine.queries.items import holders_of_item, items_of_address
from holderlake.engine.store.store import Store
from tests.engine.world import COIN, END, UINT256, Key, Row, table, transfer, world
from tests.helpers import flawed_histories


def moved(path: str, item: int = 1, at: int = 1, value: int = 1, standard: str = "erc721", **more: object) -> Row:
    return transfer(path, value, at, token_id=str(item), token_standard=standard, **more)


def holders(store: Store, item: int, at: int = END, token: Key = COIN) -> list[tuple[str, int]]:
    rows = holders_of_item(store, *token, item, from_unix(at)).to_pylist()
    return [(row["address"], int(row["quantity"])) for row in rows]


def items(store: Store, address: str, at: int = END, **only: str) -> list[tuple[str, int, int]]:
    rows = items_of_address(store, address, from_unix(at), **only).to_pylist()
    return [(row["token_address"], int(row["token_id"]), int(row["quantity"])) for row in rows]


# ---------------------------------------------------------------------- small worlds


def test_the_latest_receiver_holds_an_item() -> None:
    with world(moved("mint -> a", at=5), moved("a -> b", at=9), moved("b -> c", at=20)) as store:
        assert [holders(store, 1, at) for at in (5, 8, 9, 20)] == [[("a", 1)], [("a", 1)], [("b", 1)], [("c", 1)]]
        with pytest.raises(NoHolders, match="item 1"):
            holders(store, 1, 4)
        assert (items(store, "a", 8), items(store, "a", 9)) == ([("coin", 1, 1)], [])


def test_transfers_in_one_block_are_ordered_by_log_index() -> None:
    rows = [moved("mint -> a"), moved("b -> c", at=2, log_index=7), moved("a -> b", at=2, log_index=3)]
    with world(*rows) as store:
        assert holders(store, 1) == [("c", 1)]
        assert (items(store, "b"), items(store, "c")) == ([], [("coin", 1, 1)])


def test_a_burnt_item_has_no_holder() -> None:
    with world(moved("mint -> a"), moved("a -> burn", at=2)) as store:
        with pytest.raises(NoHolders):
            holders(store, 1)
        assert items(store, "a") == []


def test_quantities_of_an_erc1155_item_are_exact() -> None:
    many = {"standard": "erc1155"}
    rows = [
        moved("mint -> a", UINT256, 1, UINT256, **many),
        moved("a -> b", UINT256, 2, 5, **many),
        moved("mint -> a", 7, 3, 2, **many),
    ]
    with world(*rows) as store:
        assert holders(store, UINT256) == [("a", UINT256 - 5), ("b", 5)]
        assert items(store, "a") == [("coin", 7, 2), ("coin", UINT256, UINT256 - 5)]


def test_items_of_all_tokens_or_of_one_are_listed() -> None:
    other = ("bsc", "other")
    rows = [
        moved("mint -> a", 2),
        moved("mint -> a", 10),
        moved("mint -> a", 3, token=other),
        transfer("mint -> a", 9, token=("eth", "fern")),
    ]
    with world(*rows) as store:
        assert items(store, "a") == [("other", 3, 1), ("coin", 2, 1), ("coin", 10, 1)]
        assert items(store, "a", chain="eth") == [("coin", 2, 1), ("coin", 10, 1)]
        assert items(store, "a", chain="bsc", token_address="other") == [("other", 3, 1)]
        assert items(store, "unknown") == []


def test_a_token_without_items_has_no_holders_of_items() -> None:
    with world(transfer("mint -> a", 9)) as store:
        with pytest.raises(NoHolders, match="has no items"):
            holders(store, 1)
        with pytest.raises(UnknownToken):
            holders(store, 1, token=("eth", "unknown"))


def test_items_of_opening_balances_count() -> None:
    rows = [("eth", "coin", address, "1", 10, 10, item, "erc721") for address, item in (("a", "1"), ("a", "2"))]
    given = pa.Table.from_pylist(
        [dict(zip(OPENING_BALANCES.names, row, strict=True)) for row in rows], OPENING_BALANCES
    )
    with world() as store:
        store.add_opening_balances(given)
        assert items(store, "a") == [("coin", 1, 1), ("coin", 2, 1)]
        store.add_transfers(table([moved("a -> b", 2, 20)]), "file")
        assert (holders(store, 1), holders(store, 2)) == ([("a", 1)], [("b", 1)])
        assert (items(store, "a", 15), items(store, "a")) == ([("coin", 1, 1), ("coin", 2, 1)], [("coin", 1, 1)])


# ---------------------------------------------------------------------- histories with flaws


@pytest.mark.parametrize("name", flawed_histories.CLEAN)
def test_holders_of_many_items_equal_brute_force(name: str, flawed_store: Store) -> None:
    rows, token, chance = flawed_histories.history(name), flawed_histories.token_of(name), Random(name)
    seconds = sorted(row["block_time"] for row in rows)
    for at in (seconds[len(seconds) // 3], seconds[-1]):
        expected = flawed_histories.owners(rows, at)
        for item in chance.sample(sorted(expected), 8):
            assert holders(flawed_store, item, at, token) == [(expected[item], 1)]
        counts = Counter(expected.values())
        for address in [*dict(counts.most_common(2)), *chance.sample(sorted(counts), 3)]:
            found = items(flawed_store, address, at, chain=token[0], token_address=token[1])
            assert found == [(token[1], item, 1) for item, owner in sorted(expected.items()) if owner == address]


def test_two_moves_of_an_item_in_one_block_give_the_last_receiver(flawed_store: Store) -> None:
    rows, token = flawed_histories.history("items"), flawed_histories.token_of("items")
    moves = Counter((row["token_id"], row["block_number"]) for row in rows)
    twice = [int(item) for (item, _), count in moves.items() if count > 1]
    expected = flawed_histories.owners(rows, 2 * END)
    assert UINT256 in twice
    for item in twice:
        assert holders(flawed_store, item, 2 * END, token) == [(expected[item], 1)]
