"""Entities and links of chosen addresses are read from the files of a search."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from benchmarks.worlds import make_world
from holderlake.analysis.entities.clusters import Known, entities_among, links_of, search_at
from holderlake.analysis.entities.links import LINKS, find_entities
from holderlake.core.contract.times import from_unix
from tests.analysis.entities.transfers import entities, marks, paid

pytestmark = pytest.mark.integration

MOST = 3


def newest(folder: Path) -> Known:
    found = search_at(folder, from_unix(2**32))
    assert found is not None
    return found


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a search as of two instants."""
    folder, world = tmp_path_factory.mktemp("searched"), make_world(60)
    path = folder / "world.parquet"
    pq.write_table(world.table(), path)
    times = sorted(world.table()["block_time"].to_pylist())
    find_entities([str(path)], marks(world.hot), folder, [times[len(times) // 2], times[-1]])
    assert pq.read_metadata(folder / LINKS).num_row_groups > 4
    return folder


@pytest.mark.parametrize("seed", range(4))
def test_links_of_addresses_are_the_strongest_ones_of_the_instant(searched: Path, seed: int) -> None:
    draw, rows = random.Random(seed), pq.read_table(searched / LINKS).to_pylist()
    early, late = sorted({row["as_of"] for row in rows})
    asked = [*draw.sample(sorted({row["address"] for row in rows}), 12), "nobody", "0x", "zz"]
    for instant in (early, late):
        known = search_at(searched, instant)
        assert known is not None
        expected: list[dict[str, Any]] = []
        for address in sorted(asked):
            own = [row for row in rows if row["address"] == address and row["as_of"] == instant]
            expected += sorted(own, key=lambda row: (-row["confidence"], row["kind"], row["link"]))[:MOST]
        found = links_of(searched, known, asked, MOST).to_pylist()
        names = ("address", "kind", "link", "confidence", "transfers", "as_of")
        assert [[row[name] for name in names] for row in found] == [[row[name] for name in names] for row in expected]


def test_no_addresses_have_no_links_and_no_entities(searched: Path) -> None:
    assert links_of(searched, newest(searched), [], MOST).num_rows == 0
    assert links_of(searched, newest(searched), ["nobody"], MOST).num_rows == 0
    assert entities_among(searched, newest(searched), ["nobody"], 0) == []


def test_a_new_search_is_read_at_once(tmp_path: Path) -> None:
    def among() -> list[list[str]]:
        return entities_among(tmp_path, newest(tmp_path), ["a", "b", "c"], 0.5)

    entities(tmp_path, [paid("a", one, 10, tx="t") for one in "bcde"])
    before = among(), links_of(tmp_path, newest(tmp_path), ["a"], MOST).num_rows
    entities(tmp_path, [paid("z", one, 10, tx="t") for one in "bcde"])
    assert before[0] == [["a", "b", "c"]]
    assert among() == [["b", "c"]]
    assert before[1] > 0
    assert links_of(tmp_path, newest(tmp_path), ["a"], MOST).num_rows == 0
