"""Answers of every shape that the contract allows are read into one set of models; others are refused."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from holderlake.core.contract.exact_json import MalformedAnswer, decode
from holderlake.core.contract.models import (
    Chain,
    GroupedTransfer,
    Holder,
    Map,
    Relationship,
    Screenshot,
    Token,
    UnknownRelationship,
)
from tests.core.contract.answers import ALICE, BOB, TOKEN, details, holder, older_map, scores, token_map, transfer


def read(plain: Any, shape: Any) -> Any:
    return decode(json.dumps(plain).encode(), shape)


def scored(**chosen: Any) -> Map:
    plain = scores()
    del plain["service_score"]
    return read(token_map(metrics={**token_map()["metrics"], "scores": plain | chosen}), Map)


def test_a_map_of_the_current_shape_is_read() -> None:
    answer = read(token_map(), Map)
    assert answer.metrics.scores.service_score == 61.25
    assert answer.metrics.supply_stats.contracts == 0.4
    assert [node.holder_data.rank for node in answer.nodes.top_holders] == [1, 2]
    assert answer.clusters[0].magic_node_count == 1


def test_a_map_of_the_older_shape_is_read_into_the_same_model() -> None:
    newer, older = read(token_map(), Map), read(older_map(), Map)
    assert older.metrics.scores.service_score == newer.metrics.scores.service_score
    assert older.metrics.supply_stats.cexs == newer.metrics.supply_stats.cexs
    assert older.metrics.supply_stats.contracts == pytest.approx(newer.metrics.supply_stats.contracts)
    assert older.relationships == newer.relationships
    assert older.nodes.top_holders == newer.nodes.top_holders
    assert older.clusters[0].holders == newer.clusters[0].holders
    assert (older.metrics.supply_stats.bundles, older.metrics.scores.nakamoto_coefficient) == (None, None)


def test_an_older_map_without_identified_supply_has_null_shares() -> None:
    supply = read(older_map(metadata=token_map()["metadata"]), Map).metrics.supply_stats
    assert (supply.cexs, supply.dexs, supply.contracts) == (None, None, None)


def test_blocks_that_were_not_requested_are_null() -> None:
    answer = read(token_map(nodes=None, relationships=None, clusters=None), Map)
    assert (answer.nodes, answer.relationships, answer.clusters) == (None, None, None)
    assert read([holder(ALICE, 1)], list[Holder])[0].address_details is None


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        *(({key: 42.5}, 42.5) for key in ("service_score", "decentralization_score", "bubble_score", "x_score")),
        ({"service_score": None}, None),
        ({"other_score": None}, None),
        ({}, None),
        ({"two_score": 2.0, "one_score": 1.0}, 1.0),
        ({"a_score": 1.0, "decentralization_score": 2.0}, 2.0),
        ({"service_score": 1.0, "other_score": 2.0}, 1.0),
    ],
)
def test_the_service_score_is_read_under_its_several_keys(scores: dict[str, Any], expected: float | None) -> None:
    assert scored(**scores).metrics.scores.service_score == expected


@pytest.mark.parametrize("bad", ["0.5", True, float("nan"), float("inf")])
def test_a_score_must_be_a_finite_number(bad: Any) -> None:
    with pytest.raises(MalformedAnswer):
        scored(service_score=bad)


def test_unknown_fields_are_kept() -> None:
    answer = read(token_map(weather="fine"), Map)
    assert answer.model_extra == {"weather": "fine"}
    assert read([holder(ALICE, 1, mood="good")], list[Holder])[0].model_extra == {"mood": "good"}


def test_an_unknown_chain_is_accepted() -> None:
    (chain,) = read([{"id": "chain-of-tomorrow", "name": "Tomorrow"}], list[Chain])
    assert chain.id == "chain-of-tomorrow"


@pytest.mark.parametrize("chain", ["", "a/b", "a b", "..\n", "é", "x" * 65])
def test_a_chain_that_does_not_fit_into_a_path_is_refused(chain: str) -> None:
    with pytest.raises(MalformedAnswer):
        read([{"id": chain, "name": "n"}], list[Chain])


def test_an_unknown_relationship_type_is_kept_with_its_data() -> None:
    plain = {"from_address": ALICE, "to_address": BOB, "rel_type": "FRIENDSHIP", "data": {"since": 1.5}}
    (relationship,) = read([plain], list[Relationship])
    assert isinstance(relationship, UnknownRelationship)
    assert relationship.rel_type == "FRIENDSHIP"
    assert str(relationship.data["since"]) == "1.5"


def test_a_relationship_without_a_type_is_a_grouped_transfer() -> None:
    plain = transfer(ALICE, BOB)
    del plain["rel_type"]
    (relationship,) = read([plain], list[Relationship])
    assert isinstance(relationship, GroupedTransfer)


def test_a_grouped_transfer_whose_data_lacks_a_field_is_refused_by_name() -> None:
    plain = transfer(ALICE, BOB)
    del plain["data"]["total_value"]
    with pytest.raises(MalformedAnswer, match="total_value"):
        read([plain], list[Relationship])


@pytest.mark.parametrize("name", ["token_key", "token_ref"])
@pytest.mark.parametrize("reference", [{"chain": "eth", "address": "native"}, {"chain": "eth", "id": "native"}])
def test_the_token_of_a_transfer_is_read_in_all_its_forms(name: str, reference: dict[str, str]) -> None:
    plain = transfer(ALICE, BOB)
    del plain["data"]["token_key"]
    plain["data"][name] = reference
    (relationship,) = read([plain], list[Relationship])
    assert relationship.data.token_key.address == "native"


@pytest.mark.parametrize("name", ["stats", "token_stats"])
def test_token_statistics_are_read_under_both_names(name: str) -> None:
    plain = {
        "token_key": {"chain": "eth", "address": TOKEN.upper().replace("0X", "0x")},
        "metadata": {"name": "Seven", "symbol": "SVN", "is_indexed": True},
        name: {"transfers_count": 7, "min_date": "2024-01-02T03:04:05Z", "max_date": None},
    }
    (token,) = read([plain], list[Token])
    assert token.stats.transfers_count == 7
    assert token.stats.min_date == datetime(2024, 1, 2, 3, 4, 5)
    assert token.token_key.address == TOKEN


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-05-06T07:08:09Z", datetime(2024, 5, 6, 7, 8, 9)),
        ("2024-05-06T09:08:09+02:00", datetime(2024, 5, 6, 7, 8, 9)),
        ("2024-05-06T07:08:09", datetime(2024, 5, 6, 7, 8, 9)),
    ],
)
def test_date_times_become_utc_without_zone(text: str, expected: datetime) -> None:
    plain = holder(ALICE, 1, address_details=details(first_activity_date=text))
    assert read([plain], list[Holder])[0].address_details.first_activity_date == expected
    assert read({"image_url": "u", "updated_at": text}, Screenshot).updated_at == expected


@pytest.mark.parametrize(
    "faulty",
    [
        {"amount": "10", "rank": 1, "share": 0.1},
        {"amount": True, "rank": 1, "share": 0.1},
        {"amount": None, "rank": 1, "share": 0.1},
        {"amount": 1, "rank": 0, "share": 0.1},
        {"amount": 1, "rank": 1.5, "share": 0.1},
        {"amount": 1, "rank": 1, "share": 1.01},
        {"amount": 1, "rank": 1, "share": -0.01},
        {"amount": 1, "rank": 1},
    ],
)
def test_holder_data_of_a_wrong_type_or_range_is_refused(faulty: dict[str, Any]) -> None:
    with pytest.raises(MalformedAnswer, match="holder_data"):
        read([holder(ALICE, 1, holder_data=faulty)], list[Holder])
