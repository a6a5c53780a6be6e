"""Evidence joins wallets to entities; files of all kinds are read, and results are whole."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.clusters import Sample, entities_at, score
from benchmarks.worlds import make_world
from holderlake.analysis.entities import links
from holderlake.analysis.entities.calibration import calibrated
from holderlake.analysis.entities.clusters import entities_among, search_at
from holderlake.analysis.entities.kinds import EVIDENCE_KINDS, LEAST_CONFIDENCE
from holderlake.analysis.entities.links import ENTITIES, JOINS, LINKS, MARKED, SEARCHES, find_entities
from holderlake.analysis.entities.sources import file_marks
from holderlake.core.contract.times import from_unix
from holderlake.engine.errors import BadSource
from tests.analysis.entities.transfers import Row, entities, marks, paid, write

pytestmark = pytest.mark.integration

WALLETS = ("w1", "w2", "w3", "w4")
DISPERSED = [paid("owner", one, 10, tx="t") for one in WALLETS]
IN_STEP = [paid(one, "app", 9_000 + minute, 1) for minute in (0, 100, 200, 300) for one in WALLETS]


@pytest.mark.long
def test_weak_evidence_of_two_bases_joins_if_it_is_about_the_same_wallets(tmp_path: Path) -> None:
    alone = max(EVIDENCE_KINDS["disperse"].confidences[-1], EVIDENCE_KINDS["first_funder"].confidences[-1])
    assert entities(tmp_path, DISPERSED, alone + 0.01) == []
    together = [paid(one, "shop", 9_000 + minute, 1) for minute in (0, 100, 200) for one in WALLETS]
    assert entities(tmp_path, [*DISPERSED, *together], 0.96) == [set(WALLETS)]
    others = [*DISPERSED, *(row | {"from_address": f"other {row['from_address']}"} for row in together)]
    assert entities(tmp_path, others, 0.96) == []


def test_kinds_of_one_basis_do_not_confirm_each_other(tmp_path: Path) -> None:
    assert EVIDENCE_KINDS["disperse"].basis == EVIDENCE_KINDS["first_funder"].basis
    assert entities(tmp_path, DISPERSED, EVIDENCE_KINDS["first_funder"].confidences[-1] + 0.01) == []


def test_without_times_no_kinds_confirm_each_other(tmp_path: Path) -> None:
    untimed = [{name: value for name, value in row.items() if name != "block_time"} for row in DISPERSED]
    assert entities(tmp_path, untimed, EVIDENCE_KINDS["direct"].confidences[-2]) == [{"owner", *WALLETS}]
    assert entities(tmp_path, untimed, EVIDENCE_KINDS["direct"].confidences[-2] + 0.01) == []


def test_one_strong_kind_is_enough(tmp_path: Path) -> None:
    assert entities(tmp_path, DISPERSED) == [{"owner", *WALLETS}]


def test_friends_who_an_exchange_paid_first_are_two_owners(tmp_path: Path) -> None:
    rows = [
        *(paid("exchange", one, 0) for one in (*WALLETS, *map(str, range(250)))),
        *(paid("w1", "w2", time) for time in (10, 20)),
    ]
    assert entities(tmp_path, rows) == []


def test_bare_edges_join_addresses_with_few_counterparties(tmp_path: Path) -> None:
    pairs = [("a", "b"), ("b", "c"), *(("hub", f"user {number}") for number in range(51))]
    rows = [{"from_address": one, "to_address": other} for one, other in pairs]
    assert entities(tmp_path, rows) == [{"a", "b", "c"}]


def test_the_history_of_one_token_shows_few_counterparties_and_joins_no_one(tmp_path: Path) -> None:
    rows = [paid("a", "b", 10, token="0xt"), paid("b", "a", 20, token="0xt"), paid("b", "c", 30, token="0xt")]
    assert entities(tmp_path, rows) == []


def test_confidences_rise_with_the_level_also_where_measured_ones_fall() -> None:
    for kind in EVIDENCE_KINDS.values():
        assert list(kind.confidences) == sorted(set(kind.confidences))
    found = calibrated([{("direct", 2): (990, 1000), ("direct", 5): (700, 1000), ("direct", 4): (9, 99)}])
    assert [found["direct", level] for level in range(1, 7)] == [0.3, 0.55, 0.6, 0.65, 0.7, 0.95]


def test_transfers_after_the_instant_do_not_count(tmp_path: Path) -> None:
    rows = [*DISPERSED, *IN_STEP]
    assert entities(tmp_path, rows, 0.98, until=9_199) == []
    assert entities(tmp_path, rows, 0.98, until=9_300) == [set(WALLETS)]
    assert set(pq.read_table(tmp_path / ENTITIES)["as_of"].to_pylist()) == {
        pa.scalar(9_300 * 60, pa.timestamp("s")).as_py()
    }


@pytest.mark.long
@settings(max_examples=5, deadline=None)
@given(st.permutations([*DISPERSED, *IN_STEP]))
def test_the_order_of_the_rows_does_not_matter(rows: list[Row]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert entities(Path(folder), rows, 0.98) == [set(WALLETS)]


def test_a_csv_file_and_a_parquet_file_say_the_same(tmp_path: Path) -> None:
    rows = [*DISPERSED, *IN_STEP]
    path = write(tmp_path, rows)
    pc.write_csv(pq.read_table(path), tmp_path / "transfers.csv")
    (tmp_path / "other").mkdir()
    first = find_entities([path], MARKED.empty_table(), tmp_path)
    assert find_entities([str(tmp_path / "transfers.csv")], MARKED.empty_table(), tmp_path / "other") == first
    for name in (LINKS, ENTITIES):
        assert (
            pq.read_table(tmp_path / name)
            .drop(["link"] * (name == LINKS))
            .equals(pq.read_table(tmp_path / "other" / name).drop(["link"] * (name == LINKS)))
        )


def test_capital_letters_and_rows_without_addresses_make_no_difference(tmp_path: Path) -> None:
    pairs = [("0xA", "0xb"), ("0xa", "0xC"), (None, "0xd"), ("0xd", None)]
    rows = [{"from_address": one, "to_address": other} for one, other in pairs]
    assert entities(tmp_path, rows) == [{"0xa", "0xb", "0xc"}]


@pytest.mark.parametrize(
    ("columns", "until", "says"),
    [
        (["from_address"], None, "has no column to_address"),
        (["from_address", "to_address"], 5, "has no column block_time"),
    ],
)
def test_a_file_that_lacks_a_column_is_refused_by_name(
    tmp_path: Path, columns: list[str], until: int | None, says: str
) -> None:
    path = write(tmp_path, [{name: name for name in columns}])
    with pytest.raises(BadSource, match=says):
        find_entities([path], MARKED.empty_table(), tmp_path / "out", [until] if until else [])
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


@pytest.mark.long
def test_few_pairs_of_a_world_with_decoys_are_wrong(tmp_path: Path) -> None:
    world = make_world(40)
    path = tmp_path / "world.parquet"
    pq.write_table(world.table(), path)
    find_entities([str(path)], marks(world.hot), tmp_path)
    for confidence, least, most in ((LEAST_CONFIDENCE, 0.8, 0.4), (0.95, 0.6, 0.2)):
        entity = entities_at(tmp_path, confidence)
        figures = score(Sample("", "", str(path), marks(world.hot), dict(world.owners), {}), entity)
        right, wrong = figures.right.sum(), figures.wrong.sum()
        assert right > least * figures.pairs.sum(), "most pairs of an owner are found"
        assert wrong <= most * (right + wrong)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_joins_of_any_confidence_connect_no_crowd(data: st.DataObject) -> None:
    """The joins left are those that plain Python leaves, with a limit that a few wallets reach."""
    ends = st.integers(0, 15)
    rows = data.draw(st.lists(st.tuples(ends, ends, st.sampled_from([0.5, 0.7, 0.95])), max_size=25, unique=True))
    columns = [[row[place] for row in rows] for place in range(3)]
    types = (pa.int64(), pa.int64(), pa.float64())
    joins = links.without_crowds(pa.table([*map(pa.array, columns, types)], ["a", "b", "confidence"]), largest=4)
    left: list[tuple[int, int, float]] = []
    for level in (0.95, 0.7, 0.5):
        crowds = [group for group in groups([*left, *(row for row in rows if row[2] == level)]) if len(group) > 4]
        left += [row for row in rows if row[2] == level and not any(row[0] in crowd for crowd in crowds)]
    assert sorted(tuple(row.values()) for row in joins.to_pylist()) == sorted(left)


def groups(joins: list[tuple[int, int, float]]) -> list[set[int]]:
    """Return the connected wallets of joins."""
    found: list[set[int]] = []
    for one, other, _ in joins:
        near = [group for group in found if group & {one, other}]
        found = [group for group in found if group not in near] + [{one, other}.union(*near)]
    return found


def test_an_airdrop_joins_no_one_however_it_is_paid(tmp_path: Path) -> None:
    users = [f"user {number}" for number in range(600)]
    for through in (None, "contract"):
        rows = []
        for batch in range(3):
            receivers, tx = users[200 * batch : 200 * batch + 200], f"t{batch}"
            rows += [paid(through or "payer", user, 10, tx=tx) for user in receivers]
            rows += [paid("payer", through, 10, 100 * len(receivers), tx=tx)] if through else []
        assert entities(tmp_path, rows) == []
        untimed = [{name: value for name, value in row.items() if name != "block_time"} for row in rows]
        assert entities(tmp_path, untimed) == []


@pytest.mark.long
def test_several_instants_in_one_pass_equal_searches_one_by_one(tmp_path: Path) -> None:
    world = make_world(30)
    path, together = str(tmp_path / "world.parquet"), tmp_path / "together"
    pq.write_table(world.table(), path)
    times = sorted(world.table()["block_time"].to_pylist())
    instants = [times[len(times) * part // 5 - 1] for part in (1, 3, 4, 5)]
    find_entities([path], marks(world.hot), together, instants)
    alone = []
    for instant in instants:
        find_entities([path], marks(world.hot), tmp_path / str(instant), [instant])
        alone.append(content(tmp_path / str(instant)))
    assert content(together) == {name: [row for one in alone for row in one[name]] for name in alone[0]}
    assert len({len(one[ENTITIES]) for one in alone}) == len(instants)
    for instant, one in zip(instants, alone, strict=True):
        known = search_at(together, from_unix(instant + 1))
        assert known is not None
        members = [row["address"] for row in one[ENTITIES]]
        assert sum(map(len, entities_among(together, known, members, LEAST_CONFIDENCE))) == len(members)


def content(folder: Path) -> dict[str, list[dict[str, object]]]:
    """Return the rows of all files, sorted by instant, without the numbers of links."""
    found = {name: pq.read_table(folder / name).to_pylist() for name in (LINKS, JOINS, ENTITIES, SEARCHES)}
    plain = {name: [{key: row[key] for key in row if key != "link"} for row in rows] for name, rows in found.items()}
    return {name: sorted(rows, key=lambda row: (row["as_of"], repr(row))) for name, rows in plain.items()}


@pytest.mark.later(long=1)
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
        ("chain", pa.array(["0xAB", "0xab"] * 2)),
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
    found = find_entities([str(path)], MARKED.empty_table(), tmp_path / "out")
    assert (found.joined, found.links["disperse"], found.links["first_funder"]) == (5, 1, 1)
    assert {row["first_time"] for row in pq.read_table(tmp_path / "out" / LINKS).to_pylist()} == {from_unix(600)}


def test_amounts_that_are_no_number_are_not_alike(tmp_path: Path) -> None:
    rows = [row | {"value": value} for row, value in zip(DISPERSED, ("NaN", "1", "1000", "1e9"), strict=True)]
    assert find_entities([write(tmp_path, rows)], MARKED.empty_table(), tmp_path).links.get("disperse") is None


def test_addresses_that_are_numbers_are_read(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    path.write_text("from,to\n1,2\n2,3\n")
    assert find_entities([str(path)], MARKED.empty_table(), tmp_path).joined == 3


@pytest.mark.long
def test_no_transfers_have_no_entities(tmp_path: Path) -> None:
    empty, header = str(tmp_path / "empty.parquet"), tmp_path / "header.csv"
    pq.write_table(pa.Table.from_pylist(DISPERSED).slice(0, 0), empty)
    header.write_text("from_address,to_address,block_time,value\n")
    for paths, instants in (([empty], []), ([str(header)], []), ([write(tmp_path, DISPERSED)], [5])):
        found = find_entities(paths, MARKED.empty_table(), tmp_path / "out", instants)
        assert (found.transfers, found.joined, found.links) == (0, 0, {})


def test_rows_without_a_time_count_beside_rows_with_one(tmp_path: Path) -> None:
    rows = [*(row | {"block_time": None} for row in DISPERSED), paid("a", "b", 5)]
    assert entities(tmp_path, rows) == [{"a", "b"}, {"owner", *WALLETS}]


def test_a_damaged_file_among_several_is_an_error_about_the_files(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(Path(write(tmp_path, DISPERSED)).read_bytes()[:-300])
    with pytest.raises(BadSource, match=r"one of the 2 files .*damaged\.parquet"):
        find_entities([write(tmp_path, DISPERSED), str(damaged)], MARKED.empty_table(), tmp_path / "out")


def test_a_second_search_leaves_the_temporary_files_of_a_long_one(tmp_path: Path) -> None:
    path, out = write(tmp_path, DISPERSED), tmp_path / "out"

    def start_another(what: str) -> None:
        if what == "transfers":
            (spill,) = out.glob(".entities-*")
            os.utime(spill, (0, 0))
            find_entities([path], MARKED.empty_table(), out)

    assert find_entities([path], MARKED.empty_table(), out, advance=start_another).joined == 5
    assert not list(out.glob(".*"))


@pytest.mark.long
def test_a_search_that_ends_while_its_files_are_replaced_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert entities(tmp_path, DISPERSED) == [{"owner", *WALLETS}]
    before, replace_file = search_at(tmp_path, from_unix(2**32)), Path.replace

    def fail(self: Path, target: Path) -> Path:
        if Path(target).name == ENTITIES:
            raise OSError("the disk failed")
        return replace_file(self, target)

    with monkeypatch.context() as patched, pytest.raises(OSError, match="the disk failed"):
        patched.setattr(Path, "replace", fail)
        entities(tmp_path, [*DISPERSED, *IN_STEP])
    assert before is not None
    assert search_at(tmp_path, from_unix(2**32)) is None
    assert entities(tmp_path, DISPERSED) == [{"owner", *WALLETS}]


def test_the_documentation_has_every_kind_with_its_confidences() -> None:
    page = (Path(__file__).parents[3] / "docs" / "entities.md").read_text()
    for kind in EVIDENCE_KINDS.values():
        (row,) = (line for line in page.splitlines() if line.startswith(f"| `{kind.name}` | {kind.basis} |"))
        figures = [float(figure) for figure in re.findall(r"0\.\d+", row.rpartition("|")[0].rpartition("|")[2])]
        assert sorted(figures) == list(kind.confidences)


@pytest.mark.long
@settings(max_examples=8, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("abcdefgh"), st.integers(1, 3)), max_size=12),
    st.sampled_from([0.1, 0.3, 0.5, 0.7, 0.95]),
)
def test_the_joins_of_a_confidence_are_the_entities_of_that_confidence(
    pairs: list[tuple[str, str, int]], confidence: float
) -> None:
    rows = [paid(one, other, 10 + time) for one, other, count in pairs for time in range(count) if one != other]
    funded = [paid("exchange", one, 0) for one in "abcdefgh"]
    with tempfile.TemporaryDirectory() as name:
        expected = entities(Path(name), [*funded, *rows], confidence)
        entities(Path(name), [*funded, *rows], 0.0)
        known = search_at(Path(name), from_unix(2**32))
        assert known is not None
        found = entities_among(Path(name), known, ["exchange", *"abcdefgh"], confidence)
    assert sorted(map(set, found), key=sorted) == expected


def test_files_of_other_tools_have_other_names_of_columns(tmp_path: Path) -> None:
    names = {"from_address": "from", "to_address": "to", "tx_hash": "transaction_hash", "block_time": "block_timestamp"}
    rows = [paid("owner", one, 10, tx="t") for one in ("w1", "w2", "w3")]
    renamed = [{names.get(name, name): value for name, value in row.items()} for row in rows]
    assert entities(tmp_path, renamed) == [{"owner", "w1", "w2", "w3"}]
