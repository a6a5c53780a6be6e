"""Evidence of clusters: exactly the links that connect them, and the transfers of these links."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import networkx as nx
import pytest

from holderlake.core.contract.requests import MapOptions
from holderlake.core.contract.times import from_unix, to_unix
from holderlake.engine.errors import NoHolders, UnknownCluster, UnknownToken, UnsupportedToken
from holderlake.engine.maps.evidence import LINKS, TRANSFERS_OF_LINKS, cluster_evidence
from holderlake.engine.store.store import Store
from tests.engine.random_worlds import TOKENS, random_oracle
from tests.engine.world import (
    COIN,
    END,
    UINT256,
    Key,
    Row,
    a_token,
    cex,
    draw,
    exactly,
    transfer,
    world,
)
from tests.helpers import flawed_histories

Build = Callable[..., Store]
LINK = ("from_address", "to_address", "transfer_chain", "transfer_token", "time_node")


def evidence(
    store: Store, at: int = END, token: Key = COIN, cluster: int | None = None, most: int = END, **options: Any
) -> tuple[list[Row], list[Row]]:
    """Return the links and their transfers as rows."""
    chosen = MapOptions.model_construct(**options)
    tables = cluster_evidence(store, *token, from_unix(at), chosen, cluster, most)
    return tables["links"].to_pylist(), tables["transfers"].to_pylist()


def link(row: Row) -> tuple[str, ...]:
    return tuple(row[name] for name in LINK)


def paths(rows: Iterable[Row]) -> list[str]:
    return [f"{row['from_address']} -> {row['to_address']}" for row in rows]


def test_links_are_ordered_by_transfers_period_and_time(build: Build) -> None:
    store = build(
        *mints("a", "b", "c", "d", "e"),
        *(transfer("a -> b", at=at) for at in (50, 51, 52)),
        *(transfer("a -> c", 100, at=at) for at in (50, 80)),
        *(transfer("a -> d", at=at) for at in (40, 60)),
        *(transfer("a -> e", at=at) for at in (30, 50)),
    )
    assert paths(evidence(store)[0]) == ["a -> b", "a -> c", "a -> e", "a -> d"]


def test_zero_value_and_later_transfers_are_no_evidence(build: Build) -> None:
    store = build(
        *mints("a", "b"),
        *(transfer("a -> b", value, at=at) for value, at in ((5, 7), (0, 8), (6, 9))),
        transfer("b -> a", 1, at=11),
    )
    links, transfers = evidence(store, at=10)
    assert paths(links) == ["a -> b"]
    assert [row["value_raw"] for row in transfers] == ["5", "6"]


def test_evidence_has_the_time_node_that_links_two_wallets(build: Build) -> None:
    store = build(*mints("a", "b"), transfer("x -> a", 5, at=10), transfer("b -> x", 7, at=20), labels=[cex("x")])
    links, _ = evidence(store)
    assert paths(links) == ["x -> a", "b -> x"]
    assert [(row["from_kind"], row["to_kind"], row["time_node"]) for row in links] == [
        ("time", "holder", 1),
        ("holder", "time", 1),
    ]
    assert evidence(store, use_time_nodes=False) == ([], [])


def test_evidence_of_a_time_node_has_only_the_transfers_in_its_window(build: Build) -> None:
    store = build(
        *mints("a", "b"),
        *(transfer("x -> a", value, at) for value, at in ((1, 9), (2, 3_600), (4, 3_700), (8, 7_200))),
        transfer("x -> b", 16, at=3_650),
        labels=[cex("x")],
    )
    links, transfers = evidence(store)
    assert [(row["total_value_raw"], row["total_transfers"]) for row in links] == [("6", 2), ("16", 1)]
    assert [row["value_raw"] for row in transfers] == ["2", "4", "16"]


# ---------------------------------------------------------------------- brute force


@pytest.mark.later(integration=7)
@pytest.mark.parametrize("seed", range(16))
def test_evidence_of_a_random_world_equals_brute_force(seed: int) -> None:
    chance = Random(1_000 + seed)
    oracle = random_oracle(chance)
    token, at = chance.choice(TOKENS), chance.randint(150, 450)
    options = {"limit": chance.randint(4, 20), "use_magic_nodes": chance.random() < 0.8}
    options["use_time_nodes"] = chance.random() < 0.7
    with world(*oracle.transfers, tokens=oracle.tokens, labels=oracle.labels, rules=oracle.rules) as store:
        if not oracle.holders(token, at):
            with pytest.raises(NoHolders):
                evidence(store, at, token)
            return
        links, transfers = evidence(store, at, token, **options)
        few_links, few = evidence(store, at, token, most=2, **options)
    drawn = oracle.map(token, at, **options)
    cluster_of = {row["address"]: row["cluster_id"] for row in drawn["cluster_members"]}
    kind_of = {row["address"]: row["kind"] for row in drawn["cluster_members"]}
    decimals = {(known.chain, known.address): known.decimals for known in oracle.tokens}

    exchanges = [row["address"] for row in drawn["map_nodes"] if row["kind"] == "time"]
    expected = [row for row in drawn["grouped_transfers"] if {row["from_address"], row["to_address"]} & set(cluster_of)]
    assert few_links == links
    assert sorted(map(link, links), key=str) == sorted(map(link, expected), key=str)
    by_link = {link(row): row for row in expected}
    for row in links:
        plain = by_link[link(row)]
        assert exactly(row, "total_value") == plain["total_value"]
        assert int(row["total_value_raw"]) == plain["total_value"] * 10 ** decimals[link(row)[2:4]]
        assert {name: row[name] for name in ("total_transfers", "first_date", "last_date")} == {
            name: plain[name] for name in ("total_transfers", "first_date", "last_date")
        }
        exchange = exchanges[row["time_node"] - 1] if row["time_node"] else None
        for end in ("from", "to"):
            address = row[f"{end}_address"]
            if address == exchange:
                assert row[f"{end}_kind"] == "time"
            else:
                assert (row["cluster_id"], row[f"{end}_kind"]) == (cluster_of[address], kind_of[address])
    assert_links_connect_their_clusters_and_nothing_else_does(drawn, links)
    assert_strongest_first(links)
    assert_transfers_add_up(links, transfers)
    earliest = {key: made[:2] for key, made in of_links(transfers).items()}
    assert of_links(few) == earliest


def assert_links_connect_their_clusters_and_nothing_else_does(drawn: dict[str, list[Row]], links: list[Row]) -> None:
    holders = {row["address"] for row in drawn["cluster_members"] if row["kind"] == "holder"}
    for cluster in drawn["clusters"]:
        number = cluster["cluster_id"]
        members = {row["address"] for row in drawn["cluster_members"] if row["cluster_id"] == number}
        tied = nx.Graph(ends(row) for row in links if row["cluster_id"] == number)
        assert {end for end in tied if isinstance(end, str)} == members
        assert nx.is_connected(tied)
    found_links = set(map(link, links))
    rest = nx.Graph(link(row)[:2] for row in drawn["grouped_transfers"] if link(row) not in found_links)
    assert holders.isdisjoint(rest)


def ends(row: Row) -> list[str | int]:
    """Return both ends of a link: addresses of wallets, numbers of time nodes."""
    return [row["time_node"] if row[f"{end}_kind"] == "time" else row[f"{end}_address"] for end in ("from", "to")]


def assert_strongest_first(links: list[Row]) -> None:
    def weakness(row: Row) -> tuple[Any, ...]:
        first, last = to_unix(row["first_date"]), to_unix(row["last_date"])
        return (-row["total_transfers"], -(last - first), first, *link(row)[:4], row["time_node"] or 0)

    assert links == sorted(links, key=lambda row: (row["cluster_id"], *weakness(row)))
    for number in {row["cluster_id"] for row in links}:
        strengths = [row["strength"] for row in links if row["cluster_id"] == number]
        assert strengths == list(range(1, len(strengths) + 1))


def assert_transfers_add_up(links: list[Row], transfers: list[Row]) -> None:
    made = of_links(transfers)
    assert list(made) == [(row["cluster_id"], *link(row)) for row in links]
    for row in links:
        of_link = made[row["cluster_id"], *link(row)]
        times = [one["block_time"] for one in of_link]
        assert sum(int(one["value_raw"]) for one in of_link) == int(row["total_value_raw"])
        assert (len(of_link), times[0], times[-1]) == (row["total_transfers"], row["first_date"], row["last_date"])
        assert times == sorted(times)


def of_links(transfers: list[Row]) -> dict[tuple[Any, ...], list[Row]]:
    grouped: dict[tuple[Any, ...], list[Row]] = {}
    for row in transfers:
        grouped.setdefault((row["cluster_id"], *link(row)), []).append(row)
    return grouped


def test_evidence_of_a_rounded_history_agrees_with_its_map(flawed_store: Store) -> None:
    token = flawed_histories.token_of("rounded_coin")
    drawn = draw(flawed_store, 2 * END, token, limit=250)
    links, transfers = evidence(flawed_store, 2 * END, token, limit=250)
    members = {row["address"] for row in drawn["cluster_members"]}
    on_map = [row for row in drawn["grouped_transfers"] if row["time_node"] is None and row["from_address"] in members]
    assert links
    assert sorted(map(link, links)) == sorted(map(link, on_map))
    assert_links_connect_their_clusters_and_nothing_else_does(drawn, links)
    assert_transfers_add_up(links, transfers)


# ---------------------------------------------------------------------- single links


def mints(*names: str) -> list[Row]:
    return [transfer(f"mint -> {name}", 1_000 - place) for place, name in enumerate(names)]


def test_a_link_has_its_ends_and_token(build: Build) -> None:
    dollar = ("bsc", "dollar")
    store = build(
        *mints("a", "b"),
        transfer("m -> a", 5, at=7),
        transfer("m -> b", 10**30, at=8, token=dollar),
        transfer("m -> b", 1, at=9, token=dollar),
        tokens=[a_token(dollar, symbol="USD", decimals=2, is_indexed=True)],
    )
    first, second = evidence(store)[0]
    assert {name: first[name] for name in ("from_address", "from_kind", "to_address", "to_kind", "strength")} == {
        "from_address": "m",
        "from_kind": "magic",
        "to_address": "b",
        "to_kind": "holder",
        "strength": 1,
    }
    assert (first["transfer_chain"], first["transfer_token"], first["token_symbol"]) == (*dollar, "USD")
    assert (first["total_value_raw"], first["total_value_exact"]) == (str(10**30 + 1), str(10**28) + ".01")
    assert (second["to_address"], second["total_transfers"], second["token_symbol"]) == ("a", 1, "coin")


def test_transfers_of_one_second_are_ordered_by_log_index(build: Build) -> None:
    places = [(2, 1), (1, 9), (2, 0), (1, 8)]
    at_once = [transfer("a -> b", at=5, block_number=block, log_index=place) for block, place in places]
    store = build(*mints("a", "b"), *at_once)
    assert [(row["block_number"], row["log_index"]) for row in evidence(store)[1]] == sorted(places)


def test_a_transfer_equals_its_stored_row(build: Build) -> None:
    row = transfer("a -> b", 1, at=9, tx_hash=None, token_id=str(UINT256), block_number=4, log_index=6)
    store = build(*mints("a", "b"), row)
    (found_links,) = evidence(store)[1]
    assert found_links == {
        "cluster_id": 1,
        "from_address": "a",
        "to_address": "b",
        "transfer_chain": "eth",
        "transfer_token": "coin",
        "time_node": None,
        "tx_hash": None,
        "block_number": 4,
        "block_time": from_unix(9),
        "log_index": 6,
        "token_id": str(UINT256),
        "value_raw": "1",
    }


# ---------------------------------------------------------------------- which clusters


def test_evidence_of_one_cluster(build: Build) -> None:
    store = build(*mints("a", "b", "c", "d"), transfer("a -> b"), transfer("c -> d"))
    all_links, all_transfers = evidence(store)
    assert [row["cluster_id"] for row in all_links] == [1, 2]
    links, transfers = evidence(store, cluster=2)
    assert (links, transfers) == (all_links[1:], all_transfers[1:])


@pytest.mark.parametrize("cluster", [-1, 0, 2])
def test_an_unknown_cluster_is_an_error_with_the_number_of_clusters(build: Build, cluster: int) -> None:
    store = build(*mints("a", "b"), transfer("a -> b"))
    with pytest.raises(UnknownCluster, match=f"has no cluster {cluster} at .* name a cluster from 1 to 1") as caught:
        evidence(store, cluster=cluster)
    assert caught.value.code == "unknown_cluster"


def test_evidence_has_the_errors_of_its_map(build: Build) -> None:
    store = build(transfer("mint -> a", at=5), tokens=[a_token(("eth", "odd"), unsupported="it rebases")])
    for key, error, at in (
        (COIN, NoHolders, 4),
        (("eth", "no"), UnknownToken, 5),
        (("eth", "odd"), UnsupportedToken, 5),
    ):
        with pytest.raises(error):
            evidence(store, at, key)


@pytest.mark.parametrize("most", [0, 5])
def test_empty_evidence_has_the_same_schema(build: Build, most: int) -> None:
    store = build(*mints("a", "b"), transfer("a -> b", at=5))
    for at in (4, 5):
        tables = cluster_evidence(store, *COIN, from_unix(at), MapOptions(), None, most)
        assert tables["links"].num_rows == at - 4
        assert tables["links"].schema.equals(LINKS, check_metadata=True)
        assert tables["transfers"].schema.equals(TRANSFERS_OF_LINKS, check_metadata=True)
