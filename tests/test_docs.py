"""The docs say what the code has: every table, column, setting, command and asset."""

from __future__ import annotations

from pathlib import Path

import typer.main

from contract.tables import TABLES
from pipelines.cli import app
from pipelines.docs import tables_page

ROOT = Path(__file__).parents[1]


def test_the_page_of_tables_is_the_schemas() -> None:
    assert (ROOT / "docs/tables.md").read_text() == tables_page(), "run 'python -m pipelines.docs'"


def test_the_readme_names_every_table() -> None:
    text = (ROOT / "README.md").read_text()
    assert [name for name in TABLES if f"`{name}`" not in text] == []


def test_every_command_stands_in_the_docs() -> None:
    command = typer.main.get_command(app)
    pages = "".join(path.read_text() for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
    assert [name for name in command.commands if f"holderlake {name}" not in pages] == []
