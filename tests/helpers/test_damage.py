"""The helper that damages files for other tests."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.helpers.damage import KINDS, damage


@pytest.mark.parametrize("kind", KINDS)
def test_damage_changes_the_file_and_names_it(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "one.bin"
    before = bytes(range(256)) * 64
    path.write_bytes(before)
    assert damage(path, Random(1), kind).startswith("one.bin: ")
    assert not path.exists() or path.read_bytes() != before


def test_damage_repeats_with_the_same_seed(tmp_path: Path) -> None:
    results = []
    for _ in range(2):
        path = tmp_path / "one.bin"
        path.write_bytes(bytes(range(256)) * 64)
        rng = Random(7)
        results.append(([damage(path, rng, kind) for kind in ("flip", "zero", "truncate")], path.read_bytes()))
    assert results[0] == results[1]


@pytest.mark.parametrize("kind", KINDS)
def test_damage_accepts_an_empty_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "empty.bin"
    path.touch()
    assert damage(path, Random(1), kind)
