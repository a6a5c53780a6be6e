"""One odd value costs at most its own row: the others land, and the place of what cannot be read is named."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.json import encode

from holderlake.core.contract.exact_json import MalformedAnswer
from holderlake.core.contract.tables import MISSING_CONTENT, TABLES
from holderlake.core.decoding.answers import (
    Decoded,
    address_rows,
    chain_rows,
    holder_rows,
    map_tables,
    subgraph_rows,
    token_rows,
)
from holderlake.core.decoding.lenient import UNREADABLE_ROW, UNREADABLE_VALUE
from tests.core.contract.answers import (
    ALICE,
    BOB,
    CAROL,
    TOKEN,
    details,
    holder,
    older_map,
    scores,
    token_map,
    transfer,
)
from tests.helpers.examples import some

AS_OF = datetime(2026, 11, 20)

DECODERS = {
    "map": lambda raw: map_tables([raw], "eth", [TOKEN], AS_OF),
    "older map": lambda raw: map_tables([raw], "eth", [TOKEN], AS_OF),
    "holders": lambda raw: holder_rows([raw], "eth", [TOKEN], AS_OF),
    "subgraph": lambda raw: subgraph_rows([raw], "eth", ["friends"], AS_OF),
    "addresses": lambda raw: address_rows([raw], "eth", (), AS_OF),
    "tokens": lambda raw: token_rows([raw], "eth", [TOKEN], AS_OF),
    "chains": lambda raw: chain_rows([raw], "eth", (), AS_OF),
}
BASES: dict[str, Any] = {
    "map": token_map(),
    "older map": older_map(),
    "holders": [holder(BOB, 2, address_details=details(label="Ü")), holder(ALICE, 1)],
    "subgraph": [transfer(ALICE, BOB), transfer(BOB, CAROL, total_value=3)],
    "addresses": [{"address": address, "address_details": details()} for address in (BOB, ALICE)],
    "tokens": [
        {
            "token_key": {"chain": "eth", "address": TOKEN},
            "metadata": {"name": "Seven", "symbol": "SVN", "is_indexed": True, "img_url": None},
            "stats": {"transfers_count": 7, "min_date": "2024-01-02T03:04:05Z", "max_date": None},
        }
    ],
    "chains": [{"id": "eth", "name": "Ethereum", "dexscreener_id": None, "coingecko_id": "ethereum"}],
}


def decode(kind: str, plain: Any) -> Decoded:
    """Decode plain data, and check that its tables are sound."""
    decoded = DECODERS[kind](plain if isinstance(plain, bytes) else encode(plain))
    for name, rows in decoded.tables.items():
        rows.validate(full=True)
        assert rows.schema == TABLES[name].engine_schema
    return decoded


def rows(decoded: Decoded, table: str) -> list[dict[str, Any]]:
    return list(decoded.tables[table].to_pylist())


def places(decoded: Decoded) -> list[tuple[str, str]]:
    return [(one.code, one.path) for one in decoded.unreadable]


# Values that are kept unchanged


@pytest.mark.parametrize("share", [1.0000000000000002, -1e-19, 1.5, -3, 0, 1])
def test_a_share_outside_its_range_is_kept(share: float) -> None:
    decoded = decode("holders", [holder(ALICE, 1, share=share), holder(BOB, 2)])
    assert [row["share"] for row in rows(decoded, "holders")] == [share, 0.1]
    assert not decoded.unreadable


def test_rank_0_equal_ranks_and_negative_counts_are_kept() -> None:
    decoded = decode(
        "holders", [holder(ALICE, 0), holder(BOB, 0, address_details=details(degree=-1)), holder(CAROL, -4)]
    )
    assert [(row["address"], row["rank"]) for row in rows(decoded, "holders")] == [(CAROL, -4), (ALICE, 0), (BOB, 0)]
    assert rows(decoded, "holders")[2]["degree"] == -1
    assert not decoded.unreadable


def test_repeated_items_are_all_kept() -> None:
    assert [row["rank"] for row in rows(decode("holders", [holder(ALICE, 1), holder(ALICE, 2)]), "holders")] == [1, 2]
    cluster = token_map()["clusters"][0] | {"holders": [ALICE, ALICE]}
    tables = decode("map", token_map(relationships=[transfer(ALICE, BOB)] * 2, clusters=[cluster, cluster])).tables
    assert tables["grouped_transfers"].num_rows == 4
    assert tables["cluster_members"]["address"].to_pylist() == [ALICE, ALICE, CAROL] * 2
    for kind, table in (("subgraph", "subgraph_transfers"), ("addresses", "addresses"), ("tokens", "tokens")):
        assert len(rows(decode(kind, BASES[kind] * 2), table)) == 2 * len(BASES[kind])


@pytest.mark.parametrize("value", [1.0, "1", "1.0", Raw(b"1e0"), Raw(b"10E-1"), " 1 "])
def test_an_integer_is_read_in_every_notation(value: Any) -> None:
    plain = [holder(ALICE, value, address_details=details(degree=value))]
    (row,) = rows(decode("holders", plain), "holders")
    assert (row["rank"], row["degree"]) == (1, 1)
    (row,) = rows(decode("subgraph", [transfer(ALICE, BOB, first_date=value, total_value=value)]), "subgraph_transfers")
    assert (row["first_date"], row["total_value"]) == (datetime(1970, 1, 1, 0, 0, 1), 1)


@pytest.mark.parametrize(("value", "flag"), [(1, True), (0, False), ("true", True), ("False", False), (None, None)])
def test_a_flag_is_read_in_every_notation(value: Any, flag: bool | None) -> None:
    (row,) = rows(decode("addresses", [{"address": ALICE, "address_details": details(is_cex=value)}]), "addresses")
    assert row["is_cex"] is flag


def test_nulls_and_absent_fields_are_null() -> None:
    plain = [{"address": ALICE}, {"address": BOB, "holder_data": {"rank": None, "share": None}, "address_details": {}}]
    decoded = decode("holders", plain)
    assert [(row["rank"], row["amount"], row["share"]) for row in rows(decoded, "holders")] == [(None, None, None)] * 2
    (token,) = rows(decode("tokens", [{"token_key": {"chain": "eth", "address": TOKEN}, "metadata": None}]), "tokens")
    assert (token["name"], token["symbol"], token["is_indexed"]) == (None, None, None)
    bare = {"metadata": None, "metrics": {"supply_stats": None, "scores": None}}
    decoded = decode("map", bare)
    assert (rows(decoded, "maps")[0]["cexs"], rows(decoded, "maps")[0]["dt_update"]) == (None, None)
    edge = {"from_address": ALICE, "to_address": BOB, "data": None}
    (row,) = rows(decode("subgraph", [edge]), "subgraph_transfers")
    assert (row["transfer_token"], row["total_value"], row["first_date"]) == (None, None, None)
    assert {one.code for one in decoded.unreadable} == {MISSING_CONTENT}


MISSING = {
    "no amounts": ("holders", [{"address": ALICE, "holder_data": {"rank": 1, "share": 0.5}}], "$[*].holder_data"),
    "no holding": ("holders", [holder(ALICE, 1), {"address": BOB, "holder_data": None}], "$[*].holder_data"),
    "an empty list": ("holders", [], "$"),
    "no nodes": ("map", {**token_map(), "nodes": None}, "$.nodes"),
    "no holders": ("map", {**token_map(), "nodes": {"top_holders": []}}, "$.nodes.top_holders"),
    "no relationships": ("map", {**token_map(), "relationships": None}, "$.relationships"),
    "no clusters": ("map", {name: value for name, value in token_map().items() if name != "clusters"}, "$.clusters"),
    "no shares": (
        "map",
        {**token_map(), "metrics": {"supply_stats": {}, "scores": scores()}},
        "$.metrics.supply_stats",
    ),
    "renamed score": ("map", {**token_map(), "metrics": {**token_map()["metrics"], "scores": {}}}, "$.metrics.scores"),
    "no sums": (
        "map",
        {**token_map(), "relationships": [{"from_address": ALICE, "to_address": BOB, "data": {}}]},
        "$.relationships[*].data",
    ),
    "no details": ("addresses", [{"address": ALICE, "address_details": None}], "$[*].address_details"),
    "no name": ("tokens", [{"token_key": {"chain": "eth", "address": TOKEN}, "metadata": {}}], "$[*].metadata"),
}


@pytest.mark.parametrize(("kind", "plain", "path"), MISSING.values(), ids=MISSING)
def test_content_that_an_answer_lacks_is_named_by_its_place(kind: str, plain: Any, path: str) -> None:
    decoded = decode(kind, plain)
    assert [(one.code, one.path) for one in decoded.unreadable] == [(MISSING_CONTENT, path)]


@pytest.mark.parametrize("kind", BASES)
def test_a_complete_answer_lacks_nothing(kind: str) -> None:
    assert not decode(kind, BASES[kind]).unreadable


def test_an_amount_of_any_size_beside_another_odd_value_costs_only_itself() -> None:
    spelled = ["1e400", "1e401", "-1e400", "1e-400", "1e399", '"x"']
    for first in spelled:
        for second in spelled:
            raw = encode([holder(address, 1, amount=Raw(b"%d" % k)) for k, address in ((777, ALICE), (778, BOB))])
            decoded = decode("holders", raw.replace(b"777", first.encode()).replace(b"778", second.encode()))
            assert decoded.tables["holders"].num_rows == 2


@pytest.mark.parametrize("address", ["0x12", "vitalik.eth", "a b", "İ", "x\x00y", "\u202e", "1" * 500])
def test_an_address_of_any_form_is_kept(address: str) -> None:
    decoded = decode("holders", [holder(address, 1), holder(ALICE, 2)])
    assert [row["address"] for row in rows(decoded, "holders")] == [address, ALICE]


@pytest.mark.parametrize("chain", ["a/b", "chain of tomorrow", "é", "x" * 65, "Ethereum"])
def test_a_chain_of_any_name_is_kept(chain: str) -> None:
    decoded = decode("map", token_map(relationships=[transfer(ALICE, BOB, token_key={"chain": chain, "address": "q"})]))
    assert rows(decoded, "grouped_transfers")[0]["transfer_chain"] == chain
    assert not decoded.unreadable


def test_unknown_fields_and_repeated_keys_do_not_matter() -> None:
    raw = encode([holder(ALICE, 1, weather={"sunny": [1.5, None]})])
    odd = (b'"fine"', b"1e9999999999999999999999", b"9" * 5_000, b'"\xff"', b'"\\ud800"')
    for value in odd:
        changed = raw.replace(b'{"sunny":[1.5,null]}', value)
        assert len(rows(decode("holders", changed), "holders")) == 1
    twice = encode([holder(ALICE, 1)]).replace(b'"rank":1', b'"rank":1,"rank":2')
    assert [row["rank"] for row in rows(decode("holders", twice), "holders")] == [2]


def test_control_characters_in_a_name_are_kept() -> None:
    raw = encode(BASES["tokens"]).replace(b"Seven", b"Se\\u0000v\\u001b[31men\x07")
    assert rows(decode("tokens", raw), "tokens")[0]["name"] == "Se\x00v\x1b[31men\x07"


# Values that no column holds: null, and named

UNHOLDABLE: dict[str, tuple[str, Any, str, str]] = {
    "a degree of 1e30": (
        "holders",
        [holder(ALICE, 1, address_details=details(degree=1e30))],
        "degree",
        "$[0].address_details.degree",
    ),
    "a degree beyond 64 bits": (
        "holders",
        [holder(ALICE, 1, address_details=details(degree=2**63))],
        "degree",
        "$[0].address_details.degree",
    ),
    "a rank in words": ("holders", [holder(ALICE, "second")], "rank", "$[0].holder_data.rank"),  # type: ignore[arg-type]
    "a rank of 1.5": ("holders", [holder(ALICE, 1.5)], "rank", "$[0].holder_data.rank"),  # type: ignore[arg-type]
    "a share of 1e400": ("holders", [holder(ALICE, 1, share=Raw(b"1e400"))], "share", "$[0].holder_data.share"),  # type: ignore[arg-type]
    "NaN": ("holders", [holder(ALICE, 1, share=Raw(b"NaN"))], "share", "$[0].holder_data.share"),  # type: ignore[arg-type]
    "an amount in words": ("holders", [holder(ALICE, 1, amount="much")], "amount", "$[0].holder_data.amount"),  # type: ignore[arg-type]
    "an amount of 1e99999": (
        "subgraph",
        [transfer(ALICE, BOB, total_value=Raw(b"1e99999"))],
        "total_value",
        "$[0].data.total_value",
    ),
    "an amount that is an object": (
        "subgraph",
        [transfer(ALICE, BOB, total_value={})],
        "total_value",
        "$[0].data.total_value",
    ),
    "an amount that is true": (
        "subgraph",
        [transfer(ALICE, BOB, total_value=True)],
        "total_value",
        "$[0].data.total_value",
    ),
    "a date after year 9999": (
        "subgraph",
        [transfer(ALICE, BOB, first_date=10**17)],
        "first_date",
        "$[0].data.first_date",
    ),
    "a date before year 1": (
        "subgraph",
        [transfer(ALICE, BOB, first_date=-(10**11))],
        "first_date",
        "$[0].data.first_date",
    ),
    "a token of a wrong type": (
        "subgraph",
        [transfer(ALICE, BOB, token_key="ETH")],
        "transfer_token",
        "$[0].data.token_key",
    ),
    "a token without a chain": (
        "subgraph",
        [transfer(ALICE, BOB, token_key={"address": TOKEN})],
        "transfer_token",
        "$[0].data.token_key",
    ),
    "a label that is a number": (
        "addresses",
        [{"address": ALICE, "address_details": details(label=7)}],
        "label",
        "$[0].address_details.label",
    ),
    "a flag in words": (
        "addresses",
        [{"address": ALICE, "address_details": details(is_cex="perhaps")}],
        "is_cex",
        "$[0].address_details.is_cex",
    ),
    "a day in words": (
        "addresses",
        [{"address": ALICE, "address_details": details(first_activity_date="yesterday")}],
        "first_activity_date",
        "$[0].address_details.first_activity_date",
    ),
    "details that are a list": (
        "addresses",
        [{"address": ALICE, "address_details": []}],
        "degree",
        "$[0].address_details",
    ),
    "a leap second": (
        "addresses",
        [{"address": ALICE, "address_details": details(first_activity_date="2024-06-30T23:59:60Z")}],
        "first_activity_date",
        "$[0].address_details.first_activity_date",
    ),
}


@pytest.mark.parametrize(("kind", "plain", "column", "path"), UNHOLDABLE.values(), ids=UNHOLDABLE.keys())
def test_a_value_that_no_column_holds_is_null_and_its_place_is_named(
    kind: str, plain: Any, column: str, path: str
) -> None:
    decoded = decode(kind, plain + BASES[kind])
    (table,) = decoded.tables.values()
    assert table.num_rows == 1 + len(BASES[kind])
    assert table.column(column).null_count >= 1
    assert places(decoded) == [(UNREADABLE_VALUE, path)]


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"scores": scores(service_score="high")}, "$.metrics.scores.service_score"),
        ({"scores": scores(gini_index="1e999")}, "$.metrics.scores.gini_index"),
        ({"scores": scores(nakamoto_coefficient=2.5)}, "$.metrics.scores.nakamoto_coefficient"),
        ({"scores": []}, "$.metrics.scores"),
        ({"supply_stats": 3}, "$.metrics.supply_stats"),
    ],
)
def test_a_figure_that_cannot_be_read_leaves_the_rest_of_the_map(changed: Any, path: str) -> None:
    decoded = decode("map", token_map(metrics=token_map()["metrics"] | changed))
    assert places(decoded) == [(UNREADABLE_VALUE, path)]
    assert [table.num_rows for table in decoded.tables.values()] == [1, 4, 4, 1, 3]


@pytest.mark.parametrize("share", ["most", None, [], True, Raw(b"NaN")])
def test_an_odd_share_of_an_older_map_leaves_the_rest_of_it(share: Any) -> None:
    supply = {"share_in_cexs": share, "share_in_dexs": 0.25, "share_in_other_contracts": 0.5}
    decoded = decode("map", older_map(metadata=token_map()["metadata"] | {"identified_supply": supply}))
    assert rows(decoded, "maps")[0]["dexs"] == 0.25
    assert len(rows(decoded, "map_nodes")) == 3


def test_a_block_of_a_wrong_type_leaves_the_other_blocks() -> None:
    decoded = decode("map", token_map(nodes=7, clusters={}))
    assert places(decoded) == [(UNREADABLE_VALUE, "$.nodes"), (UNREADABLE_VALUE, "$.clusters")]
    assert rows(decoded, "grouped_transfers")


@pytest.mark.parametrize("raw", [b'"x\\ud800y"', b'"x\xffy"'])
def test_a_text_that_is_not_unicode_is_kept_with_replacements(raw: bytes) -> None:
    decoded = decode("tokens", encode(BASES["tokens"]).replace(b'"Seven"', raw))
    assert rows(decoded, "tokens")[0]["name"] == "x\ufffdy"
    assert places(decoded) == [(UNREADABLE_VALUE, "$[0].metadata.name")]


# Rows that cannot be read: left out, and named

UNREADABLE: dict[str, tuple[str, Any, str]] = {
    "a holder without an address": ("holders", {"holder_data": {"rank": 1}}, "$[0].address"),
    "an empty address": ("holders", holder("", 1), "$[0].address"),
    "a blank address": ("addresses", {"address": " ", "address_details": details()}, "$[0].address"),
    "an address that is a number": ("holders", holder(7, 1), "$[0].address"),  # type: ignore[arg-type]
    "an item that is a list": ("holders", [1], "$[0]"),
    "an item that is null": ("subgraph", None, "$[0]"),
    "a transfer without a receiver": ("subgraph", {"from_address": ALICE, "data": {}}, "$[0].to_address"),
    "a transfer to an empty address": ("subgraph", transfer(ALICE, ""), "$[0].to_address"),
    "an unknown relationship without ends": ("subgraph", {"rel_type": "LOAN", "data": 1}, "$[0].from_address"),
    "a type that is a number": ("subgraph", transfer(ALICE, BOB) | {"rel_type": 5}, "$[0].rel_type"),
    "a token without a key": ("tokens", {"metadata": {}}, "$[0].token_key.chain"),
    "a chain without an id": ("chains", {"name": "Ethereum"}, "$[0].id"),
}


@pytest.mark.parametrize(("kind", "item", "path"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_row_that_cannot_be_identified_is_left_out_and_named(kind: str, item: Any, path: str) -> None:
    decoded = decode(kind, [item, *BASES[kind]])
    (table,) = decoded.tables.values()
    assert table.num_rows == len(BASES[kind])
    assert places(decoded) == [(UNREADABLE_ROW, path)]


def test_unreadable_members_and_relationships_of_a_map_are_named_by_their_place() -> None:
    nodes = token_map()["nodes"]
    nodes["top_holders"].append({"is_shown_on_map": True})
    nodes["time_nodes"][0]["relationships"].insert(0, 5)
    cluster = token_map()["clusters"][0] | {"holders": [ALICE, None, 7]}
    decoded = decode("map", token_map(nodes=nodes, clusters=[cluster]))
    assert places(decoded) == [
        (UNREADABLE_ROW, "$.nodes.top_holders[2].address"),
        (UNREADABLE_ROW, "$.nodes.time_nodes[0].relationships[0]"),
        (UNREADABLE_ROW, "$.clusters[0].holders[1]"),
        (UNREADABLE_ROW, "$.clusters[0].holders[2]"),
    ]
    assert [table.num_rows for table in decoded.tables.values()] == [1, 4, 4, 1, 2]


def test_one_bad_item_of_a_thousand_costs_only_itself() -> None:
    keys = [f"0x{number:040x}" for number in range(1_000)]
    answer = [BASES["tokens"][0] | {"token_key": {"chain": "eth", "address": key}} for key in keys]
    answer[417] = answer[417] | {"token_key": {"chain": None, "address": keys[417]}}
    decoded = token_rows([encode(answer)], "eth", keys, AS_OF)
    assert decoded.tables["tokens"]["token_address"].to_pylist() == keys[:417] + keys[418:]
    (one,) = decoded.unreadable
    assert (one.code, one.path, one.subject) == (UNREADABLE_ROW, "$[417].token_key.chain", keys[417])
    assert one.reason == "expected text, not null"


def test_unreadable_rows_beyond_a_hundred_are_counted() -> None:
    decoded = decode("holders", [*range(5_000), holder(ALICE, 1)])
    assert len(decoded.unreadable) == 101
    assert decoded.unreadable[-1].reason == "4,900 more of this answer's rows or values cannot be read"


# Documents that cannot be parsed


@pytest.mark.parametrize(
    ("kind", "raw", "words"),
    [
        ("map", b"", "not JSON .*line 1, column 1"),
        ("holders", b"<html><body>502 Bad Gateway</body></html>", "not JSON .*<html>"),
        ("map", b"null", "expected an object, not null"),
        ("map", b"[]", "expected an object, not a list of 0"),
        ("map", b'{"detail": "no holders"}', r"expected a map, not an object with 'detail'"),
        ("holders", b"{}", "expected a list, not an empty object"),
        ("holders", b"[" * 100_000, "nested too deeply"),
        ("holders", b'[{"address": "0xa", "weather": ' + b"[" * 100_000, "nested too deeply"),
        ("holders", encode([holder(ALICE, 1)])[:-20], "not JSON"),
        ("holders", encode([holder(ALICE, 1)]) + b"x", "not JSON .Extra data"),
        ("holders", b'[{"error": "x"}, 7]', r"none of 2 rows can be read; \$\[0\].address: expected text, not null"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_only_a_document_that_cannot_be_parsed_is_rejected(kind: str, raw: bytes, words: str) -> None:
    with pytest.raises(MalformedAnswer, match=words):
        decode(kind, raw)


def test_the_answer_that_cannot_be_parsed_is_named_among_several() -> None:
    with pytest.raises(MalformedAnswer) as found:
        subgraph_rows([b"[]", b"[]", b"<html>"], "eth", ["friends"], AS_OF)
    assert found.value.answer == 2


# Answers changed at random


def paths(plain: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value within plain data."""
    children: Any = plain.items() if isinstance(plain, dict) else enumerate(plain) if isinstance(plain, list) else ()
    for key, value in children:
        yield (*path, key)
        yield from paths(value, (*path, key))


PLAIN = [None, True, False, 0, 1, -1, 1.0, 0.5, -0.5, 1.5, 2**31, 2**63, 2**70, 10**25, Raw(b"-0.0"), Raw(b"1e400")]
PLAIN += [Raw(b"3.0"), Raw(b"NaN"), Raw(b"-Infinity"), Raw(b"1e999999999999999999999"), Raw(b"0e-500"), [], {}, [None]]
PLAIN += [{"a": 1}, "", " ", "1", "true", "eth", "0xAB", "é", "GROUPED_TRANSFER", "2024-01-02", Raw(b'"\\ud800"')]
KEYS = ["id", "token_ref", "token_key", "x_score", "service_score", "rel_type", "label", "weather", "data", "stats"]
KEYS += ["holder_data", "address_details", "metrics", "decentralization_score", "magic_nodes", "metadata", "address"]


@st.composite
def changed(draw: st.DrawFn, kind: str) -> bytes:
    """An answer of a kind with some of its values replaced, left out, added, repeated or renamed."""
    plain = copy.deepcopy(BASES[kind])
    for _ in range(draw(st.integers(1, 4))):
        found = [*paths(plain)]
        if not found:
            break
        *path, last = draw(st.sampled_from(found))
        parent = plain
        for step in path:
            parent = parent[step]
        value = parent[last]
        match draw(st.sampled_from(["replace", "replace", "leave out", "add", "repeat", "rename"])):
            case "replace":
                parent[last] = draw(st.sampled_from(PLAIN).map(copy.deepcopy))
            case "leave out":
                del parent[last]
            case "add" if isinstance(parent, dict):
                parent[draw(st.sampled_from(KEYS))] = copy.deepcopy(value)
            case "repeat" if isinstance(parent, list):
                parent.insert(draw(st.integers(0, len(parent))), copy.deepcopy(value))
            case "rename" if isinstance(parent, dict):
                parent[draw(st.sampled_from(KEYS))] = parent.pop(last)
    return encode(plain)


@pytest.mark.long
@settings(deadline=None, max_examples=some(2_000))
@given(st.sampled_from(sorted(BASES)).flatmap(lambda kind: st.tuples(st.just(kind), changed(kind))))
def test_a_randomly_changed_answer_is_kept_or_rejected_with_a_place(answer: tuple[str, bytes]) -> None:
    try:
        decoded = decode(*answer)
    except MalformedAnswer as error:
        assert "$" in str(error) or "JSON" in str(error)
        return
    assert all(one.path.startswith("$") and one.reason for one in decoded.unreadable)


@pytest.mark.integration
@settings(deadline=None, max_examples=some(400))
@given(st.data())
def test_randomly_changed_bytes_are_decoded_or_rejected(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(BASES)))
    raw = json.dumps(BASES[kind], ensure_ascii=False).encode()
    start = data.draw(st.integers(0, len(raw)))
    stop = data.draw(st.sampled_from([start, start + 1, start + 2, len(raw)]))
    inserted = data.draw(st.binary(max_size=3) | st.sampled_from([b",", b'"', b"1", b"e9"]))
    try:
        decode(kind, raw[:start] + inserted + raw[stop:])
    except MalformedAnswer as error:
        assert str(error)


@settings(deadline=None, max_examples=some(200))
@given(st.sampled_from(["holders", "subgraph", "addresses", "map"]), st.randoms(use_true_random=False))
def test_rows_without_the_odd_value_are_those_of_the_ordinary_answer(kind: str, chance: random.Random) -> None:
    plain = copy.deepcopy(BASES[kind])
    items = plain if isinstance(plain, list) else plain["relationships"]
    items.insert(chance.randint(0, len(items)), chance.choice([None, 7, [], {"odd": 1}]))
    assert {name: table for name, table in decode(kind, plain).tables.items()} == decode(kind, BASES[kind]).tables
