"""What a lake knew at any time: rows with the time of their first answer, and the rows that later answers replaced."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holderlake.core.contract.tables import TABLES
from holderlake.core.lake.lake import Lake
from holderlake.core.lake.versions import VersionedRows, with_answers
from holderlake.core.warehouse.warehouse import Warehouse
from tests.helpers.examples import some
from tests.helpers.lakes import DAYS, FETCHED_AT, query, rows, write

pytestmark = pytest.mark.integration

ABOUT = {"family": "holders", "chain": "eth", "as_of": DAYS[0]}
Content = tuple[tuple[str, int], ...]
"""The rows of an answer: pairs of address and share."""
Answers = list[tuple[datetime, str, int, Content]]
"""Answers in the order in which they are written: instant, token, hour of the answer, content."""

CONTENTS = st.lists(st.tuples(st.sampled_from("xyz"), st.integers(1, 2)), max_size=3, unique_by=lambda row: row[0])
HISTORIES = st.lists(
    st.tuples(st.sampled_from(DAYS[:2]), st.sampled_from(["0xa", "0xb"]), st.integers(0, 9), CONTENTS.map(tuple)),
    min_size=1,
    max_size=10,
    unique_by=lambda one: one[:3],
)


def at(hour: int) -> datetime:
    return FETCHED_AT + timedelta(hours=hour)


def answer(day: datetime, token: str, hour: int, content: Content) -> pa.Table:
    listed = [{"token_address": token, "address": address, "share": float(share)} for address, share in content]
    return rows("holders", "eth", day, listed, at(hour))


def written(answers: Answers) -> VersionedRows:
    """Return the rows of one partition after these answers about it."""
    held = VersionedRows({"holders": TABLES["holders"].schema.empty_table()})
    for day, token, hour, content in answers:
        after = with_answers(
            ABOUT, "token_address", held, {"holders": answer(day, token, hour, content)}, {token: at(hour)}, {}
        )
        others = [row for row in held.tables["holders"].to_pylist() if row["token_address"] != token]
        kept = pa.Table.from_pylist(others, TABLES["holders"].schema)
        held = VersionedRows(
            {"holders": pa.concat_tables([kept, after.tables["holders"]])}, after.revisions, after.answers
        )
    return held


def known(held: VersionedRows, hour: int) -> set[tuple[str, str, float]]:
    """Return the rows that were known at an hour: token, address and share."""
    present = {
        (row["token_address"], row["address"], row["share"])
        for row in held.tables["holders"].to_pylist()
        if row["fetched_at"] <= at(hour)
    }
    replaced = {
        (revision["subject"], row["address"], row["share"])
        for revision in held.revisions.to_pylist()
        for row in json.loads(revision["gone"])
        if datetime.fromisoformat(row["fetched_at"]) <= at(hour) < revision["fetched_at"]
    }
    assert not present & replaced
    return present | replaced


@pytest.mark.long
@settings(max_examples=some(200), deadline=None)
@given(HISTORIES)
def test_the_rows_known_at_a_time_are_those_of_the_last_answer_before_it(answers: Answers) -> None:
    of_one = [(DAYS[0], *one[1:]) for one in answers if one[0] == answers[0][0]]
    held = written(of_one)
    for hour in range(10):
        latest = {token: content for _, token, when, content in sorted(of_one, key=lambda one: one[2]) if when <= hour}
        expected = {(token, address, share) for token, content in latest.items() for address, share in content}
        assert known(held, hour) == expected


@pytest.mark.long
@settings(max_examples=some(100), deadline=None)
@given(HISTORIES, st.randoms(use_true_random=False))
def test_the_order_of_the_writes_does_not_matter(answers: Answers, random: Random) -> None:
    of_one = [(DAYS[0], *one[1:]) for one in answers if one[0] == answers[0][0]]
    shuffled = random.sample(of_one, len(of_one))
    for one, other in zip(_plain(written(of_one)), _plain(written(shuffled)), strict=True):
        assert one == other


def _plain(held: VersionedRows) -> tuple[object, ...]:
    """Return rows, revisions and answer times in an order that does not depend on the writes."""
    listed = sorted(held.tables["holders"].to_pylist(), key=repr)
    revisions = [row | {"gone": sorted(json.loads(row["gone"]), key=repr)} for row in held.revisions.to_pylist()]
    return listed, sorted(revisions, key=repr), dict(held.answers)


@pytest.fixture(scope="module")
def random_answers() -> Answers:
    """Answers about thirty tokens at two instants, in random order."""
    random = Random(7)
    answers = [
        (
            day,
            f"0x{token:02}",
            hour,
            tuple((address, random.randint(1, 2)) for address in "xyz" if random.random() < 0.6),
        )
        for token in range(30)
        for day in DAYS[:2]
        for hour in random.sample(range(10), random.randint(0, 4))
    ]
    random.shuffle(answers)
    return answers


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, random_answers: Answers) -> Warehouse:
    return loaded(tmp_path_factory.mktemp("whole"), random_answers)


@pytest.mark.long
@pytest.mark.parametrize("hour", [3, 6])
def test_known_at_equals_a_lake_that_was_filled_only_until_then(
    whole: Warehouse, random_answers: Answers, tmp_path: Path, hour: int
) -> None:
    until = loaded(tmp_path, [one for one in random_answers if one[2] <= hour])
    columns = "token_address, timestamp, address, share, fetched_at"
    for t in DAYS[:2]:
        then = query(whole, f"SELECT {columns} FROM holders_known_at(?, ?) ORDER BY ALL", t, at(hour))
        assert then == query(until, f"SELECT {columns} FROM holders_as_of(?) ORDER BY ALL", t) != []


def loaded(folder: Path, answers: Answers) -> Warehouse:
    lake, warehouse = Lake(folder / "lake"), Warehouse(folder / "warehouse.duckdb")
    for day, token, hour, content in answers:
        tables = {"holders": answer(day, token, hour, content)}
        write(lake, "holders", "eth", day, tables, {token}, final=True, at=at(hour))
    warehouse.load(lake)
    return warehouse


def test_a_confirmation_moves_no_time_and_writes_no_file(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    first, again = (
        write(
            lake, "holders", "eth", DAYS[0], {"holders": answer(DAYS[0], "0xa", 0, (("x", 1),))}, {"0xa"}, at=at(hour)
        )
        for hour in (0, 5)
    )
    assert lake.read("holders")["fetched_at"].to_pylist() == [at(0)]
    assert again.tables == first.tables
    assert again.answers == {"0xa": [at(5)]}


def test_answers_of_the_same_time_are_both_kept(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for share in (1, 2):
        tables = {"holders": answer(DAYS[0], "0xa", 0, (("x", share),))}
        write(lake, "holders", "eth", DAYS[0], tables, {"0xa"}, at=at(0))
    assert lake.read("holders")["share"].to_pylist() == [2]
    (revision,) = lake.read("revisions").to_pylist()
    assert [row["share"] for row in json.loads(revision["gone"])] == [1]


def test_rows_that_return_after_an_empty_answer_are_a_revision(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for hour, content in enumerate(((("x", 1),), (), (("x", 1),))):
        write(lake, "holders", "eth", DAYS[0], {"holders": answer(DAYS[0], "0xa", hour, content)}, {"0xa"}, at=at(hour))
    revisions = lake.read("revisions").sort_by("fetched_at").to_pylist()
    assert [(row["fetched_at"], row["rows_gone"], row["rows_new"]) for row in revisions] == [
        (at(1), 1, 0),
        (at(2), 0, 1),
    ]


@pytest.mark.long
def test_exact_values_survive_in_replaced_rows(tmp_path: Path) -> None:
    lake, warehouse = Lake(tmp_path / "lake"), Warehouse(tmp_path / "warehouse.duckdb")
    huge = {"amount": None, "amount_exact": str(2**256 - 1), "share": 0.1 + 0.2, "degree": 2**53 + 1, "is_cex": True}
    small = {
        "amount": Decimal("12345678901234567890.123456789012345678"),
        "first_activity_date": at(-5),
        "label": "é'\"",
    }
    given_rows = [
        {"token_address": "0xa", "address": address, **values} for address, values in (("x", huge), ("y", small))
    ]
    write(lake, "holders", "eth", DAYS[0], {"holders": rows("holders", "eth", DAYS[0], given_rows)}, {"0xa"}, at=at(0))
    warehouse.load(lake)
    before = query(warehouse, "FROM holders_as_of('2026-12-01') ORDER BY address")
    nothing = {"holders": TABLES["holders"].schema.empty_table()}
    write(lake, "holders", "eth", DAYS[0], nothing, {"0xa"}, at=at(1))
    warehouse.load(lake)
    assert query(warehouse, "FROM holders_as_of('2026-12-01')") == []
    assert query(warehouse, "FROM holders_known_at('2026-12-01', ?) ORDER BY address", at(0)) == before
