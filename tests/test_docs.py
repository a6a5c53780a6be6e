"""The docs say what the code has: every table, column, setting, command, view and macro."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.reference.pages import FOLDER, PAGES
from holderlake.contract.tables import TABLES
from holderlake.engine.sources.files.transfers import FORMATS
from holderlake.settings.alerts import BUILT_IN, AlertRule, AlertSettings
from holderlake.settings.sections import NodeSettings

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("page", PAGES)
def test_a_reference_page_is_what_the_code_says(page: str) -> None:
    assert (FOLDER / page).read_text() == PAGES[page](), "run 'python -m docs.reference.pages'"


def test_the_page_of_sources_names_only_options_and_settings_that_there_are() -> None:
    text = (FOLDER / "sources.md").read_text()
    options = set(re.findall(r"`(--[a-z-]+)`", PAGES["commands.md"]()))
    of_cryo = {"--u256-types"}
    assert set(re.findall(r"(?<![\w-])(--[a-z][a-z0-9-]+)", text)) - of_cryo <= options
    named = re.findall(r"^([a-z_]+) = ", text.split("[sources.rpc.eth]")[1].split("```")[0], re.MULTILINE)
    assert set(named) <= set(NodeSettings.model_fields)


def test_the_page_of_sources_lists_each_format_of_files() -> None:
    text = (FOLDER / "sources.md").read_text()
    assert [name for name in FORMATS if f"`{name}`" not in text] == []


def test_the_page_of_backfills_names_only_options_settings_and_columns_that_there_are() -> None:
    text = (FOLDER / "backfills.md").read_text()
    options = set(re.findall(r"`(--[a-z-]+)", PAGES["commands.md"]()))
    assert set(re.findall(r"(?<![\w-])(--[a-z][a-z0-9-]+)", text)) <= options
    settings = PAGES["settings.md"]()
    assert all(f"`{name}`" in settings for name in ("resume_parked", "concurrency"))
    (query,) = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
    known = {*TABLES["revisions"].schema.names, "timestamp"}
    assert set(re.findall(r"[a-z_]+", query.replace("FROM revisions", ""))) <= known


def test_the_page_of_alerts_names_the_rules_and_only_options_and_settings_that_there_are() -> None:
    text = (FOLDER / "alerts.md").read_text()
    options = set(re.findall(r"`(--[a-z-]+)", PAGES["commands.md"]()))
    assert set(re.findall(r"(?<![\w-])(--[a-z][a-z0-9-]+)", text)) <= options
    named = set(re.findall(r"^([a-z_]+) = ", text.split("[alerts]")[1].split("```")[0], re.MULTILINE))
    assert named <= {*AlertRule.model_fields, *AlertSettings.model_fields}
    assert set(re.findall(r"^\| `([a-z_]+)` \|", text, re.MULTILINE)) == set(BUILT_IN)
    assert {f"holderlake/alerts/sql/{kind}.sql" for kind in BUILT_IN} == {
        str(path.relative_to(ROOT)) for path in (ROOT / "holderlake" / "alerts" / "sql").iterdir()
    }


def test_the_page_of_exports_and_reports_names_only_options_that_there_are() -> None:
    text = (FOLDER / "reports.md").read_text()
    options = set(re.findall(r"`(--[a-z-]+)", PAGES["commands.md"]()))
    assert set(re.findall(r"(?<![\w-])(--[a-z][a-z0-9-]+)", text)) <= options


def test_the_readme_names_every_table() -> None:
    text = (ROOT / "README.md").read_text()
    assert [name for name in TABLES if f"`{name}`" not in text] == []


@pytest.mark.parametrize(
    "page", ["CONTRIBUTING.md", "docs/design.md", "docs/engine.md", "docs/alerts.md", "docs/reports.md"]
)
def test_each_path_of_the_repository_that_a_page_names_exists(page: str) -> None:
    text = (ROOT / page).read_text()
    paths = re.findall(r"`((?:holderlake|assets|resources|pipelines|tests|docs|web|benchmarks)/[\w./-]*)`", text)
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []
