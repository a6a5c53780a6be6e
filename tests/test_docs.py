"""The docs say what the code has: every table, column, setting, command, view and macro."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract.tables import TABLES
from pipelines.docs import FOLDER, PAGES

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("page", PAGES)
def test_a_reference_page_is_what_the_code_says(page: str) -> None:
    assert (FOLDER / page).read_text() == PAGES[page](), "run 'python -m pipelines.docs'"


def test_the_readme_names_every_table() -> None:
    text = (ROOT / "README.md").read_text()
    assert [name for name in TABLES if f"`{name}`" not in text] == []
