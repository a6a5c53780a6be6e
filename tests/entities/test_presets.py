"""Presets join wallets to entities; files of all kinds are read, and results are whole."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import get_args, get_type_hints

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.worlds import make_world
from holderlake.cli.store import find_wallets as command
from holderlake.contract.times import from_unix
from holderlake.engine.errors import BadSource
from holderlake.entities.clusters import entities_among, search_at
from holderlake.entities.kinds import KINDS, PRESETS, Preset
from holderlake.entities.links import ENTITIES, JOINS, LINKS, MARKED, SEARCHES, find_entities
from holderlake.entities.sources import file_marks
from tests.entities.transfers import Row, entities, marks, paid, write

WALLETS = ("w1", "w2", "w3", "w4")
TWO, ONE, BARE = PRESETS["two-kinds"], PRESETS["one-kind"], PRESETS["bare-edges"]
DISPERSED = [paid("owner", one, 10, tx="t") for one in WALLETS]
IN_STEP = [paid(one, "app", 9_000 + minute, 1) for minute in (0, 100, 200, 300) for one in WALLETS]


def test_two_families_of_evidence_must_agree_on_the_wallets(tmp_path: Path) -> None:
    assert entities(tmp_path, DISPERSED, TWO) == []
    assert entities(tmp_path, [*DISPERSED, *IN_STEP], TWO) == [set(WALLETS)]
    others = [*DISPERSED, *(row | {"from_address": f"other {row['from_address']}"} for row in IN_STEP)]
    assert entities(tmp_path, others, TWO) == []


def test_kinds_of_one_family_do_not_confirm_each_other(tmp_path: Path) -> None:
    assert KINDS["disperse"].family == KINDS["first_funder"].family
    assert entities(tmp_path, DISPERSED, replace(TWO, confidence=0)) == []


def test_one_strong_kind_is_enough_for_the_preset_one_kind(tmp_path: Path) -> None:
    assert entities(tmp_path, DISPERSED, ONE) == [{"owner", *WALLETS}]
    weak = [paid("w1", "w2", 10), paid("w1", "w2", 20)]
    assert entities(tmp_path, weak, ONE) == []


def test_bare_edges_join_addresses_with_few_counterparties(tmp_path: Path) -> None:
    pairs = [("a", "b"), ("b", "c"), *(("hub", f"user {number}") for number in range(11))]
    rows = [{"from_address": one, "to_address": other} for one, other in pairs]
    assert entities(tmp_path, rows, BARE) == [{"a", "b", "c"}]


def test_transfers_after_the_instant_do_not_count(tmp_path: Path) -> None:
    rows = [*DISPERSED, *IN_STEP]
    assert entities(tmp_path, rows, TWO, until=9_199) == []
    assert entities(tmp_path, rows, TWO, until=9_300) == [set(WALLETS)]
    assert set(pq.read_table(tmp_path / ENTITIES)["as_of"].to_pylist()) == {
        pa.scalar(9_300 * 60, pa.timestamp("s")).as_py()
    }


@settings(max_examples=5, deadline=None)
@given(st.permutations([*DISPERSED, *IN_STEP]))
def test_the_order_of_the_rows_does_not_matter(rows: list[Row]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert entities(Path(folder), rows, TWO) == [set(WALLETS)]


def test_a_csv_file_and_a_parquet_file_say_the_same(tmp_path: Path) -> None:
    rows = [*DISPERSED, *IN_STEP]
    path = write(tmp_path, rows)
    pc.write_csv(pq.read_table(path), tmp_path / "transfers.csv")
    (tmp_path / "other").mkdir()
    first = find_entities([path], MARKED.empty_table(), TWO, tmp_path)
    assert find_entities([str(tmp_path / "transfers.csv")], MARKED.empty_table(), TWO, tmp_path / "other") == first
    for name in (LINKS, ENTITIES):
        assert (
            pq.read_table(tmp_path / name)
            .drop(["link"] * (name == LINKS))
            .equals(pq.read_table(tmp_path / "other" / name).drop(["link"] * (name == LINKS)))
        )


def test_capital_letters_and_rows_without_addresses_make_no_difference(tmp_path: Path) -> None:
    pairs = [("0xA", "0xb"), ("0xa", "0xC"), (None, "0xd"), ("0xd", None)]
    rows = [{"from_address": one, "to_address": other} for one, other in pairs]
    assert entities(tmp_path, rows, BARE) == [{"0xa", "0xb", "0xc"}]


@pytest.mark.parametrize(
    ("columns", "preset", "until", "says"),
    [
        (["from_address"], BARE, None, "has no column to_address"),
        (["from_address", "to_address"], BARE, 5, "has no column block_time"),
        (["from_address", "to_address"], TWO, None, "use the preset one-kind or bare-edges"),
    ],
)
def test_a_file_that_lacks_a_column_is_refused_by_name(
    tmp_path: Path, columns: list[str], preset: object, until: int | None, says: str
) -> None:
    path = write(tmp_path, [{name: name for name in columns}])
    with pytest.raises(BadSource, match=says):
        find_entities([path], MARKED.empty_table(), preset, tmp_path / "out", [until] if until else [])  # type: ignore[arg-type]
    assert not list((tmp_path / "out").iterdir()), "nothing is left"


def test_labels_of_a_file_are_read_whatever_they_call_an_exchange(tmp_path: Path) -> None:
    for number, column in enumerate(
        ({"kind": ["Exchange", "bridge"]}, {"is_cex": ["true", "no"]}, {"type": ["CEX", None]}, {"is_exchange": [1, 0]})
    ):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"address": ["0xAA", "b"], **column}), path)
        rows = {row["address"]: row["is_exchange"] for row in file_marks(path).to_pylist()}
        assert (rows["0xaa"], rows["b"]) == (True, False)


def test_labels_that_are_no_text_mark_addresses_and_no_exchange(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("address,kind\n17,4\n0xAA,\n")
    rows = {row["address"]: row["is_exchange"] for row in file_marks(path).to_pylist()}
    assert rows["17"] is rows["0xaa"] is False
    path = path.with_suffix(".parquet")
    path.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(BadSource, match="can't be read as labels"):
        file_marks(path)


def test_the_command_offers_all_presets() -> None:
    offered = get_type_hints(command, include_extras=True)["preset"].__args__[0]
    assert get_args(offered) == tuple(PRESETS)


def test_no_preset_but_bare_edges_merges_two_owners_of_a_world_with_decoys(tmp_path: Path) -> None:
    world = make_world(40)
    path = tmp_path / "world.parquet"
    pq.write_table(world.table(), path)
    for preset, least in ((TWO, 0.55), (ONE, 0.6)):
        find_entities([str(path)], marks(world.hot), preset, tmp_path)
        found = pq.read_table(tmp_path / ENTITIES).to_pylist()
        owners = {(row["entity"], world.owners.get(row["address"])) for row in found}
        known = {entity for entity, owner in owners if owner is not None}
        assert len(known) == sum(owner is not None for _, owner in owners), "an entity has two owners"
        assert len(found) > least * sum(way != "decoy" for way in (world.ways[one] for one in world.owners.values()))


def test_several_instants_in_one_pass_equal_searches_one_by_one(tmp_path: Path) -> None:
    world = make_world(30)
    path, together = str(tmp_path / "world.parquet"), tmp_path / "together"
    pq.write_table(world.table(), path)
    times = sorted(world.table()["block_time"].to_pylist())
    instants = [times[len(times) * part // 5 - 1] for part in (1, 3, 4, 5)]
    find_entities([path], marks(world.hot), ONE, together, instants)
    alone = []
    for instant in instants:
        find_entities([path], marks(world.hot), ONE, tmp_path / str(instant), [instant])
        alone.append(content(tmp_path / str(instant)))
    assert content(together) == {name: [row for one in alone for row in one[name]] for name in alone[0]}
    assert len({len(one[ENTITIES]) for one in alone}) == len(instants)
    for instant, one in zip(instants, alone, strict=True):
        known = search_at(together, from_unix(instant + 1))
        assert known is not None
        members = [row["address"] for row in one[ENTITIES]]
        assert sum(map(len, entities_among(together, known, members, ONE.confidence))) == len(members)


def content(folder: Path) -> dict[str, list[dict[str, object]]]:
    """Return the rows of all files, sorted by instant, without the numbers of links."""
    found = {name: pq.read_table(folder / name).to_pylist() for name in (LINKS, JOINS, ENTITIES, SEARCHES)}
    plain = {name: [{key: row[key] for key in row if key != "link"} for row in rows] for name, rows in found.items()}
    return {name: sorted(rows, key=lambda row: (row["as_of"], repr(row))) for name, rows in plain.items()}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("block_time", pa.array(["1970-01-01 00:10:00 UTC"] * 4)),
        ("block_time", pa.array(["1970-01-01T02:10:00+02:00"] * 4)),
        ("block_time", pa.array(["600"] * 4)),
        ("block_time", pa.array([600.0] * 4)),
        ("block_time", pa.array([600] * 4).cast(pa.timestamp("s", "UTC"))),
        ("tx_hash", pa.array([17] * 4)),
        ("tx_hash", pa.array(["0xAB", "0xab"] * 2)),
        ("token_address", pa.array(["0xAB", "0xab"] * 2)),
        ("token_address", pa.nulls(4)),
        ("value", pa.array([10**30] * 4, pa.decimal128(38))),
        ("value", pa.array([str(2**256 - number) for number in range(1, 5)])),
    ],
)
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_columns_of_other_types_say_the_same(tmp_path: Path, name: str, values: pa.Array, suffix: str) -> None:
    table = pa.Table.from_pylist(DISPERSED)
    table = table.set_column(table.column_names.index(name), name, values)
    path = tmp_path / f"transfers.{suffix}"
    pc.write_csv(table, path) if suffix == "csv" else pq.write_table(table, path)
    found = find_entities([str(path)], MARKED.empty_table(), ONE, tmp_path / "out")
    assert (found.joined, found.links["disperse"], found.links["first_funder"]) == (5, 1, 1)
    assert {row["first_time"] for row in pq.read_table(tmp_path / "out" / LINKS).to_pylist()} == {from_unix(600)}


def test_amounts_that_are_no_number_are_not_alike(tmp_path: Path) -> None:
    rows = [row | {"value": value} for row, value in zip(DISPERSED, ("NaN", "1", "1000", "1e9"), strict=True)]
    assert find_entities([write(tmp_path, rows)], MARKED.empty_table(), ONE, tmp_path).links.get("disperse") is None


def test_addresses_that_are_numbers_are_read(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    path.write_text("from,to\n1,2\n2,3\n")
    assert find_entities([str(path)], MARKED.empty_table(), BARE, tmp_path).joined == 3


@pytest.mark.parametrize("preset", PRESETS.values(), ids=lambda preset: preset.name)
def test_no_transfers_have_no_entities(tmp_path: Path, preset: Preset) -> None:
    empty, header = str(tmp_path / "empty.parquet"), tmp_path / "header.csv"
    pq.write_table(pa.Table.from_pylist(DISPERSED).slice(0, 0), empty)
    header.write_text("from_address,to_address,block_time,value\n")
    for paths, instants in (([empty], []), ([str(header)], []), ([write(tmp_path, DISPERSED)], [5])):
        found = find_entities(paths, MARKED.empty_table(), preset, tmp_path / "out", instants)
        assert (found.transfers, found.joined, found.links) == (0, 0, {})


def test_rows_without_a_time_count_beside_rows_with_one(tmp_path: Path) -> None:
    rows = [*(row | {"block_time": None} for row in DISPERSED), paid("a", "b", 5)]
    assert entities(tmp_path, rows, ONE) == [{"owner", *WALLETS}]


def test_a_damaged_file_among_several_is_an_error_about_the_files(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(Path(write(tmp_path, DISPERSED)).read_bytes()[:-300])
    with pytest.raises(BadSource, match=r"one of the 2 files .*damaged\.parquet"):
        find_entities([write(tmp_path, DISPERSED), str(damaged)], MARKED.empty_table(), ONE, tmp_path / "out")


def test_a_second_search_leaves_the_temporary_files_of_a_long_one(tmp_path: Path) -> None:
    path, out = write(tmp_path, DISPERSED), tmp_path / "out"

    def start_another(what: str) -> None:
        if what == "transfers":
            (spill,) = out.glob(".entities-*")
            os.utime(spill, (0, 0))
            find_entities([path], MARKED.empty_table(), ONE, out)

    assert find_entities([path], MARKED.empty_table(), ONE, out, advance=start_another).joined == 5
    assert not list(out.glob(".*"))


def test_a_search_that_ends_while_its_files_are_replaced_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert entities(tmp_path, DISPERSED, ONE) == [{"owner", *WALLETS}]
    before, replace_file = search_at(tmp_path, from_unix(2**32)), Path.replace

    def fail(self: Path, target: Path) -> Path:
        if Path(target).name == ENTITIES:
            raise OSError("the disk failed")
        return replace_file(self, target)

    with monkeypatch.context() as patched, pytest.raises(OSError, match="the disk failed"):
        patched.setattr(Path, "replace", fail)
        entities(tmp_path, [*DISPERSED, *IN_STEP], ONE)
    assert before is not None
    assert search_at(tmp_path, from_unix(2**32)) is None
    assert entities(tmp_path, [*DISPERSED, *IN_STEP], ONE) == [{"owner", *WALLETS}]


def test_the_documentation_names_every_kind_and_preset() -> None:
    page = (Path(__file__).parents[2] / "docs" / "entities.md").read_text()
    for kind in KINDS.values():
        assert f"| `{kind.name}` | {kind.family} |" in page
    for name in PRESETS:
        assert f"| `{name}`" in page


@settings(max_examples=8, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("abcdefgh"), st.integers(1, 3)), max_size=12),
    st.sampled_from([0.3, 0.4, 0.5, 0.6, 0.7]),
)
def test_the_joins_of_a_confidence_are_the_entities_of_that_confidence(
    pairs: list[tuple[str, str, int]], confidence: float
) -> None:
    rows = [paid(one, other, 10 + time) for one, other, count in pairs for time in range(count) if one != other]
    funded = [paid("exchange", one, 0) for one in "abcdefgh"]
    with tempfile.TemporaryDirectory() as name:
        expected = entities(Path(name), [*funded, *rows], replace(ONE, confidence=confidence))
        entities(Path(name), [*funded, *rows], replace(ONE, confidence=0.3))
        known = search_at(Path(name), from_unix(2**32))
        assert known is not None
        found = entities_among(Path(name), known, ["exchange", *"abcdefgh"], confidence)
    assert sorted(map(set, found), key=sorted) == expected


def test_files_of_other_tools_have_other_names_of_columns(tmp_path: Path) -> None:
    names = {"from_address": "from", "to_address": "to", "tx_hash": "transaction_hash", "block_time": "block_timestamp"}
    rows = [paid("owner", one, 10, tx="t") for one in ("w1", "w2", "w3")]
    renamed = [{names.get(name, name): value for name, value in row.items()} for row in rows]
    assert entities(tmp_path, renamed, PRESETS["one-kind"]) == [{"owner", "w1", "w2", "w3"}]
