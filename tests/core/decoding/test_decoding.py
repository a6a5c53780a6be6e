"""Decoding of answers to rows, with the tables' columns and the engine's order."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.json import encode

from holderlake.core.contract.tables import MISSING_CONTENT, TABLES
from holderlake.core.decoding import lenient
from holderlake.core.decoding.answers import (
    address_rows,
    chain_rows,
    holder_rows,
    map_tables,
    subgraph_rows,
    token_rows,
)
from tests.core.contract.answers import (
    ALICE,
    BOB,
    CAROL,
    DAVE,
    TOKEN,
    details,
    holder,
    older_map,
    scores,
    token_map,
    transfer,
)
from tests.helpers.amounts import exact_amount
from tests.helpers.examples import some

AS_OF = datetime(2026, 11, 20)
Rows = list[dict[str, Any]]


@pytest.fixture
def no_lenient_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail a test whose answer needs the lenient mode."""

    def refuse(*_: Any) -> None:
        raise AssertionError("the lenient mode was taken")

    monkeypatch.setattr(lenient, "read", refuse)


def tables_of(plain: Any) -> dict[str, pa.Table]:
    decoded = map_tables([encode(plain)], "eth", [TOKEN.upper()], AS_OF)
    assert {one.code for one in decoded.unreadable} <= {MISSING_CONTENT}
    return decoded.tables


def map_row(**changed: Any) -> dict[str, Any]:
    metrics = token_map()["metrics"]
    (row,) = tables_of(token_map(metrics=metrics | {"scores": scores() | changed}))["maps"].to_pylist()
    return dict(row)


def transfers_of(*relationships: Any) -> Rows:
    return list(tables_of(token_map(relationships=relationships, nodes=None))["grouped_transfers"].to_pylist())


def holders_of(*holders: Any) -> Rows:
    decoded = holder_rows([encode(holders)], "eth", [TOKEN], AS_OF)
    assert not decoded.unreadable
    return list(decoded.tables["holders"].to_pylist())


def tokens_of(*tokens: Any) -> Rows:
    wanted = [token["token_key"]["address"] for token in tokens]
    return list(token_rows([encode(tokens)], "eth", wanted, AS_OF).tables["tokens"].to_pylist())


def subgraph_of(*answers: Any) -> Rows:
    decoded = subgraph_rows([*map(encode, answers)], "eth", ["friends"], AS_OF)
    assert not decoded.unreadable
    return list(decoded.tables["subgraph_transfers"].to_pylist())


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


# Tables


@pytest.mark.usefixtures("no_lenient_mode")
def test_a_map_becomes_five_tables_in_the_engine_s_schemas() -> None:
    tables = tables_of(token_map())
    assert set(tables) == {"maps", "map_nodes", "grouped_transfers", "clusters", "cluster_members"}
    for name, rows in tables.items():
        assert rows.schema == TABLES[name].engine_schema
        assert set(rows["as_of"].to_pylist()) == {AS_OF}
        assert set(rows["token_address"].to_pylist()) == {TOKEN}


@pytest.mark.usefixtures("no_lenient_mode")
def test_the_figures_of_a_map_are_one_row() -> None:
    row = map_row()
    assert (row["service_score"], row["nakamoto_coefficient"], row["bundles"]) == (61.25, 2, 0.15)
    assert row["dt_update"] == "2026-11-20T00:00:00.123456"


@pytest.mark.usefixtures("no_lenient_mode")
def test_a_block_that_is_null_or_absent_is_a_table_without_rows() -> None:
    bare = {name: token_map()[name] for name in ("metadata", "metrics")}
    for plain in (bare, token_map(nodes=None, relationships=None, clusters=None), bare | {"nodes": {}}):
        counts = {name: rows.num_rows for name, rows in tables_of(plain).items()}
        assert counts == {"maps": 1, "map_nodes": 0, "grouped_transfers": 0, "clusters": 0, "cluster_members": 0}


@pytest.mark.usefixtures("no_lenient_mode")
def test_nodes_are_top_holders_by_rank_then_magic_then_time_nodes() -> None:
    nodes = token_map()["nodes"]
    nodes["top_holders"].reverse()
    rows = tables_of(token_map(nodes=nodes))["map_nodes"].to_pylist()
    assert [(row["kind"], row["address"], row["rank"], row["time_node"]) for row in rows] == [
        ("top_holder", ALICE, 1, None),
        ("top_holder", BOB, 2, None),
        ("magic", CAROL, None, None),
        ("time", DAVE, None, 1),
    ]
    assert [row["is_shown_on_map"] for row in rows] == [True, True, True, None]


@pytest.mark.usefixtures("no_lenient_mode")
def test_relationships_keep_their_order_and_those_of_time_nodes_follow() -> None:
    rows = tables_of(token_map())["grouped_transfers"].to_pylist()
    assert [(row["from_address"], row["to_address"], row["time_node"]) for row in rows] == [
        (ALICE, CAROL, None),
        (CAROL, BOB, None),
        (ALICE, DAVE, 1),
        (BOB, DAVE, 1),
    ]


def test_one_exchange_in_two_windows_is_two_time_nodes() -> None:
    window = {"address": DAVE, "relationships": [transfer(ALICE, DAVE)]}
    tables = tables_of(token_map(nodes=token_map()["nodes"] | {"time_nodes": [window, window]}))
    assert [row["time_node"] for row in tables["map_nodes"].to_pylist() if row["kind"] == "time"] == [1, 2]
    assert tables["grouped_transfers"]["time_node"].to_pylist() == [None, None, 1, 2]


@pytest.mark.usefixtures("no_lenient_mode")
def test_a_grouped_transfer_has_an_exact_value_and_instants() -> None:
    (row,) = transfers_of(transfer(ALICE, BOB))
    assert row["total_value"] == Decimal("12.5")
    assert (row["total_transfers"], row["transfer_chain"], row["transfer_token"]) == (2, "eth", TOKEN)
    assert (row["first_date"], row["last_date"]) == (datetime(2023, 11, 14, 22, 13, 20), datetime(2023, 11, 14, 22, 15))
    assert (row["rel_type"], row["unknown_data"]) == ("GROUPED_TRANSFER", None)


def test_clusters_are_numbered_by_share_and_equal_shares_keep_their_order() -> None:
    tables = tables_of(token_map(clusters=[a_cluster(0.1, ALICE), a_cluster(0.3, BOB), a_cluster(0.1, CAROL)]))
    assert tables["clusters"]["share"].to_pylist() == [0.3, 0.1, 0.1]
    assert tables["cluster_members"]["address"].to_pylist() == [BOB, ALICE, CAROL]
    assert tables["cluster_members"]["cluster_id"].to_pylist() == [1, 2, 3]


def test_members_of_a_cluster_are_holders_then_magic_nodes() -> None:
    tables = tables_of(token_map(clusters=[a_cluster(0.2, BOB, ALICE, magic=(DAVE, CAROL))]))
    members = [(row["address"], row["kind"]) for row in tables["cluster_members"].to_pylist()]
    assert members == [(BOB, "holder"), (ALICE, "holder"), (DAVE, "magic"), (CAROL, "magic")]


@pytest.mark.usefixtures("no_lenient_mode")
def test_holders_are_in_order_of_rank_and_hold_their_details() -> None:
    rows = holders_of(holder(BOB, 2), holder(ALICE, 1, address_details=details(label="Ü", is_cex=True)))
    assert [row["address"] for row in rows] == [ALICE, BOB]
    assert [(row["label"], row["is_cex"], row["degree"]) for row in rows] == [("Ü", True, 3), (None, None, None)]
    assert rows[0]["first_activity_date"] == datetime(2024, 5, 6, 7, 8, 9)


@pytest.mark.usefixtures("no_lenient_mode")
def test_address_metadata_keeps_the_order_of_the_answer() -> None:
    answer = [{"address": address, "address_details": details()} for address in (BOB, ALICE)]
    rows = address_rows([encode(answer)], "eth", (), AS_OF).tables["addresses"]
    assert rows["address"].to_pylist() == [BOB, ALICE]


@pytest.mark.usefixtures("no_lenient_mode")
def test_a_token_without_statistics_has_nulls_for_them() -> None:
    stats = {"transfers_count": 7, "min_date": "2024-01-02T03:04:05Z", "max_date": "2024-01-03T00:00:00Z"}
    rows = tokens_of(a_token(), a_token(CAROL, stats=stats), a_token(DAVE, token_stats=stats))
    assert [(row["symbol"], row["transfers_count"], row["min_date"]) for row in rows] == [
        ("SVN", None, None),
        ("SVN", 7, datetime(2024, 1, 2, 3, 4, 5)),
        ("SVN", 7, datetime(2024, 1, 2, 3, 4, 5)),
    ]


@pytest.mark.usefixtures("no_lenient_mode")
def test_only_the_wanted_tokens_and_the_wanted_chain_are_rows() -> None:
    other = a_token(BOB) | {"token_key": {"chain": "base", "address": TOKEN}}
    rows = token_rows([encode([a_token(), a_token(BOB), other])], "eth", [TOKEN], AS_OF).tables["tokens"]
    assert rows["token_address"].to_pylist() == [TOKEN]
    chains = [{"id": "eth", "name": "Ethereum", "dexscreener_id": "ethereum"}, {"id": "new", "name": "New"}]
    (row,) = chain_rows([encode(chains)], "new", (), AS_OF).tables["chains"].to_pylist()
    assert (row["chain"], row["name"], row["dexscreener_id"]) == ("new", "New", None)


# Several answers at once

TOKENS = [f"0x{number:040x}" for number in range(1, 5)]


def of_each(tables: dict[str, pa.Table], tokens: Sequence[str]) -> list[Any]:
    """The rows of each token, in their order."""
    found = {name: rows.to_pylist() for name, rows in tables.items()}
    return [
        {name: [row for row in rows if row["token_address"] == token] for name, rows in found.items()}
        for token in tokens
    ]


@pytest.mark.long
@given(st.lists(st.sampled_from(["full", "bare", "older", "odd"]), min_size=1, max_size=4))
@settings(deadline=None)
def test_maps_decoded_together_have_the_rows_of_each_alone(kinds: list[str]) -> None:
    odd = token_map(relationships=[transfer(ALICE, BOB, total_transfers="many"), transfer(ALICE, CAROL)])
    bare = token_map(nodes=None, relationships=None, clusters=[])
    raws = [encode({"full": token_map(), "bare": bare, "older": older_map(), "odd": odd}[kind]) for kind in kinds]
    tokens = TOKENS[: len(raws)]
    together = map_tables(raws, "eth", tokens, AS_OF)
    alone = [map_tables([raw], "eth", [token], AS_OF) for raw, token in zip(raws, tokens, strict=True)]
    assert of_each(together.tables, tokens) == [
        of_each(one.tables, [token])[0] for one, token in zip(alone, tokens, strict=True)
    ]
    named = [(one.answer, one.code) for one in together.unreadable]
    assert sorted(named) == sorted((place, note.code) for place, one in enumerate(alone) for note in one.unreadable)
    assert {place for place, _ in named} == {place for place, kind in enumerate(kinds) if kind in ("odd", "bare")}


def test_a_relationship_in_several_subgraph_answers_is_one_row() -> None:
    loan = {"from_address": ALICE, "to_address": BOB, "rel_type": "LOAN", "data": [1]}
    rows = subgraph_of(
        [transfer(ALICE, BOB), loan],
        [transfer(ALICE.replace("a", "A"), BOB), transfer(BOB, CAROL), loan | {"data": [2]}, loan],
    )
    assert [(row["from_address"], row["to_address"], row["rel_type"], row["unknown_data"]) for row in rows] == [
        (ALICE, BOB, "GROUPED_TRANSFER", None),
        (ALICE, BOB, "LOAN", "[1]"),
        (BOB, CAROL, "GROUPED_TRANSFER", None),
        (ALICE, BOB, "LOAN", "[2]"),
    ]
    assert {row["address_set"] for row in rows} == {"friends"}


# Scores


@pytest.mark.usefixtures("no_lenient_mode")
@pytest.mark.parametrize(
    ("given", "chosen", "others"),
    [
        ({"service_score": 1, "decentralization_score": 2.50}, 1, '{"decentralization_score":2.5}'),
        ({"zeta_score": 3, "decentralization_score": 2, "alpha_score": "A+"}, 2, '{"alpha_score":"A+","zeta_score":3}'),
        ({"zeta_score": 3, "alpha_score": 4}, 4, '{"zeta_score":3}'),
        ({"service_score": None, "x_score": 3}, None, '{"x_score":3}'),
        ({"any_score": 7.5}, 7.5, None),
        ({}, None, None),
    ],
)
def test_the_service_score_is_chosen_by_rule_and_the_others_are_kept(
    given: dict[str, Any], chosen: float | None, others: str | None
) -> None:
    plain = {name: value for name, value in scores().items() if name != "service_score"} | given
    metrics = token_map()["metrics"] | {"scores": plain}
    (row,) = tables_of(token_map(metrics=metrics))["maps"].to_pylist()
    assert (row["service_score"], row["other_scores"]) == (chosen, others)


# Exact amounts, addresses and instants


@settings(deadline=None)
@given(st.integers(0, 2**256 - 1), st.integers(0, 77))
def test_the_amount_of_a_holder_is_exact_up_to_256_bits(raw: int, places: int) -> None:
    value = Decimal((0, tuple(map(int, str(raw))), -places))
    (row,) = holders_of(holder(ALICE, 1, amount=Raw(format(value, "f").encode())))  # type: ignore[arg-type]
    assert exact_amount(row, "amount") == value


numbers = st.one_of(
    st.from_regex(r"-?(0|[1-9][0-9]{0,79})(\.[0-9]{1,80})?", fullmatch=True),
    st.from_regex(r"-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,2})?", fullmatch=True),
    st.from_regex(r"[1-9][0-9]{17,20}(\.[0-9]{16,20})?", fullmatch=True),
    st.sampled_from(["-0", "-0.0", "0e0", "0e-30", "1e-7", "1E+30", "99999999999999999999", "0.5000000000000000005"]),
)


@pytest.mark.integration
@settings(deadline=None, max_examples=some(200))
@given(st.lists(numbers, min_size=1, max_size=8), st.booleans())
def test_amounts_are_exact_however_they_are_written(texts: Sequence[str], as_text: bool) -> None:
    given = [text if as_text else Raw(text.encode()) for text in texts]
    rows = subgraph_of([transfer(f"0x{place}", BOB, total_value=value) for place, value in enumerate(given)])
    assert [exact_amount(row, "total_value") for row in rows] == [*map(Decimal, texts)]


@settings(deadline=None, max_examples=some(100))
@given(st.lists(st.floats(-1, 2), min_size=1, max_size=20))
def test_a_share_is_the_nearest_double_inside_its_range_and_outside(shares: Sequence[float]) -> None:
    rows = holders_of(*(holder(f"0x{rank}", rank, share=share) for rank, share in enumerate(shares, 1)))
    assert [repr(row["share"]) for row in rows] == [*map(repr, shares)]


@pytest.mark.parametrize("address", [" 0xab", "0xab\n", "0xAB", "0XaB"])
def test_an_address_is_written_as_the_contract_writes_it(address: str) -> None:
    key = {"chain": "eth", "address": address}
    tables = tables_of(
        token_map(
            nodes={"top_holders": [holder(address, 1, is_shown_on_map=True)]},
            relationships=[transfer(address, BOB, token_key=key)],
            clusters=[a_cluster(0.1, address)],
        )
    )
    (row,) = tables["grouped_transfers"].to_pylist()
    assert (row["from_address"], row["transfer_token"]) == ("0xab", "0xab")
    assert tables["map_nodes"]["address"].to_pylist() == tables["cluster_members"]["address"].to_pylist() == ["0xab"]


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2024-05-06T07:08:09Z", datetime(2024, 5, 6, 7, 8, 9)),
        ("2024-05-06T07:08:09", datetime(2024, 5, 6, 7, 8, 9)),
        ("2024-05-06T09:08:09.5+02:00", datetime(2024, 5, 6, 7, 8, 9, 500_000)),
        ("2024-05-06", datetime(2024, 5, 6)),
        ("0001-01-01T00:00:00Z", datetime(1, 1, 1)),
        (1_714_979_289, datetime(2024, 5, 6, 7, 8, 9)),
        (None, None),
    ],
)
def test_date_times_are_instants_with_and_without_a_zone(text: Any, instant: datetime | None) -> None:
    (row,) = holders_of(holder(ALICE, 1, address_details=details(first_activity_date=text)))
    assert row["first_activity_date"] == instant


@pytest.mark.usefixtures("no_lenient_mode")
@pytest.mark.parametrize("seconds", [0, -1, -62_135_596_800, 253_402_300_799])
def test_dates_reach_from_year_1_to_year_9999(seconds: int) -> None:
    (row,) = transfers_of(transfer(ALICE, BOB, first_date=seconds))
    assert (row["first_date"] - datetime(1970, 1, 1)).total_seconds() == seconds


# Relationships of unknown types, and older shapes


def test_an_unknown_relationship_type_keeps_its_data_as_exact_json() -> None:
    raw = b'[{"from_address": "0xa", "to_address": "0xb", "rel_type": "LOAN", "data": {"n": 0.10000000000000000001}}]'
    (row,) = subgraph_rows([raw], "eth", ["friends"], AS_OF).tables["subgraph_transfers"].to_pylist()
    assert (row["rel_type"], row["unknown_data"]) == ("LOAN", '{"n":0.10000000000000000001}')
    assert (row["total_value"], row["transfer_token"], row["first_date"]) == (None, None, None)


def test_known_and_unknown_relationships_keep_their_order() -> None:
    loan = {"from_address": ALICE, "to_address": BOB, "rel_type": "LOAN", "data": {}}
    typeless = {name: value for name, value in transfer(BOB, CAROL).items() if name != "rel_type"}
    rows = transfers_of(loan, typeless, loan, transfer(CAROL, BOB) | {"rel_type": None})
    assert [(row["rel_type"], row["total_transfers"]) for row in rows] == [
        ("LOAN", None),
        ("GROUPED_TRANSFER", 2),
        ("LOAN", None),
        ("GROUPED_TRANSFER", 2),
    ]


def test_a_map_of_the_older_shape_fills_the_same_tables() -> None:
    older, newer = tables_of(older_map()), tables_of(token_map(nodes=token_map()["nodes"] | {"time_nodes": None}))
    assert older["grouped_transfers"] == newer["grouped_transfers"]
    assert older["map_nodes"] == newer["map_nodes"]
    (row,) = older["maps"].to_pylist()
    assert (row["service_score"], row["contracts"], row["nakamoto_coefficient"]) == (61.25, 0.4, None)


@pytest.mark.parametrize(
    ("key", "token"),
    [
        ({"chain": "base", "id": "ETH"}, ("base", "native")),
        ({"id": "ETH"}, ("eth", "native")),
        ({"chain": "eth", "id": TOKEN.upper()}, ("eth", TOKEN)),
        ({"chain": "solana", "id": "So11111111111111111111111111111111111111112"}, ("solana", "So1" + "1" * 39 + "2")),
    ],
)
@pytest.mark.parametrize("name", ["token_key", "token_ref"])
def test_an_older_token_id_is_the_native_token(name: str, key: dict[str, str], token: tuple[str, str]) -> None:
    edge = transfer(ALICE, BOB)
    edge["data"][name] = key
    if name == "token_ref":
        del edge["data"]["token_key"]
    (row,) = transfers_of(edge)
    assert (row["transfer_chain"], row["transfer_token"][:3]) == (token[0], token[1][:3])
