"""Rows of JSON files are the same however the file is cut into pieces, and a large array is read in little memory."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holderlake.engine.errors import BadSource
from holderlake.sources import json_rows

PATH = Path("rows.json")
VALUES = st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8"), max_size=40)
ROWS = st.lists(st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUES, min_size=1), min_size=1, max_size=8)


def read(
    text: str, monkeypatch: pytest.MonkeyPatch, piece: int = 1 << 20, batch: int = 1 << 14
) -> list[dict[str, Any]]:
    monkeypatch.setattr(json_rows, "_PIECE", piece)
    monkeypatch.setattr(json_rows, "_BATCH", batch)
    rows: list[dict[str, Any]] = json_rows.read_json(PATH, io.StringIO(text)).to_pylist()
    return rows


def expected(rows: list[dict[str, Any]]) -> list[dict[str, str | None]]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [{name: None if row.get(name) is None else str(row[name]) for name in names} for row in rows]


@given(rows=ROWS, piece=st.integers(1, 30), batch=st.integers(1, 3), indent=st.sampled_from([None, 1]))
def test_an_array_is_the_same_in_pieces_of_any_size(
    rows: list[dict[str, Any]], piece: int, batch: int, indent: int | None
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        assert read(json.dumps(rows, indent=indent), patch, piece, batch) == expected(rows)


@given(rows=ROWS, piece=st.integers(1, 30), batch=st.integers(1, 3))
def test_lines_are_the_same_in_pieces_of_any_size(rows: list[dict[str, Any]], piece: int, batch: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        assert read("\n".join(map(json.dumps, rows)), patch, piece, batch) == expected(rows)


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[{"a": 1}, {"a": 2}', "the array does not end"),
        ('[{"a": 1} {"a": 2}]', "',' or ']' is expected"),
        ('[{"a": 1}, {"a": 2', "not complete JSON"),
        ('[{"a": 1}, {"a": "2', "not complete JSON"),
        ('[{"a": 1, "a": 2}]', "is repeated"),
        ('[{"a": 1}, 5]', "not a JSON object"),
        ('[{"a": 1}]\n{"a": 2', "not a complete JSON object|not complete JSON"),
    ],
)
def test_a_faulty_array_is_refused_in_words(text: str, words: str, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadSource, match=words):
        read(text, monkeypatch, piece)


def test_several_arrays_follow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read('[{"a": 1}]\n[{"a": 2}]\n{"a": 3}\n', monkeypatch) == [{"a": "1"}, {"a": "2"}, {"a": "3"}]


def test_a_large_array_is_not_read_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream(io.StringIO):
        longest = 0

        def read(self, size: int | None = -1, /) -> str:
            assert size is not None and size > 0, "the file is read as a whole"
            self.longest = max(self.longest, size)
            return super().read(size)

    stream = Stream(json.dumps([{"a": number} for number in range(20_000)]))
    monkeypatch.setattr(json_rows, "_PIECE", 1_000)
    assert json_rows.read_json(PATH, stream).num_rows == 20_000
    assert stream.longest <= 2_000
