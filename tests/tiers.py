"""Tiers of tests: which tests ``make test``, ``make test-integration`` and ``make test-long`` run.

``tests/tiers.toml`` lists the tests of the tiers ``integration`` and ``long``; all others are of the tier ``test``.
The option ``--tier`` selects a tier; without it, pytest runs the tests of all tiers.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parent
TIERS: Final = ("test", "integration", "long")
_ENTRY: Final = re.compile(r"(?P<file>[^:]+\.py)(::(?P<test>\w+)(\[((?P<start>\d+):|(?P<case>.*))\])?)?")


@dataclass(frozen=True)
class Entry:
    """Tests of a tier: a file, a test in it, the test's cases of a pattern, or its cases from ``start``."""

    file: str
    test: str | None
    case: str | None
    start: int | None

    @property
    def rank(self) -> tuple[bool, int, bool]:
        """The order of entries that match a test: a file, a test, later cases, a case."""
        return self.test is not None, -1 if self.start is None else self.start, self.case is not None

    def matches(self, test: str, case: str | None, number: int) -> bool:
        return (
            self.test in (None, test)
            and (self.start is None or number >= self.start)
            and (self.case is None or (case is not None and fnmatchcase(case, self.case)))
        )


@cache
def listed() -> Mapping[Entry, str]:
    """Return the tier of each entry. Raises ``ValueError`` for an entry that is listed twice or cannot be read."""
    tiers: dict[Entry, str] = {}
    for tier, lines in tomllib.loads((TESTS / "tiers.toml").read_text()).items():
        for line in lines:
            parts = _ENTRY.fullmatch(line)
            if tier not in TIERS or parts is None:
                raise ValueError(f"tests/tiers.toml: cannot read {line!r} of tier {tier!r}")
            start = parts["start"]
            entry = Entry(parts["file"], parts["test"], parts["case"], None if start is None else int(start))
            if entry in tiers:
                raise ValueError(f"tests/tiers.toml: {line!r} is listed twice")
            tiers[entry] = tier
    return tiers


def tier_of(file: str, test: str, case: str | None, number: int) -> str:
    """Return the tier of a case, which is the ``number``-th of its test, from 0. The narrowest entry decides."""
    matches = [(entry.rank, tier) for entry, tier in _entries(file) if entry.matches(test, case, number)]
    return max(matches, default=((), TIERS[0]))[1]


@cache
def _entries(file: str) -> tuple[tuple[Entry, str], ...]:
    return tuple((entry, tier) for entry, tier in listed().items() if entry.file == file)


def _tiers_of_file(file: str) -> Iterator[str]:
    """Yield the tiers that tests of a file may have."""
    yield listed().get(Entry(file, None, None, None), TIERS[0])
    yield from (tier for _, tier in _entries(file))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=TIERS, help="run the tests of one tier, as tests/tiers.toml lists them")


def pytest_configure(config: pytest.Config) -> None:
    for tier in TIERS:
        config.addinivalue_line("markers", f"{tier}: set by tests/tiers.toml")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files without tests of the selected tier, so that nothing that they import is loaded."""
    tier = config.option.tier
    if tier is None or not collection_path.name.startswith("test_") or not collection_path.is_relative_to(TESTS):
        return None
    return True if tier not in _tiers_of_file(collection_path.relative_to(TESTS).as_posix()) else None


@pytest.hookimpl(tryfirst=True)  # before the order changes: the number of a case counts
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test with its tier, and deselect the tests of other tiers than the selected one."""
    selected: list[pytest.Item] = []
    others: list[pytest.Item] = []
    numbers: Counter[str] = Counter()
    for item in items:
        path, _, name = item.nodeid.partition("::")
        test, bracket, case = name.partition("[")
        place = Path(item.path).relative_to(TESTS).as_posix()
        tier = tier_of(place, test, case.removesuffix("]") if bracket else None, numbers[f"{path}::{test}"])
        numbers[f"{path}::{test}"] += 1
        item.add_marker(tier)
        (selected if config.option.tier in (None, tier) else others).append(item)
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = selected
