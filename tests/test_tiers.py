"""The list of tiers names files and tests that exist."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests.tiers import TESTS, Entry, listed, tier_of


def test_each_entry_names_a_file_or_a_test_that_exists() -> None:
    unknown = [entry for entry in listed() if not _exists(entry)]
    assert not unknown


def test_the_narrowest_entry_decides() -> None:
    (file, tier), *_ = [(entry.file, tier) for entry, tier in listed().items() if entry.test is None]
    assert tier_of(file, "test_without_an_entry", None, 0) == tier
    (narrow, tier), *_ = [(entry, tier) for entry, tier in listed().items() if entry.start is not None]
    assert narrow.test is not None and narrow.start is not None
    assert tier_of(narrow.file, narrow.test, "a case", narrow.start) == tier
    assert tier_of("test_without_an_entry.py", "test_any", None, 0) == "test"


def _exists(entry: Entry) -> bool:
    path = TESTS / entry.file
    if not path.is_file():
        return False
    return entry.test is None or entry.test in _tests_of(path)


@cache
def _tests_of(path: Path) -> frozenset[str]:
    return frozenset(node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef))
