"""Time nodes: an exchange in one window of time, which links the wallets that used it then."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest

from holderlake.core.contract.rules import Rules
from holderlake.core.contract.times import to_unix
from holderlake.engine.store.store import Store
from tests.engine.world import (
    Row,
    a_token,
    cex,
    clusters,
    draw,
    links,
    nodes,
    transfer,
)
from tests.helpers.sample import the_world

Build = Callable[..., Store]
HOUR = Rules(time_window=3_600)


def market(*transfers: Row) -> list[Row]:
    """Return the mints of three holders, and more transfers."""
    return [transfer("mint -> a", 90), transfer("mint -> b", 80), transfer("mint -> c", 70), *transfers]


def test_a_time_node_links_wallets_of_one_window(build: Build) -> None:
    store = build(*market(transfer("a -> x", 5, 7_200), transfer("x -> b", 3, 10_799)), labels=[cex("x")], rules=HOUR)
    drawn = draw(store)
    assert nodes(drawn, "time") == ["x"]
    assert links(drawn, time_node=1) == ["a -> x", "x -> b"]


def test_a_window_with_too_many_counterparties_links_no_wallets(build: Build) -> None:
    """Wallets without the token count too, and transfers of any token."""
    spam = ("bsc", "spam")
    store = build(
        *market(transfer("a -> x", 5, 10), transfer("b -> x", 5, 20)),
        transfer("x -> s1", 1, 30, token=spam),
        transfer("s1 -> x", 1, 31),
        transfer("s2 -> x", 1, 40, token=spam),
        transfer("s3 -> x", 1, 3_600),
        labels=[cex("x")],
        rules=Rules(time_wallets=3),
    )
    assert clusters(draw(store, at=39)) == [{"a", "b"}]
    crowded = draw(store, at=40)
    assert (nodes(crowded, "time"), clusters(crowded)) == ([], [])


def test_an_exchange_without_a_balance_makes_time_nodes(build: Build) -> None:
    gas = ("eth", "gas")
    store = build(
        *market(transfer("x -> a", 5, 10, token=gas), transfer("x -> b", 5, 20, token=gas)),
        tokens=[a_token(gas, is_indexed=True)],
        labels=[cex("x")],
        rules=Rules(magic_links=3),
    )
    assert nodes(draw(store), "time") == ["x"]


def test_a_supernode_does_not_use_an_exchange_that_is_a_supernode(build: Build) -> None:
    """Relationships between two supernodes do not count, so no use is left."""
    rules = Rules(supernode_degree=3)
    busy = [transfer(f"{end}{number} -> {end}", 5, token=("eth", "gas")) for end in ("a", "x") for number in range(3)]
    store = build(*market(transfer("a -> x", 5, 10), transfer("b -> x", 5, 20), *busy), labels=[cex("x")], rules=rules)
    assert nodes(draw(store), "time") == []
    store.add_transfers(
        build(transfer("c -> x", 5, 30)).query("SELECT * FROM read_parquet($files)"), "one more ordinary wallet"
    )
    drawn = draw(store)
    assert nodes(drawn, "time") == ["x"]
    assert links(drawn, time_node=1) == ["b -> x", "c -> x"]


@pytest.fixture(scope="module")
def driftwood(tmp_path_factory: pytest.TempPathFactory) -> Callable[[datetime, int | None], list[int]]:
    """Return the holders of each cluster of Driftwood's map, with windows of a length or without any."""
    world, folder = the_world(), tmp_path_factory.mktemp("driftwood")
    with Store(folder, world.rules) as store:
        store.add_tokens(world.tokens)
        store.add_labels(world.labels)
        store.add_transfers(world.transfers, "sample")
    (token,) = (token for token in world.tokens if token.name == "Driftwood")

    def sizes(at: datetime, window: int | None) -> list[int]:
        with Store(folder, world.rules.model_copy(update={"time_window": window or 1})) as store:
            drawn = draw(store, to_unix(at), (token.chain, token.address), use_time_nodes=window is not None)
        return sorted((row["holder_count"] for row in drawn["clusters"]), reverse=True)

    return sizes


@pytest.mark.parametrize(
    ("at", "without", "of_minutes", "of_an_hour"),
    [
        (datetime(2025, 8, 11), [7], [7, 2, 2], [8, 6, 4, 2, 2]),
        (datetime(2025, 9, 1), [7], [7, 6, 4, *[2] * 6], [53, 7]),
        (datetime(2026, 6, 1), [7], [7, 4, 3, 3, *[2] * 7], [46, 7, 2, 2]),
    ],
)
def test_narrow_windows_do_not_fuse_the_traders_of_a_pool(
    driftwood: Callable[[datetime, int | None], list[int]],
    at: datetime,
    without: list[int],
    of_minutes: list[int],
    of_an_hour: list[int],
) -> None:
    """The figures in docs/engine.md."""
    assert [driftwood(at, window) for window in (None, Rules().time_window, 3_600)] == [without, of_minutes, of_an_hour]
