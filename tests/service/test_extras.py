"""Answers beyond the contract: raw amounts, pages of holders, evidence, changes, labels, usage, items."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from holderlake.core.contract import exact_json
from holderlake.core.contract.models import Holder, Map
from holderlake.core.contract.requests import MapOptions
from holderlake.core.contract.rules import MapRules
from holderlake.core.contract.times import from_unix
from holderlake.engine.catalog.rules import rules_in_force
from holderlake.engine.maps.maps import map_as_of
from holderlake.engine.queries.balances import balances_as_of
from holderlake.service.api.answers import raw_units
from holderlake.service.extra_models import (
    AddressItems,
    AddressLabels,
    Evidence,
    HoldersPage,
    ItemHolders,
    MapChanges,
    OwnerClusters,
    Usage,
    VerifiedTokens,
)
from holderlake.service.output.render import token_map
from holderlake.sources.rpc.verified import record
from holderlake.sources.rpc.verify import NodeCheck
from tests.engine.world import COIN, END, a_token, transfer
from tests.engine.world import world as world_of
from tests.service.conftest import DAY, UNIT, Caller, World


def _get(caller: Caller, path: str, **query: Any) -> Any:
    answer = caller.http.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer


# ------------------------------------------------------------------------ raw integers


def test_raw_amounts_are_the_chains_integers(caller, world):
    query = {"return_raw_amounts": True}
    answer = _get(caller, f"/v0/tokens/holders/eth/{world.wide}", **query)
    (holder,) = exact_json.decode(answer.content, list[Holder])
    assert holder.holder_data.amount_raw == str(world.wide_amount)


def test_raw_amounts_only_on_request(caller, world):
    assert b"_raw" not in _get(caller, f"/v0/tokens/holders/eth/{world.token}").content
    assert b"_raw" not in _get(caller, f"/v0/tokens/map/eth/{world.token}", return_nodes=True).content


def test_map_has_raw_amounts_of_holders_clusters_and_transfers(caller, world):
    query = {"return_nodes": True, "return_relationships": True, "return_raw_amounts": True}
    found = exact_json.decode(_get(caller, f"/v0/tokens/map/eth/{world.token}", **query).content, Map)
    held = dict(balances_as_of(world.store, "eth", world.token, from_unix(2_000_000_000)).holders)
    shown = {node.address: int(node.holder_data.amount_raw) for node in found.nodes.top_holders}
    assert shown == held
    for cluster in found.clusters:
        assert int(cluster.amount_raw) == sum(shown[address] for address in cluster.holders)
    for link in found.relationships:
        assert int(link.data.total_value_raw) == link.data.total_value * UNIT


def test_a_transfer_of_another_token_has_the_decimals_of_that_token():
    fine = ("eth", "fine")
    rows = [transfer("mint -> a", 10), transfer("mint -> b", 5), transfer("a -> b", 7, at=2, token=fine)]
    with world_of(*rows, tokens=[a_token(COIN), a_token(fine, decimals=6, is_indexed=True)]) as store:
        options = MapOptions(return_relationships=True)
        tables = map_as_of(store, *COIN, from_unix(END), options, from_unix(END))
        (link,) = token_map(tables, options, raw_units(store, *COIN, tables))["relationships"]
    assert (link["data"]["total_value"], link["data"]["total_value_raw"]) == (Decimal("0.000007"), "7")


# ------------------------------------------------------------------------ pages of holders


def _pages(caller: Caller, world: World, **query: Any) -> list[HoldersPage]:
    path = f"/v0/x/tokens/holders/eth/{world.token}"
    pages = [exact_json.decode(_get(caller, path, **query).content, HoldersPage)]
    while pages[-1].next_cursor:
        rest = {name: value for name, value in query.items() if name != "timestamp"}
        answer = _get(caller, path, **rest, cursor=pages[-1].next_cursor)
        pages.append(exact_json.decode(answer.content, HoldersPage))
    return pages


def test_pages_contain_all_holders_by_rank(caller, world):
    whole = _pages(caller, world)[0].holders
    assert [holder.holder_data.rank for holder in whole] == list(range(1, len(whole) + 1))
    for size in (1, 2, 3, 100):
        paged = [holder for page in _pages(caller, world, limit=size) for holder in page.holders]
        assert paged == whole


def test_all_pages_show_the_instant_of_the_first(caller, world):
    past = world.begin + 2 * DAY
    pages = _pages(caller, world, limit=2, timestamp=past)
    assert {page.as_of for page in pages} == {past}
    held = balances_as_of(world.store, "eth", world.token, from_unix(past)).holders
    raw = [(holder.address, int(holder.holder_data.amount_raw)) for page in pages for holder in page.holders]
    assert raw == held


def test_next_cursor_is_also_in_a_header(caller, world):
    answer = _get(caller, f"/v0/x/tokens/holders/eth/{world.token}", limit=1)
    assert answer.headers["X-Next-Cursor"] == answer.json()["next_cursor"]


@pytest.mark.parametrize("change", ["AAAA", "{valid}x", "x{valid}", "{valid}{valid}"])
def test_forged_cursor_is_not_found(caller, world, change):
    path = f"/v0/x/tokens/holders/eth/{world.token}"
    valid = _get(caller, path, limit=1).json()["next_cursor"]
    answer = caller.http.get(path, params={"cursor": change.replace("{valid}", valid)})
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_cursor")


def test_cursor_of_another_token_is_not_found(caller, world):
    cursor = _get(caller, f"/v0/x/tokens/holders/eth/{world.token}", limit=1).json()["next_cursor"]
    answer = caller.http.get(f"/v0/x/tokens/holders/eth/{world.young}", params={"cursor": cursor})
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_cursor")


def test_cursor_with_another_timestamp_is_refused(caller, world):
    path = f"/v0/x/tokens/holders/eth/{world.token}"
    cursor = _get(caller, path, limit=1).json()["next_cursor"]
    answer = caller.http.get(path, params={"cursor": cursor, "timestamp": world.begin})
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_cursor")
    first = _get(caller, path, limit=1, timestamp=world.begin + DAY).json()
    _get(caller, path, limit=1, timestamp=first["as_of"], cursor=first["next_cursor"])


@pytest.mark.parametrize(("limit", "cost"), [(1, 6_00), (100, 6_00), (101, 11_00), (10_000, 501_00)])
def test_page_price_is_by_the_hundred(caller, world, limit, cost):
    _get(caller, f"/v0/x/tokens/holders/eth/{world.token}", limit=limit)
    assert caller.spent == cost


# ------------------------------------------------------------------------ evidence


def test_evidence_lists_the_transfers_of_a_cluster(caller, world):
    answer = _get(caller, f"/v0/x/tokens/evidence/eth/{world.token}")
    found = exact_json.decode(answer.content, Evidence)
    first, second, third = found.clusters
    a, b, c, d, e, f = world.wallets
    (link,) = first.links if first.links[0].from_address == a else second.links
    assert (link.from_address, link.to_address, link.from_kind, link.to_kind) == (a, b, "holder", "holder")
    assert [transfer.value_raw for transfer in link.transfers] == [str(300 * UNIT + 1)]
    by_magic = second if first.links == [link] else first
    assert {(one.from_kind, one.to_kind) for one in by_magic.links} == {("holder", "magic"), ("magic", "holder")}
    assert {one.from_address for one in by_magic.links} | {one.to_address for one in by_magic.links} == {
        c,
        d,
        world.magic,
    }
    assert [(one.from_address, one.to_address, one.from_kind, one.to_kind, one.time_node) for one in third.links] == [
        (e, world.cex, "holder", "time", 1),
        (world.cex, f, "time", "holder", 1),
    ]
    without = _get(caller, f"/v0/x/tokens/evidence/eth/{world.token}", use_time_nodes="false").json()
    assert len(without["clusters"]) == 2


def test_evidence_covers_each_cluster_of_the_map(caller, world):
    clusters = _get(caller, f"/v0/tokens/map/eth/{world.token}").json()["clusters"]
    found = _get(caller, f"/v0/x/tokens/evidence/eth/{world.token}").json()["clusters"]
    for cluster, evidence in zip(clusters, found, strict=True):
        links = evidence["links"]
        tied = {link[f"{end}_address"] for link in links for end in ("from", "to") if link[f"{end}_kind"] != "time"}
        assert tied == {*cluster["holders"], *cluster["magic_nodes"]}


def test_clusters_of_one_owner_have_the_links_behind_them(caller, world):
    path = f"/v0/x/tokens/clusters/eth/{world.token}"
    found = exact_json.decode(_get(caller, path, confidence=0.3).content, OwnerClusters)
    a, _, c, *_ = world.wallets
    assert [cluster.holders for cluster in found.clusters] == [[a, c]], "d is joined to no other holder"
    assert found.clusters[0].share == pytest.approx((700 + 495) / 2800)
    assert {(link.address, link.kind, link.through) for link in found.clusters[0].links} >= {(a, "direct", c)}
    assert found.entities_as_of == world.begin + 31 * DAY
    assert found.least_confidence == 0.3
    assert exact_json.decode(_get(caller, path, confidence=0.31).content, OwnerClusters).clusters == []
    assert all(not cluster["links"] for cluster in _get(caller, path, confidence=0.3, links=0).json()["clusters"])


@pytest.mark.integration
def test_a_store_without_entities_says_how_to_find_them(own_world, start):
    (own_world.store.root / "entities" / "entity_searches.parquet").unlink()
    answer = start(store=own_world.store).caller().http.get(f"/v0/x/tokens/clusters/eth/{own_world.token}")
    assert (answer.status_code, answer.json()["code"]) == (404, "no_entities")
    assert "holderlake store entities" in answer.json()["detail"]


def test_evidence_of_one_cluster(caller, world):
    path = f"/v0/x/tokens/evidence/eth/{world.token}"
    assert [one["cluster_id"] for one in _get(caller, path, cluster=2).json()["clusters"]] == [2]
    answer = caller.http.get(path, params={"cluster": 99})
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_cluster")


# ------------------------------------------------------------------------ changes


def test_changes_list_arrivals_departures_and_amounts(caller, world):
    query = {"before": world.begin, "after": world.begin + 5 * DAY}
    found = exact_json.decode(_get(caller, f"/v0/x/tokens/changes/eth/{world.token}", **query).content, MapChanges)
    before = dict(balances_as_of(world.store, "eth", world.token, from_unix(query["before"])).holders)
    after = dict(balances_as_of(world.store, "eth", world.token, from_unix(query["after"])).holders)
    assert found.counts.entered == len(set(after) - set(before))
    assert (found.counts.holders_before, found.counts.holders_after) == (len(before), len(after))
    for one in found.holders:
        assert int(one.amount_change_raw) == after.get(one.address, 0) - before.get(one.address, 0)
    assert {one.change for one in found.clusters} == {"born"}


def test_instants_in_reverse_order_are_swapped(caller, world):
    path = f"/v0/x/tokens/changes/eth/{world.token}"
    early, late = world.begin, world.begin + 5 * DAY
    assert _get(caller, path, before=late, after=early).json() == _get(caller, path, before=early, after=late).json()


@pytest.mark.parametrize("beyond", [0, 10**9])
def test_equal_instants_have_no_changes(caller, world, beyond):
    query = {"before": world.begin + 2 * DAY} if not beyond else {"before": 2_000_000_000 + beyond}
    query |= {"after": query["before"]}
    found = exact_json.decode(_get(caller, f"/v0/x/tokens/changes/eth/{world.token}", **query).content, MapChanges)
    assert found.holders == []
    assert found.counts.same == found.counts.holders_before == found.counts.holders_after > 0


# ------------------------------------------------------------------------ labels and usage


def test_labels_have_their_sources(custom, world):
    answer = _get(custom, f"/v0/x/addresses/labels/{world.cex}")
    found = exact_json.decode(answer.content, AddressLabels)
    assert [(one.source, one.label, one.is_cex) for one in found.labels] == [("test", "Some Exchange", True)]


def test_usage_of_the_month_is_free(caller, world):
    _get(caller, "/v0/chains")
    _get(caller, f"/v0/tokens/holders/eth/{world.token}")
    assert caller.spent == 1_01
    found = exact_json.decode(_get(caller, "/v0/x/usage").content, Usage)
    assert (found.spent, found.remaining) == (1_01, caller.key.allowance - 1_01)
    assert {line.endpoint: line.hundredths for line in found.charged} == {"chains": 1, "holders": 1_00}
    assert caller.spent == 1_01


# ------------------------------------------------------------------------ items of NFTs


def _item(caller: Caller, world: World, **query: Any) -> Any:
    return caller.http.get(f"/v0/x/tokens/items/eth/{world.nft}", params=query)


def test_item_holder_as_of_an_instant(caller, world):
    first, second = world.collectors
    now, then = (_item(caller, world, token_id="007", **at) for at in ({}, {"timestamp": world.begin + DAY - 1}))
    assert [(one.address, one.quantity, one.since) for one in exact_json.decode(now.content, ItemHolders).holders] == [
        (second, "1", world.begin + DAY)
    ]
    assert [one.address for one in exact_json.decode(then.content, ItemHolders).holders] == [first]
    assert caller.spent == 1_00 + 1_00 + 50_00


def test_item_without_holder_is_not_found_and_free(caller, world):
    answer = _item(caller, world, token_id=2**256 - 1)
    assert (answer.status_code, answer.json()["code"]) == (404, "no_holders")
    assert str(2**256 - 1) in answer.json()["detail"]
    assert _item(caller, world, token_id="0x7").status_code == 422
    answer = caller.http.get(f"/v0/x/tokens/items/eth/{world.token}", params={"token_id": 7})
    assert (answer.status_code, answer.json()["code"]) == (404, "no_holders")
    assert caller.spent == 0


def test_items_of_an_address_as_of_an_instant(caller, world):
    first, second = world.collectors
    path = "/v0/x/addresses/items/"
    found = exact_json.decode(_get(caller, path + second).content, AddressItems)
    assert [(one.chain, one.token_address, one.token_id) for one in found.items] == [("eth", world.nft, "7")]
    assert (found.total, found.next_offset) == (1, None)
    assert exact_json.decode(_get(caller, path + first).content, AddressItems).items == []
    past = _get(caller, path + first, timestamp=world.begin, chain="eth", token_address=world.nft)
    assert exact_json.decode(past.content, AddressItems).total == 1
    assert _get(caller, path + second, offset=1).json()["items"] == []
    assert _get(caller, path + second, token_address=world.token).json()["items"] == []


def test_checks_against_a_node_are_free(caller, world):
    spent = caller.spent
    assert _get(caller, "/v0/x/verified").json() == {"tokens": []}
    found = NodeCheck("eth", [world.token], "node.example", first=1, last=9, as_of=from_unix(100), blocks=9, events=3)
    record(world.store.root, found, from_unix(200))
    try:
        answer = _get(caller, "/v0/x/verified")
    finally:
        (world.store.root / "verified.parquet").unlink()
    (check,) = exact_json.decode(answer.content, VerifiedTokens).tokens
    assert (check.token_address, check.is_complete, check.balances) == (world.token, True, "unknown")
    assert (check.as_of, check.checked_at, check.source) == (100, 200, "node.example")
    assert caller.spent == spent


def test_rules_are_free(caller, world):
    spent = caller.spent
    answer = _get(caller, "/v0/x/rules")
    assert answer.json() == rules_in_force(world.store.rules)
    assert exact_json.decode(answer.content, MapRules).supernode_degree == world.store.rules.supernode_degree
    assert caller.spent == spent
