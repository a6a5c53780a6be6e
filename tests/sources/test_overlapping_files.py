"""Any order, split and overlap of one history's files gives the same store."""

from __future__ import annotations

import csv
import io
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holderlake.engine.store.store import Store
from holderlake.engine.store.verify import verify
from holderlake.sources.files.mapping import ColumnMap
from holderlake.sources.files.transfers import FileOptions
from tests.sources.reading import read_file

ADDRESSES = ["0x" + f"{number:040x}" for number in range(4)]
TOKEN = "0x" + "5e" * 20
NAMES = ("from_address", "to_address", "value", "block_number", "block_time", "tx_hash")

Row = dict[str, Any]


def rows_of(draws: list[tuple[int, int, int, int]], has_index: bool) -> list[Row]:
    """Return a history from tuples of transaction, sender, receiver and value; a block has three transactions."""
    return [
        {
            "block_number": 100 + transaction // 3,
            "block_time": 1_700_000_000 + 12 * (transaction // 3),
            "tx_hash": f"0x{transaction:064x}",
            "from_address": ADDRESSES[sender],
            "to_address": ADDRESSES[receiver],
            "value": value,
            **({"log_index": place} if has_index else {}),
        }
        for place, (transaction, sender, receiver, value) in enumerate(sorted(draws))
    ]


def without(names: tuple[str, ...], rows: list[Row]) -> list[Row]:
    """Return rows without these columns."""
    return [{name: value for name, value in row.items() if name not in names} for row in rows]


def undecided(folder: Path, files: list[list[Row]]) -> list[str]:
    """Import files in this order into a new store; return what the last import could not decide."""
    said: list[str] = []
    stored(folder, files, said)
    return said


def stored(folder: Path, files: list[list[Row]], said: list[str] | None = None) -> list[tuple[Any, ...]]:
    """Import files in this order into a new store; return all its rows without their source.

    ``said`` gets the sentences of the last import.
    """
    folder.mkdir()
    with Store(folder / "store") as store:
        for number, rows in enumerate(files):
            text = io.StringIO()
            writer = csv.DictWriter(text, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
            path = folder / f"{number}.csv"
            path.write_text(text.getvalue())
            names = {name: name for name in NAMES if name in rows[0]}
            options = FileOptions(chain="eth", column_map=ColumnMap(names, {"token_address": TOKEN}))
            report = store.add_transfers(read_file(path, options).transfers, path.name)
            if said is not None:
                said[:] = report.undecided
        table = store.query("SELECT * EXCLUDE (source) FROM read_parquet($files) ORDER BY ALL")
    checked = verify(folder / "store")
    assert not checked.damaged and not checked.unlisted
    return list(zip(*table.to_pydict().values(), strict=True))


@pytest.mark.integration
@pytest.mark.parametrize("has_index", [True, pytest.param(False, marks=pytest.mark.long)])
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    draws=st.lists(
        st.tuples(st.integers(0, 7), st.integers(0, 3), st.integers(0, 3), st.integers(1, 3)),
        min_size=1,
        max_size=14,
        unique=True,
    ),
    data=st.data(),
)
def test_any_order_split_and_overlap_gives_the_same_store(
    has_index: bool,
    draws: list[tuple[int, int, int, int]],
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    rows = rows_of(draws, has_index)
    ends = data.draw(st.lists(st.integers(1, len(rows)), max_size=3).map(lambda some: sorted({*some, len(rows)})))
    overlap = data.draw(st.integers(0, 5))
    starts = [0, *ends[:-1]]
    files = [rows[max(start - overlap, 0) : end] for start, end in zip(starts, ends, strict=True)]
    files = [data.draw(st.permutations(file)) for file in files]
    folder = tmp_path_factory.mktemp("stores")
    whole = stored(folder / "whole", [rows])
    assert Counter(row[5] for row in whole) == Counter(str(row["value"]) for row in rows)
    assert stored(folder / "pieces", data.draw(st.permutations(files))) == whole


def test_equal_transfers_of_one_transaction_all_count(tmp_path: Path) -> None:
    rows = rows_of([(0, 1, 2, 5)] * 3, has_index=False)
    assert len(stored(tmp_path / "once", [rows])) == 3
    assert len(stored(tmp_path / "twice", [rows, rows[:2]])) == 3


WITHOUT = {
    "an index": ((), ("log_index",)),
    "an index or a hash": ((), ("log_index",), ("log_index", "tx_hash")),
    "a hash": ((), ("tx_hash",), ("log_index", "tx_hash")),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", WITHOUT)
@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    draws=st.lists(
        st.tuples(st.integers(0, 7), st.integers(0, 3), st.integers(0, 3), st.integers(1, 3)),
        min_size=1,
        max_size=14,
        unique_by=lambda draw: (draw[0] // 3, *draw[1:]),
    ),
    data=st.data(),
)
def test_files_that_lack_columns_give_the_same_store_in_any_order(
    kind: str, draws: list[tuple[int, int, int, int]], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rows = rows_of(draws, has_index=True)
    numbers = st.sets(st.integers(0, len(rows) - 1), min_size=1)
    pieces = [[rows[number] for number in sorted(one)] for one in data.draw(st.lists(numbers, min_size=1, max_size=2))]
    files = [without(data.draw(st.sampled_from(WITHOUT[kind])), piece) for piece in [rows, *pieces]]
    folder = tmp_path_factory.mktemp("stores")
    first = stored(folder / "first", files)
    assert Counter(row[5] for row in first) == Counter(str(row["value"]) for row in rows)
    assert stored(folder / "second", data.draw(st.permutations(files))) == first


def test_a_transfer_with_and_without_log_index_keeps_the_log_index(tmp_path: Path) -> None:
    rows = rows_of([(0, 1, 2, 5)] * 3 + [(1, 2, 3, 7)], has_index=True)
    bare = without(("log_index",), rows)
    known = stored(tmp_path / "known", [rows])
    assert stored(tmp_path / "later", [bare, rows]) == known
    assert stored(tmp_path / "earlier", [rows, bare]) == known
    assert stored(tmp_path / "parts", [bare, rows[2:], rows[:2]]) == known


def test_what_files_cannot_decide_is_named_with_its_block(tmp_path: Path) -> None:
    rows = rows_of([(0, 1, 2, 5)] * 3, has_index=True)
    bare, anonymous = without(("log_index",), rows), without(("tx_hash",), rows)
    (sentence,) = undecided(tmp_path / "split", [bare, bare[:2]])
    assert "block 100, transaction 0x0000" in sentence and "2 equal transfers of 5" in sentence
    assert "3 count" in sentence
    (sentence,) = undecided(tmp_path / "mixed", [bare, rows[:1]])
    assert "1 equal transfers of 5" in sentence and "3 count" in sentence
    (sentence,) = undecided(tmp_path / "neither", [bare, anonymous])
    assert "block 100: one source lacks the transaction" in sentence
    assert undecided(tmp_path / "equal", [bare, rows, bare]) == []
