"""Answers become rows: what the provider said, in the tables' columns and the engine's order, or a named refusal."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.models import AddressMetadata, Chain, Holder, Map, Relationship, Token
from contract.tables import TABLES, exact_amount
from contract.wire import decode
from resources.normalise import (
    BadAnswer,
    address_rows,
    chain_rows,
    holder_rows,
    map_tables,
    subgraph_rows,
    token_rows,
)
from tests.contract.answers import ALICE, BOB, CAROL, DAVE, TOKEN, details, holder, older_map, token_map, transfer

AS_OF = datetime(2026, 11, 20)


def read(plain: Any, shape: Any) -> Any:
    return decode(json.dumps(plain).encode(), shape)


def tables_of(**changed: Any) -> dict[str, pa.Table]:
    return map_tables(read(token_map(**changed), Map), "eth", TOKEN, AS_OF)


def transfers_of(*relationships: dict[str, Any]) -> list[dict[str, Any]]:
    return tables_of(relationships=list(relationships), nodes=None)["grouped_transfers"].to_pylist()


def a_token(address: str = TOKEN, **changed: Any) -> dict[str, Any]:
    return {
        "token_key": {"chain": "eth", "address": address},
        "metadata": {"name": "Seven", "symbol": "SVN", "is_indexed": True},
    } | changed


def a_cluster(share: float, *holders: str, magic: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "share": share,
        "amount": 1.0,
        "holder_count": len(holders),
        "holders": list(holders),
        "magic_node_count": len(magic),
        "magic_nodes": list(magic),
    }


def test_each_chain_is_a_row_under_its_own_id() -> None:
    answer = [{"id": "eth", "name": "Ethereum", "dexscreener_id": "ethereum"}, {"id": "new", "name": "New"}]
    rows = chain_rows(read(answer, list[Chain]), AS_OF).to_pylist()
    assert [(row["chain"], row["name"], row["dexscreener_id"]) for row in rows] == [
        ("eth", "Ethereum", "ethereum"),
        ("new", "New", None),
    ]


def test_a_token_without_statistics_has_nulls_for_them() -> None:
    (row,) = token_rows(read([a_token()], list[Token]), AS_OF).to_pylist()
    assert (row["symbol"], row["transfers_count"], row["min_date"]) == ("SVN", None, None)


def test_a_token_s_statistics_are_instants_and_counts() -> None:
    stats = {"transfers_count": 7, "min_date": "2024-01-02T03:04:05Z", "max_date": "2024-01-03T00:00:00Z"}
    (row,) = token_rows(read([a_token(stats=stats)], list[Token]), AS_OF).to_pylist()
    assert (row["transfers_count"], row["min_date"]) == (7, datetime(2024, 1, 2, 3, 4, 5))


def test_holders_stand_by_rank_whatever_the_answer_s_order() -> None:
    answer = read([holder(BOB, 2), holder(ALICE, 1)], list[Holder])
    assert holder_rows(answer, "eth", TOKEN, AS_OF)["address"].to_pylist() == [ALICE, BOB]


def test_a_holder_without_details_has_nulls_for_them() -> None:
    (row,) = holder_rows(read([holder(ALICE, 1)], list[Holder]), "eth", TOKEN, AS_OF).to_pylist()
    assert (row["degree"], row["is_contract"], row["label"]) == (None, None, None)


def test_a_holder_s_details_stand_in_its_row() -> None:
    answer = read([holder(ALICE, 1, address_details=details(label="Alice", is_cex=True))], list[Holder])
    (row,) = holder_rows(answer, "eth", TOKEN, AS_OF).to_pylist()
    assert (row["label"], row["is_cex"], row["degree"]) == ("Alice", True, 3)
    assert row["first_activity_date"] == datetime(2024, 5, 6, 7, 8, 9)


@settings(deadline=None)
@given(st.integers(0, 2**256 - 1), st.integers(0, 77))
def test_the_amount_of_a_holder_is_exact_up_to_256_bits(raw: int, places: int) -> None:
    value = Decimal((0, tuple(map(int, str(raw))), -places))
    answer = read([holder(ALICE, 1)], list[Holder])
    answer[0].holder_data.amount = value
    (row,) = holder_rows(answer, "eth", TOKEN, AS_OF).to_pylist()
    assert exact_amount(row, "amount") == value


def test_an_address_is_written_as_the_contract_writes_it() -> None:
    answer = read([holder(ALICE.upper().replace("0X", "0x"), 1)], list[Holder])
    (row,) = holder_rows(answer, "eth", TOKEN.upper(), AS_OF).to_pylist()
    assert (row["address"], row["token_address"]) == (ALICE, TOKEN)


def test_a_map_becomes_its_five_tables_in_the_engine_s_schemas() -> None:
    tables = tables_of()
    assert set(tables) == {"maps", "map_nodes", "grouped_transfers", "clusters", "cluster_members"}
    for name, rows in tables.items():
        assert rows.schema == TABLES[name].engine_schema
        assert set(rows["as_of"].to_pylist()) == {AS_OF}


def test_a_map_s_figures_stand_in_one_row() -> None:
    (row,) = tables_of()["maps"].to_pylist()
    assert (row["service_score"], row["nakamoto_coefficient"], row["bundles"]) == (61.25, 2, 0.15)
    assert row["dt_update"] == "2026-11-20T00:00:00.123456"


def test_nodes_are_top_holders_by_rank_then_magic_then_time_nodes() -> None:
    nodes = token_map()["nodes"]
    nodes["top_holders"].reverse()
    rows = tables_of(nodes=nodes)["map_nodes"].to_pylist()
    assert [(row["kind"], row["address"], row["rank"], row["time_node"]) for row in rows] == [
        ("top_holder", ALICE, 1, None),
        ("top_holder", BOB, 2, None),
        ("magic", CAROL, None, None),
        ("time", DAVE, None, 1),
    ]
    assert [row["is_shown_on_map"] for row in rows] == [True, True, True, None]


def test_relationships_keep_the_answer_s_order_and_those_of_time_nodes_follow_with_their_number() -> None:
    rows = tables_of()["grouped_transfers"].to_pylist()
    assert [(row["from_address"], row["to_address"], row["time_node"]) for row in rows] == [
        (ALICE, CAROL, None),
        (CAROL, BOB, None),
        (ALICE, DAVE, 1),
        (BOB, DAVE, 1),
    ]


def test_one_exchange_in_two_windows_is_two_time_nodes() -> None:
    window = {"address": DAVE, "relationships": [transfer(ALICE, DAVE)]}
    tables = tables_of(nodes=token_map()["nodes"] | {"time_nodes": [window, window]})
    assert [row["time_node"] for row in tables["map_nodes"].to_pylist() if row["kind"] == "time"] == [1, 2]
    assert tables["grouped_transfers"]["time_node"].to_pylist() == [None, None, 1, 2]


def test_a_grouped_transfer_has_exact_value_and_instants() -> None:
    (row,) = transfers_of(transfer(ALICE, BOB))
    assert row["total_value"] == Decimal("12.5")
    assert (row["total_transfers"], row["transfer_chain"], row["transfer_token"]) == (2, "eth", TOKEN)
    assert (row["first_date"], row["last_date"]) == (
        datetime(2023, 11, 14, 22, 13, 20),
        datetime(2023, 11, 14, 22, 15),
    )
    assert row["unknown_data"] is None


def test_an_unknown_relationship_type_keeps_its_data_as_exact_json() -> None:
    raw = b'[{"from_address": "0xa", "to_address": "0xb", "rel_type": "LOAN", "data": {"n": 0.10000000000000000001}}]'
    (row,) = subgraph_rows("friends", decode(raw, list[Relationship]), "eth", AS_OF).to_pylist()
    assert (row["rel_type"], row["unknown_data"]) == ("LOAN", '{"n":0.10000000000000000001}')
    assert (row["total_value"], row["transfer_token"], row["first_date"]) == (None, None, None)


def test_unknown_relationships_may_repeat_for_their_key_is_not_known() -> None:
    loan = {"from_address": ALICE, "to_address": BOB, "rel_type": "LOAN", "data": {}}
    assert len(transfers_of(loan, loan)) == 2


def test_clusters_are_numbered_by_share_and_equal_shares_keep_their_order() -> None:
    clusters = [a_cluster(0.1, ALICE), a_cluster(0.3, BOB), a_cluster(0.1, CAROL)]
    tables = tables_of(clusters=clusters)
    assert tables["clusters"]["share"].to_pylist() == [0.3, 0.1, 0.1]
    assert tables["cluster_members"]["address"].to_pylist() == [BOB, ALICE, CAROL]
    assert tables["cluster_members"]["cluster_id"].to_pylist() == [1, 2, 3]


def test_members_stand_cluster_by_cluster_holders_before_magic_nodes_in_the_answer_s_order() -> None:
    tables = tables_of(clusters=[a_cluster(0.2, BOB, ALICE, magic=(DAVE, CAROL))])
    members = [(row["address"], row["kind"]) for row in tables["cluster_members"].to_pylist()]
    assert members == [(BOB, "holder"), (ALICE, "holder"), (DAVE, "magic"), (CAROL, "magic")]


def test_blocks_that_were_not_asked_for_are_tables_without_rows() -> None:
    tables = tables_of(nodes=None, relationships=None, clusters=None)
    counts = {name: rows.num_rows for name, rows in tables.items()}
    assert counts == {"maps": 1, "map_nodes": 0, "grouped_transfers": 0, "clusters": 0, "cluster_members": 0}


def test_a_map_of_the_older_shape_fills_the_same_tables() -> None:
    older = map_tables(read(older_map(), Map), "eth", TOKEN, AS_OF)
    newer = tables_of(nodes=token_map()["nodes"] | {"time_nodes": None})
    assert older["grouped_transfers"] == newer["grouped_transfers"]
    assert older["map_nodes"] == newer["map_nodes"]
    assert older["maps"]["nakamoto_coefficient"].to_pylist() == [None]


def test_a_subgraph_s_rows_name_their_address_set() -> None:
    rows = subgraph_rows("friends", read([transfer(ALICE, BOB)], list[Relationship]), "eth", AS_OF)
    assert rows["address_set"].to_pylist() == ["friends"]
    assert rows.schema == TABLES["subgraph_transfers"].engine_schema


def test_address_metadata_keeps_the_answer_s_order() -> None:
    answer = [{"address": address, "address_details": details()} for address in (BOB, ALICE)]
    assert address_rows(read(answer, list[AddressMetadata]), "eth", AS_OF)["address"].to_pylist() == [BOB, ALICE]


def test_a_holder_who_stands_twice_in_an_answer_is_refused_by_name() -> None:
    answer = read([holder(ALICE, 1), holder(ALICE.replace("a", "A"), 2)], list[Holder])
    with pytest.raises(BadAnswer, match=f"holder {ALICE} twice"):
        holder_rows(answer, "eth", TOKEN, AS_OF)


def test_a_grouped_transfer_that_stands_twice_is_refused() -> None:
    with pytest.raises(BadAnswer, match=f"grouped transfer {ALICE} {BOB} eth {TOKEN} twice"):
        transfers_of(transfer(ALICE, BOB), transfer(ALICE, BOB))


def test_clusters_that_overlap_are_refused() -> None:
    with pytest.raises(BadAnswer, match=f"cluster member {ALICE} twice"):
        tables_of(clusters=[a_cluster(0.2, ALICE, BOB), a_cluster(0.1, ALICE, CAROL)])


def test_a_chain_a_token_and_an_address_that_stand_twice_are_refused() -> None:
    chain, address = {"id": "eth", "name": "n"}, {"address": ALICE, "address_details": details()}
    with pytest.raises(BadAnswer, match="chain eth"):
        chain_rows(read([chain, chain], list[Chain]), AS_OF)
    with pytest.raises(BadAnswer, match=f"token eth/{TOKEN}"):
        token_rows(read([a_token(), a_token()], list[Token]), AS_OF)
    with pytest.raises(BadAnswer, match=f"address {ALICE}"):
        address_rows(read([address, address], list[AddressMetadata]), "eth", AS_OF)


def test_a_date_that_no_clock_can_show_is_refused_by_name() -> None:
    with pytest.raises(BadAnswer, match="first_date 99999999999999999"):
        transfers_of(transfer(ALICE, BOB, first_date=99_999_999_999_999_999))


def test_a_count_that_no_column_can_hold_is_refused_and_names_the_table() -> None:
    with pytest.raises(BadAnswer, match="grouped_transfers"):
        transfers_of(transfer(ALICE, BOB, total_transfers=2**63))
