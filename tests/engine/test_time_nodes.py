"""Time nodes: an exchange in one window of time, which links the wallets that used it then."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest

from holderlake.core.contract.rules import Rules
from holderlake.core.contract.times import from_unix, to_unix
from holderlake.engine.records import Label
from holderlake.engine.store.store import Store
from tests.engine.world import (
    Row,
    a_token,
    cex,
    clusters,
    contract,
    dex,
    draw,
    exactly,
    figures,
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


def test_wallets_of_different_windows_are_not_linked(build: Build) -> None:
    store = build(*market(transfer("a -> x", 5, 7_199), transfer("b -> x", 3, 7_200)), labels=[cex("x")], rules=HOUR)
    assert nodes(draw(store), "time") == []


def test_each_window_is_a_separate_node(build: Build) -> None:
    store = build(
        *market(
            transfer("a -> x", 5, 10),
            transfer("b -> x", 5, 20),
            transfer("a -> x", 7, 3_610),
            transfer("c -> x", 7, 3_620),
        ),
        labels=[cex("x")],
        rules=HOUR,
    )
    drawn = draw(store)
    assert nodes(drawn, "time") == ["x", "x"]
    assert [row["time_node"] for row in drawn["map_nodes"] if row["kind"] == "time"] == [1, 2]
    assert links(drawn, time_node=1) == ["a -> x", "b -> x"]
    assert links(drawn, time_node=2) == ["a -> x", "c -> x"]


def test_relationships_of_a_time_node_are_grouped_by_window(build: Build) -> None:
    store = build(
        *market(
            transfer("a -> x", 5, 10),
            transfer("a -> x", 2, 30),
            transfer("b -> x", 1, 20),
            transfer("a -> x", 9, 4_000),
        ),
        labels=[cex("x")],
        rules=HOUR,
    )
    row = next(row for row in draw(store)["grouped_transfers"] if row["from_address"] == "a")
    assert (exactly(row, "total_value"), row["total_transfers"]) == (7, 2)
    assert (row["first_date"], row["last_date"]) == (from_unix(10), from_unix(30))


def test_wallets_that_used_an_exchange_in_one_window_are_a_cluster(build: Build) -> None:
    store = build(*market(transfer("a -> x", 5, 10), transfer("x -> b", 5, 20)), labels=[cex("x")])
    drawn = draw(store)
    assert clusters(drawn) == [{"a", "b"}]
    assert links(drawn) == []
    assert [(row["holder_count"], row["magic_node_count"]) for row in drawn["clusters"]] == [(2, 0)]


def test_a_cluster_by_time_nodes_is_one_group_in_the_score(build: Build) -> None:
    store = build(*market(transfer("x -> a", 10, 10), transfer("x -> b", 20, 20)), labels=[cex("x")])
    linked, alone = (figures(draw(store, use_time_nodes=option)) for option in (True, False))
    assert linked["herfindahl_hirschman_index"] == pytest.approx((200**2 + 70**2) / 270**2)
    assert alone["herfindahl_hirschman_index"] == pytest.approx((100**2 + 100**2 + 70**2) / 270**2)
    assert linked["service_score"] < alone["service_score"]
    assert (linked["bundles"] > 0, alone["bundles"]) == (True, 0)


def test_without_time_nodes_only_transfers_make_clusters(build: Build) -> None:
    store = build(*market(transfer("a -> x", 5, 10), transfer("x -> b", 5, 20)), labels=[cex("x")])
    drawn = draw(store, use_time_nodes=False)
    assert (drawn["clusters"], drawn["cluster_members"]) == ([], [])


def test_two_windows_of_an_exchange_connect_only_their_own_users(build: Build) -> None:
    store = build(
        *market(transfer("mint -> d", 60)),
        *(transfer(f"{name} -> x", 1, at) for name, at in (("a", 10), ("b", 20), ("c", 3_610), ("d", 3_620))),
        labels=[cex("x")],
        rules=HOUR,
    )
    assert clusters(draw(store)) == [{"a", "b"}, {"c", "d"}]


def test_a_magic_node_that_used_the_exchange_is_linked_to_the_time_node(build: Build) -> None:
    store = build(
        *market(transfer("mint -> d", 60)),
        *(transfer(path, 1, 5) for path in ("m -> c", "m -> d")),
        *(transfer(f"{name} -> x", 1, at) for name, at in (("a", 10), ("b", 20), ("m", 30))),
        labels=[cex("x")],
    )
    drawn = draw(store)
    assert links(drawn, time_node=1) == ["a -> x", "b -> x", "m -> x"]
    assert (clusters(drawn), clusters(drawn, "magic")) == ([{"a", "b", "c", "d"}], [{"m"}])


def test_a_holder_and_a_magic_node_alone_share_no_time_node(build: Build) -> None:
    store = build(
        *market(*(transfer(path, 1, 5) for path in ("m -> b", "m -> c", "a -> x", "m -> x"))), labels=[cex("x")]
    )
    assert nodes(draw(store), "time") == []


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


def test_time_nodes_can_be_turned_off(build: Build) -> None:
    store = build(*market(transfer("a -> x", 5, 10), transfer("b -> x", 5, 20)), labels=[cex("x")])
    drawn = draw(store, use_time_nodes=False)
    assert (nodes(drawn, "time"), drawn["grouped_transfers"]) == ([], [])


def test_time_nodes_do_not_need_magic_nodes(build: Build) -> None:
    store = build(*market(transfer("a -> x", 5, 10), transfer("b -> x", 5, 20)), labels=[cex("x")])
    assert nodes(draw(store, use_magic_nodes=False), "time") == ["x"]


@pytest.mark.parametrize(("label", "found"), [(cex, ["x"]), (dex, ["x"]), (contract, [])])
def test_exchanges_are_split_into_windows_and_plain_contracts_are_not(
    build: Build, label: Callable[[str], Label], found: list[str]
) -> None:
    store = build(*market(transfer("a -> x", 5, 10), transfer("b -> x", 5, 20)), labels=[label("x")])
    assert nodes(draw(store), "time") == found


def test_an_allow_listed_contract_counts_as_an_exchange(build: Build) -> None:
    store = build(
        *market(transfer("a -> x", 5, 10), transfer("b -> x", 5, 20)),
        labels=[contract("x")],
        rules=Rules(time_allowed=frozenset({"x"})),
    )
    assert nodes(draw(store), "time") == ["x"]


@pytest.mark.parametrize("limit", [3, 4])
def test_an_exchange_with_or_without_a_top_rank_makes_time_nodes(build: Build, limit: int) -> None:
    store = build(*market(transfer("a -> x", 5, 10), transfer("b -> x", 5, 20)), labels=[cex("x")])
    assert nodes(draw(store, limit=limit), "time") == ["x"]


def test_an_exchange_without_a_balance_makes_time_nodes(build: Build) -> None:
    gas = ("eth", "gas")
    store = build(
        *market(transfer("x -> a", 5, 10, token=gas), transfer("x -> b", 5, 20, token=gas)),
        tokens=[a_token(gas, is_indexed=True)],
        labels=[cex("x")],
        rules=Rules(magic_links=3),
    )
    assert nodes(draw(store), "time") == ["x"]


@pytest.mark.parametrize(("needed", "found"), [(1, ["x"]), (2, ["x"]), (3, [])])
def test_the_rules_set_the_least_number_of_users(build: Build, needed: int, found: list[str]) -> None:
    store = build(
        *market(transfer("a -> x", 5, 10), transfer("b -> x", 5, 20), transfer("b -> x", 5, 30)),
        labels=[cex("x")],
        rules=Rules(time_links=needed),
    )
    assert nodes(draw(store), "time") == found


def test_only_shown_holders_count_as_users(build: Build) -> None:
    store = build(
        *market(transfer("a -> x", 5, 10), transfer("b -> x", 5, 20), transfer("stranger -> x", 5, 30)),
        labels=[cex("x"), contract("b")],
    )
    assert nodes(draw(store), "time") == []


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


def test_the_most_shared_windows_come_first_up_to_the_limit(build: Build) -> None:
    store = build(
        *market(
            *(transfer(f"{name} -> y", 1, 10) for name in "abc"),
            *(transfer(f"{name} -> x", 1, 10) for name in "ab"),
            *(transfer(f"{name} -> x", 1, 3_610) for name in "bc"),
            *(transfer(f"{name} -> z", 1, 10) for name in "ab"),
        ),
        labels=[cex("x"), cex("y"), cex("z")],
        rules=Rules(time_window=3_600, time_limit=3),
    )
    assert nodes(draw(store), "time") == ["y", "x", "x"]


def test_a_time_node_has_only_an_address(build: Build) -> None:
    store = build(*market(transfer("a -> x", 5, 10), transfer("b -> x", 5, 20)), labels=[cex("x")])
    (row,) = [row for row in draw(store)["map_nodes"] if row["kind"] == "time"]
    filled = {name for name, value in row.items() if value is not None}
    assert filled == {"chain", "as_of", "token_address", "kind", "address", "time_node"}


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
