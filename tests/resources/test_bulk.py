"""The short way from bytes to tables and the long one give the same: equal rows to the last digit, or one refusal."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.json import encode

from contract.models import AddressMetadata, Holder, Map, Relationship
from contract.wire import MalformedAnswer, decode
from resources import bulk, normalise
from resources.normalise import BadAnswer
from tests.contract.answers import ALICE, BOB, CAROL, TOKEN, details, holder, older_map, scores, token_map, transfer
from tests.examples import some

AS_OF = datetime(2026, 11, 20)
Tables = Mapping[str, pa.Table]

SHORT: dict[str, Callable[[bytes], Tables]] = {
    "map": lambda raw: bulk.map_tables([raw], "eth", [TOKEN.upper()], AS_OF),
    "holders": lambda raw: {"holders": bulk.holder_rows([raw], "eth", [TOKEN.upper()], AS_OF)},
    "subgraph": lambda raw: {"subgraph_transfers": bulk.subgraph_rows([raw], "friends", "eth", AS_OF)},
    "addresses": lambda raw: {"addresses": bulk.address_rows(raw, "eth", AS_OF)},
}
LONG: dict[str, Callable[[bytes], Tables]] = {
    "map": lambda raw: normalise.map_tables(decode(raw, Map), "eth", TOKEN.upper(), AS_OF),
    "holders": lambda raw: {"holders": normalise.holder_rows(decode(raw, list[Holder]), "eth", TOKEN.upper(), AS_OF)},
    "subgraph": lambda raw: {
        "subgraph_transfers": normalise.subgraph_rows(
            "friends", bulk.distinct(decode(raw, list[Relationship])), "eth", AS_OF
        )
    },
    "addresses": lambda raw: {"addresses": normalise.address_rows(decode(raw, list[AddressMetadata]), "eth", AS_OF)},
}
BASES: dict[str, Any] = {
    "map": token_map(),
    "holders": [holder(BOB, 2, address_details=details(label="Ü")), holder(ALICE, 1)],
    "subgraph": [transfer(ALICE, BOB), transfer(BOB, CAROL, total_value=3)],
    "addresses": [{"address": address, "address_details": details()} for address in (BOB, ALICE)],
}


def outcome(way: Callable[[bytes], Tables], raw: bytes) -> Any:
    """Tables as schemas and rows, told apart as their texts are (0.0 is not -0.0), or the refusal."""
    try:
        tables = way(raw)
    except Exception as error:
        return type(error), str(error)
    for rows in tables.values():
        rows.validate(full=True)
    return [
        (name, rows.schema.to_string(show_field_metadata=True), repr(rows.to_pylist())) for name, rows in tables.items()
    ]


def agree(kind: str, raw: bytes) -> None:
    """Both ways give the same, whatever that is."""
    assert outcome(SHORT[kind], raw) == outcome(LONG[kind], raw)


@pytest.fixture
def no_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("the long way was taken")

    for name in ("map_tables", "holder_rows", "subgraph_rows", "address_rows"):
        monkeypatch.setattr(bulk.normalise, name, refuse)


# --- What is ordinary, and so must be fast


def ordinary_maps() -> dict[str, Any]:
    base = token_map()
    edge = transfer(ALICE, BOB)
    typeless = {name: value for name, value in edge.items() if name != "rel_type"}
    return {
        "a map": base,
        "nothing but figures": token_map(nodes=None, relationships=None, clusters=None),
        "empty lists": token_map(nodes={"top_holders": []}, relationships=[], clusters=[]),
        "null blocks of nodes": token_map(nodes=base["nodes"] | {"magic_nodes": None, "time_nodes": None}),
        "unknown fields": token_map(weather={"sunny": [1.5, None]}, relationships=[edge | {"mood": "good"}]),
        "null scores": token_map(metrics=base["metrics"] | {"scores": scores(service_score=None, gini_index=None)}),
        "a relationship without a type": token_map(relationships=[typeless]),
        "raw amounts": token_map(relationships=[transfer(ALICE, BOB, total_value_raw="-12")]),
        "other chains": token_map(
            relationships=[transfer(ALICE, BOB), transfer(ALICE, BOB, token_key={"chain": "x.y-z_1", "address": "q"})]
        ),
        "wide amounts": token_map(
            relationships=[
                transfer(ALICE, BOB, total_value=Raw(b"1" * 30)),
                transfer(BOB, ALICE, total_value=Raw(b"0.1234567890123456789")),
                transfer(BOB, CAROL, total_value=7),
            ]
        ),
    }


@pytest.mark.parametrize("plain", ordinary_maps().values(), ids=ordinary_maps().keys())
@pytest.mark.usefixtures("no_long_way")
def test_an_ordinary_map_goes_the_short_way(plain: Any) -> None:
    SHORT["map"](encode(plain))


@pytest.mark.parametrize("kind", ["holders", "subgraph", "addresses"])
@pytest.mark.usefixtures("no_long_way")
def test_ordinary_answers_of_the_other_kinds_go_the_short_way(kind: str) -> None:
    SHORT[kind](encode(BASES[kind]))
    SHORT[kind](b"[]")
    SHORT[kind](encode([item | {"weather": "fine"} for item in BASES[kind]]))


@pytest.mark.parametrize("text", ["2024-05-06T07:08:09", "2024-05-06T09:08:09.5+02:00", "2024-05-06T07:08:09Z", None])
@pytest.mark.usefixtures("no_long_way")
def test_date_times_with_and_without_a_zone_go_the_short_way(text: str | None) -> None:
    SHORT["holders"](encode([holder(ALICE, 1, address_details=details(first_activity_date=text))]))


@pytest.mark.parametrize("plain", ordinary_maps().values(), ids=ordinary_maps().keys())
def test_an_ordinary_map_s_tables_are_those_of_the_long_way(plain: Any) -> None:
    agree("map", encode(plain))


@pytest.mark.parametrize("kind", BASES)
def test_ordinary_answers_have_the_tables_of_the_long_way(kind: str) -> None:
    agree(kind, encode(BASES[kind]))
    agree(kind, b"[]")


# --- What is not ordinary, and what is no answer

SPARSE = transfer(ALICE, BOB) | {"data": {"total_value": 1.0}}
STRANGE: dict[str, tuple[str, Any]] = {
    "an older map": ("map", older_map()),
    "an older map without shares": ("map", older_map(metadata=token_map()["metadata"])),
    "no metrics": ("map", {"metadata": {}, "nodes": None}),
    "blocks left out": ("map", {name: token_map()[name] for name in ("metadata", "metrics")}),
    "a map that is a list": ("map", []),
    "a list that is a map": ("holders", {}),
    "an error": ("map", {"detail": "no holders", "code": "no_holders"}),
    "a token by its older name": (
        "subgraph",
        [
            transfer(ALICE, BOB)
            | {"data": {"token_ref" if k == "token_key" else k: v for k, v in SPARSE["data"].items()}}
        ],
    ),
    "an unknown relationship": ("subgraph", [{"from_address": ALICE, "to_address": BOB, "rel_type": "X", "data": 1.5}]),
    "a relationship of a null type": ("subgraph", [transfer(ALICE, BOB) | {"rel_type": None}]),
    "a relationship told of twice": ("subgraph", [transfer(ALICE, BOB), transfer(ALICE, BOB, total_value=9)]),
    "one told of twice in other letters": ("subgraph", [transfer(ALICE, BOB), transfer(ALICE.replace("a", "A"), BOB)]),
    "a grouped transfer twice on a map": ("map", token_map(relationships=[transfer(ALICE, BOB), transfer(ALICE, BOB)])),
    "sparse data": ("subgraph", [SPARSE]),
    "a holder twice": ("holders", [holder(ALICE, 1), holder(ALICE.replace("a", "A"), 2)]),
    "an address twice": ("addresses", BASES["addresses"] * 2),
    "ranks that are equal": ("holders", [holder(BOB, 1), holder(ALICE, 1)]),
    "a rank beyond 64 bits": ("holders", [holder(ALICE, 2**63)]),
    "a rank as text": ("holders", [holder(ALICE, 1) | {"holder_data": {"amount": 1, "rank": "1", "share": 0}}]),
    "an amount as text": ("holders", [holder(ALICE, 1, amount="12")]),  # type: ignore[arg-type]
    "an amount that is null": ("holders", [holder(ALICE, 1, amount=None)]),  # type: ignore[arg-type]
    "an amount that is an object": ("holders", [holder(ALICE, 1, amount={})]),  # type: ignore[arg-type]
    "a share that is null": ("holders", [holder(ALICE, 1, share=None)]),  # type: ignore[arg-type]
    "a share over one": ("holders", [holder(ALICE, 1, share=1.5)]),
    "a raw amount with a line end": ("subgraph", [transfer(ALICE, BOB, total_value_raw="12\n")]),
    "a raw amount that is a number": ("subgraph", [transfer(ALICE, BOB, total_value_raw=12)]),
    "a label that is a number": ("addresses", [{"address": ALICE, "address_details": details(label=7)}]),
    "a flag that is a number": ("addresses", [{"address": ALICE, "address_details": details(is_cex=1)}]),
    "a date-time in seconds": ("addresses", [{"address": ALICE, "address_details": details(first_activity_date=7)}]),
}


@pytest.mark.parametrize(("kind", "plain"), STRANGE.values(), ids=STRANGE.keys())
def test_strange_answers_have_the_tables_or_the_refusal_of_the_long_way(kind: str, plain: Any) -> None:
    agree(kind, encode(plain))


@pytest.mark.parametrize(
    "name", ["service_score", "decentralization_score", "x_score", "one_score, two_score", "service_score, x_score", ""]
)
def test_a_score_under_any_name_is_the_long_way_s(name: str) -> None:
    plain = scores()
    del plain["service_score"]
    plain |= {each: 7.5 for each in name.split(", ") if each}
    agree("map", encode(token_map(metrics=token_map()["metrics"] | {"scores": plain})))


@pytest.mark.parametrize("chain", ["", "a/b", "a b", "eth\n", "é", "x" * 65, "A.b-c_9", 5, None])
@pytest.mark.parametrize("address", [TOKEN, "", "a b", "a/b", "NATIVE", "0xAB", "\u2003", "x\x1cy", "x" * 129])
def test_a_token_that_no_path_could_hold_is_refused_as_ever(chain: Any, address: Any) -> None:
    for key in ({"chain": chain, "address": address}, {"chain": chain, "id": address}):
        agree("subgraph", encode([transfer(ALICE, BOB, token_key=key), transfer(BOB, ALICE)]))


@pytest.mark.parametrize(
    "seconds", [0, -1, -62_135_596_800, -62_135_596_801, 253_402_300_799, 253_402_300_800, 2**63, 1.0, 1.5, "1", True]
)
def test_dates_end_where_calendars_do(seconds: Any) -> None:
    agree("map", encode(token_map(relationships=[transfer(ALICE, BOB), transfer(BOB, ALICE, first_date=seconds)])))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"<html><body>502 Bad Gateway</body></html>",
        b"null",
        b"\xff\xfe{}",
        b"\xef\xbb\xbf[]",
        b"[" * 100_000,
        b'[{"address": "0xa", "weather": ' + b"[" * 100_000,
        encode([holder(ALICE, 1)]).replace(b'"0x', b'"\xff0x'),
        encode([holder(ALICE, 1, weather="fine")]).replace(b"fine", b"\xff"),
        encode([holder(ALICE, 1, weather="fine")]).replace(b'"fine"', b"1e9999999999999999999999"),
        encode([holder(ALICE, 1, weather="fine")]).replace(b'"fine"', b"9" * 5_000),
        encode([holder(ALICE, 1)]) + b"x",
        encode([holder(ALICE, 1)]).replace(b'"rank":1', b'"rank":1,"rank":2'),
        encode([holder(ALICE, 1)]).replace(b'"rank":1', b'"rank":"x","rank":2'),
        encode([holder(ALICE, 1)]).replace(b'"rank"', b'"r\\u0061nk"'),
        encode([holder(ALICE, 1, address_details=details())]).replace(b'"label":null', b'"l\\u0061bel":"x","mood":1'),
        encode([holder(ALICE, 1, address_details=details(label="x"))]).replace(b'"x"', b'"\\ud800"'),
        encode([holder(ALICE, 1, address_details=details(label="x\x00y\U0001f600"))]),
    ],
    ids=lambda raw: raw[:24].decode(errors="replace"),
)
def test_bytes_of_every_kind_have_the_outcome_of_the_long_way(raw: bytes) -> None:
    agree("holders", raw)
    agree("map", raw)


def test_a_refusal_is_one_of_the_two_that_callers_know() -> None:
    with pytest.raises(MalformedAnswer, match="not JSON"):
        bulk.map_tables([b"<html>"], "eth", [TOKEN], AS_OF)
    with pytest.raises(BadAnswer, match=f"holder {ALICE} twice"):
        bulk.holder_rows([encode([holder(ALICE, 1), holder(ALICE, 2)])], "eth", [TOKEN], AS_OF)


# --- Answers about several tokens


def of_each(tables: Tables, tokens: Sequence[str]) -> list[Any]:
    """The rows of each token, in their order."""
    found = {name: rows.to_pylist() for name, rows in tables.items()}
    return [
        {name: [row for row in rows if row["token_address"] == token] for name, rows in found.items()}
        for token in tokens
    ]


TOKENS = [f"0x{number:040x}" for number in range(1, 5)]


@given(st.lists(st.sampled_from(["full", "bare", "older"]), min_size=1, max_size=4))
@settings(deadline=None)
def test_maps_that_are_read_together_have_the_rows_of_each_alone(kinds: list[str]) -> None:
    shapes = {"full": token_map(), "bare": token_map(nodes=None, relationships=None, clusters=[]), "older": older_map()}
    raws = [encode(shapes[kind]) for kind in kinds]
    tokens = TOKENS[: len(raws)]
    together = of_each(bulk.map_tables(raws, "eth", tokens, AS_OF), tokens)
    alone = [bulk.map_tables([raw], "eth", [token], AS_OF) for raw, token in zip(raws, tokens, strict=True)]
    assert together == [of_each(tables, [token])[0] for tables, token in zip(alone, tokens, strict=True)]


def test_lists_of_holders_that_are_read_together_have_the_rows_of_each_alone() -> None:
    raws = [encode([holder(BOB, 2), holder(ALICE, 1)]), encode([]), encode([holder(BOB, 1)])]
    together = of_each({"holders": bulk.holder_rows(raws, "eth", TOKENS[:3], AS_OF)}, TOKENS[:3])
    assert [[(row["rank"], row["address"]) for row in each["holders"]] for each in together] == [
        [(1, ALICE), (2, BOB)],
        [],
        [(1, BOB)],
    ]


def test_one_that_can_not_be_read_is_refused_with_those_beside_it() -> None:
    with pytest.raises(MalformedAnswer, match="not JSON"):
        bulk.map_tables([encode(token_map()), b"<html>"], "eth", TOKENS[:2], AS_OF)


# --- Several answers of one subgraph


@given(
    st.lists(st.lists(st.tuples(*[st.sampled_from([ALICE, BOB, BOB.upper(), CAROL])] * 2)), max_size=4), st.booleans()
)
def test_what_several_answers_tell_of_is_one_table(blocks: Sequence[Sequence[tuple[str, str]]], unknown: bool) -> None:
    strange = [{"from_address": ALICE, "to_address": BOB, "rel_type": "X", "data": [1]}] if unknown else []
    raws = [encode([*(transfer(*ends, total_value=len(ends[0])) for ends in block), *strange]) for block in blocks]

    def long(_: bytes) -> Tables:
        told = bulk.distinct(each for raw in raws for each in decode(raw, list[Relationship]))
        return {"subgraph_transfers": normalise.subgraph_rows("friends", told, "eth", AS_OF)}

    def short(_: bytes) -> Tables:
        return {"subgraph_transfers": bulk.subgraph_rows(raws, "friends", "eth", AS_OF)}

    assert outcome(short, b"") == outcome(long, b"")


# --- Numbers, texts and instants of all kinds

AWKWARD = ["-0", "-0.0", "0.00", "0e0", "0e-30", "0e-500", "1e-7", "1E+30", "1e19", "1e-400", "1e-500", "1e400"]
AWKWARD += ["1e99999", "1e999999999999999999999", "5e-324", "1e-18", "1.5e-18", "true", "null", '"1"', "[1]", "{}"]
AWKWARD += [
    "99999999999999999999",
    "99999999999999999998.999999999999999999",
    "340282366920938463463374607431768211456",
]
AWKWARD += ["0.0000000000000000005", "0.5000000000000000005"]
AWKWARD += ["0." + "0" * 90, "1" + "0" * 310, "1." + "3" * 500, "9" * 5_000]
numbers = st.one_of(
    st.from_regex(r"-?(0|[1-9][0-9]{0,79})(\.[0-9]{1,80})?", fullmatch=True),
    st.from_regex(r"-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
    st.from_regex(r"[1-9][0-9]{17,20}(\.[0-9]{16,20})?", fullmatch=True),
    st.sampled_from(AWKWARD),
)


@settings(deadline=None, max_examples=some(300))
@given(st.lists(numbers, min_size=1, max_size=8))
def test_amounts_are_exact_however_they_are_written(texts: Sequence[str]) -> None:
    told = [transfer(f"0x{i}", BOB, total_value=Raw(text.encode())) for i, text in enumerate(texts)]
    agree("subgraph", encode(told))


@settings(deadline=None, max_examples=some(200))
@given(numbers, numbers, st.sampled_from(["share", "figure"]))
def test_shares_and_figures_are_the_same_floats_however_they_are_written(one: str, two: str, which: str) -> None:
    if which == "share":
        agree("holders", encode([holder(ALICE, 1, share=Raw(one.encode()))]))  # type: ignore[arg-type]
    else:
        figures = scores(gini_index=Raw(one.encode()), service_score=Raw(two.encode()))
        agree("map", encode(token_map(metrics=token_map()["metrics"] | {"scores": figures})))


@settings(deadline=None, max_examples=some(100))
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_a_share_is_the_nearest_float(shares: Sequence[float]) -> None:
    agree("holders", encode([holder(f"0x{rank}", rank, share=share) for rank, share in enumerate(shares, 1)]))


date_times = st.one_of(
    st.none(),
    st.builds(
        lambda when, form, end: f"{when:{form}}{end}",
        st.datetimes(datetime(1000, 1, 1)),
        st.sampled_from(
            ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d", "%Y-%m-%dT%H:%M:%S.%f"]
        ),
        st.sampled_from(["", "Z", "z", "+00:00", "-05:30", "+0200", " "]),
    ),
    st.from_regex(r"[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9](\.[0-9]{1,9})?Z?", fullmatch=True),
    st.sampled_from(["2024-06-30T23:59:60Z", "2024-01-01T24:00:00Z", "2023-02-29T00:00:00Z", "1970", "", "now", "1e3"]),
    st.sampled_from(["0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59.999999Z", "2024-05-06T07:08:09.1234567Z"]),
)


@settings(deadline=None, max_examples=some(300))
@given(st.lists(date_times, min_size=1, max_size=4))
def test_date_times_are_the_same_instants_however_they_are_written(texts: Sequence[str | None]) -> None:
    told = [{"address": str(i), "address_details": details(first_activity_date=t)} for i, t in enumerate(texts)]
    agree("addresses", encode(told))


addresses = st.one_of(
    st.from_regex(r"0[xX][0-9a-fA-F]{1,6}", fullmatch=True),
    st.sampled_from(
        [ALICE, BOB, ALICE.upper(), "native", " NATIVE ", "\u2003x", "0x", "0xZ", "So1111", "so1111", "İ", ""]
    ),
    st.text(max_size=5),
)


@settings(deadline=None, max_examples=some(200))
@given(st.lists(st.tuples(addresses, st.integers(1, 5)), max_size=6))
def test_addresses_are_written_as_the_contract_writes_them(held: Sequence[tuple[str, int]]) -> None:
    agree("holders", encode([holder(address, rank) for address, rank in held]))
    agree("subgraph", encode([transfer(address, address * 2) for address, _ in held]))
    agree("map", encode(token_map(clusters=[a_cluster(0.1, [address for address, _ in held])])))


@pytest.mark.parametrize(
    "address", [" 0xab", "0xab\n", "0xAB", "0XaB", "\u2003native", "So1anaCase", "a b", "x\x1cy", ""]
)
def test_addresses_with_blanks_and_in_other_letters_are_written_so_too(address: str) -> None:
    agree("holders", encode([holder(ALICE, 1), holder(address, 2)]))
    agree("subgraph", encode([transfer(ALICE, address), transfer(address, BOB)]))
    agree("map", encode(token_map(relationships=[transfer(address, ALICE)], clusters=[a_cluster(0.1, [address])])))


# --- Answers bent at random


def a_cluster(share: float, holders: Sequence[str], **changed: Any) -> dict[str, Any]:
    return {"share": share, "amount": 1.5, "holder_count": len(holders), "holders": [*holders]} | changed


clusters = st.lists(
    st.builds(
        a_cluster, st.sampled_from([0, 0.1, 0.25, 1]), st.lists(addresses, max_size=3), magic_nodes=st.just([CAROL])
    ),
    max_size=3,
)
edges = st.lists(st.builds(transfer, addresses, addresses, total_value=numbers.map(lambda text: Raw(text.encode()))))


@settings(deadline=None, max_examples=some(150))
@given(clusters, edges, edges, st.permutations(range(1, 5)))
def test_maps_of_every_content_agree(
    clusters: list[Any], inside: list[Any], outside: list[Any], ranks: list[int]
) -> None:
    nodes = token_map()["nodes"] | {
        "top_holders": [holder(f"0x{rank}", rank, is_shown_on_map=True, address_details=details()) for rank in ranks],
        "time_nodes": [{"address": BOB, "relationships": inside}, {"address": CAROL, "relationships": []}],
    }
    agree("map", encode(token_map(nodes=nodes, relationships=outside, clusters=clusters)))


def places(plain: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value within plain data."""
    children: Any = plain.items() if isinstance(plain, dict) else enumerate(plain) if isinstance(plain, list) else ()
    for key, value in children:
        yield (*path, key)
        yield from places(value, (*path, key))


PLAIN = [None, True, False, 0, 1, -1, 1.0, 0.5, -0.5, 1.5, 2**31, 2**63, 2**70, 10**25, Raw(b"-0.0"), Raw(b"1e400")]
PLAIN += [Raw(b"3.0"), [], {}, [None], {"a": 1}, "", "1", "true", "eth", "0xAB", "é", "GROUPED_TRANSFER", "2024-01-02"]
literals = st.sampled_from(PLAIN).map(copy.deepcopy)
KEYS = [
    "id",
    "token_ref",
    "token_key",
    "x_score",
    "service_score",
    "rel_type",
    "label",
    "weather",
    "amount_raw",
    "data",
]
KEYS += ["total_value_raw", "holder_data", "address_details", "metrics", "decentralization_score", "magic_nodes"]


@st.composite
def bent(draw: st.DrawFn, kind: str) -> bytes:
    """An answer of a kind with some of its values replaced, left out, added, repeated or renamed."""
    plain = copy.deepcopy(BASES[kind])
    for _ in range(draw(st.integers(1, 3))):
        found = [*places(plain)]
        if not found:
            break
        *path, last = draw(st.sampled_from(found))
        parent = plain
        for step in path:
            parent = parent[step]
        value = parent[last]
        match draw(st.sampled_from(["replace", "replace", "leave out", "add", "repeat", "rename"])):
            case "replace":
                parent[last] = draw(literals)
            case "leave out":
                del parent[last]
            case "add" if isinstance(parent, dict):
                parent[draw(st.sampled_from(KEYS))] = draw(st.just(copy.deepcopy(value)) | literals)
            case "repeat" if isinstance(parent, list):
                parent.insert(draw(st.integers(0, len(parent))), copy.deepcopy(value))
            case "rename" if isinstance(parent, dict):
                parent[draw(st.sampled_from(KEYS))] = parent.pop(last)
    return encode(plain)


@settings(deadline=None, max_examples=some(1_000))
@given(st.sampled_from(sorted(BASES)).flatmap(lambda kind: st.tuples(st.just(kind), bent(kind))))
def test_answers_bent_at_random_agree(answer: tuple[str, bytes]) -> None:
    agree(*answer)


@settings(deadline=None, max_examples=some(300))
@given(st.data())
def test_bytes_bent_at_random_agree(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(BASES)))
    raw = json.dumps(BASES[kind], ensure_ascii=False).encode()
    start = data.draw(st.integers(0, len(raw)))
    stop = data.draw(st.sampled_from([start, start + 1, start + 2, len(raw)]))
    agree(
        kind, raw[:start] + data.draw(st.binary(max_size=3) | st.sampled_from([b",", b'"', b"1", b"e9"])) + raw[stop:]
    )
