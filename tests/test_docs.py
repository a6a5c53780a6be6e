"""The docs agree with the code: every table, column, setting, command, option, view and macro."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from docs.reference.pages import DECISIONS, FOLDER, PAGES
from holderlake.cli.main import app
from holderlake.core.contract.tables import TABLES
from holderlake.core.settings import Settings
from holderlake.operations.alerts.settings import BUILT_IN, AlertRule, AlertSettings
from holderlake.pipelines.definitions import build_defs
from holderlake.sources.files.transfers import FORMATS
from holderlake.sources.settings import NodeSettings

ROOT = Path(__file__).parents[1]
_TEXT_FILES = {
    ".md",
    ".py",
    ".sql",
    ".template",
    ".html",
    ".tsx",
    ".yaml",
    ".yml",
    ".toml",
    ".service",
    ".sh",
    ".ipynb",
}


def settings_after(heading: str, page: str) -> set[str]:
    """Return the keys that a page's example sets below a heading such as ``[alerts]``."""
    return set(re.findall(r"^([a-z_]+) = ", page.split(heading)[1].split("```", maxsplit=1)[0], re.MULTILINE))


@pytest.mark.parametrize("page", PAGES)
def test_a_reference_page_agrees_with_the_code(page: str) -> None:
    assert (FOLDER / page).read_text() == PAGES[page](), "run 'python -m docs.reference.pages'"


def test_each_command_that_a_text_names_exists() -> None:
    named = re.compile(
        r"""(?:['`"\u2018]|bin/|^\s*|(?:run|command|remedy|is): )holderlake ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?""",
        re.MULTILINE,
    )
    tree = typer.main.get_command(app).commands
    unknown = []
    for path in _texts():
        for command, below in named.findall(path.read_text()):
            commands = getattr(tree.get(command), "commands", None)
            if command not in tree or (commands and below and below not in commands):
                unknown.append((str(path.relative_to(ROOT)), command, below))
    assert unknown == []


def _texts() -> Iterator[Path]:
    """Yield the files that users read, and those of the product, except the changelog of earlier versions."""
    folders = (
        "holderlake",
        "assets",
        "resources",
        "pipelines",
        "docs",
        "deploy",
        "benchmarks",
        "notebooks",
        "web/src",
        ".ci",
    )
    for folder in folders:
        yield from (path for path in (ROOT / folder).rglob("*") if path.suffix in _TEXT_FILES or folder == ".ci")
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile"))


@pytest.mark.parametrize("page", ["sources.md", "backfills.md", "alerts.md", "reports.md"])
def test_a_page_names_only_existing_options(page: str) -> None:
    options = set(re.findall(r"`(--[a-z-]+)", PAGES["commands.md"]()))
    of_cryo = {"--u256-types"}
    named = set(re.findall(r"(?<![\w-])(--[a-z][a-z0-9-]+)", (FOLDER / page).read_text()))
    assert named - of_cryo <= options


def test_the_page_of_sources_names_existing_settings_and_every_format() -> None:
    page = (FOLDER / "sources.md").read_text()
    assert settings_after("[sources.rpc.eth]", page) <= set(NodeSettings.model_fields)
    assert [name for name in FORMATS if f"`{name}`" not in page] == []


def test_the_page_of_settings_has_each_section_once() -> None:
    assert sorted(name for names in DECISIONS.values() for name in names) == sorted(Settings.model_fields)


def test_the_page_of_backfills_names_existing_settings_and_columns() -> None:
    page = (FOLDER / "backfills.md").read_text()
    settings = PAGES["settings.md"]()
    assert all(f"`{name}`" in settings for name in ("healing.attempts", "provider.concurrency"))
    (query,) = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    known = {*TABLES["revisions"].schema.names, "timestamp"}
    assert set(re.findall(r"[a-z_]+", query.replace("FROM revisions", ""))) <= known


@pytest.mark.parametrize("kind", ["job", "sensor"])
def test_the_page_of_dagster_lists_each_job_and_sensor(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = (FOLDER / "dagster.md").read_text().split(f"| {kind} | action |")[1].split("\n\n")[0]
    cells = re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE)
    settings = Settings.model_validate({"sources": {"rpc": {"eth": {"endpoints": ["http://127.0.0.1:1"]}}}})
    monkeypatch.setattr("holderlake.pipelines.definitions.load_settings", lambda: settings)
    defs = build_defs()
    declared: Any = defs.jobs if kind == "job" else defs.sensors
    assert sorted(re.findall(r"`(\w+)`", " ".join(cells))) == sorted(one.name for one in declared)


def test_the_page_of_alerts_names_every_rule_and_existing_settings() -> None:
    page = (FOLDER / "alerts.md").read_text()
    assert settings_after("[alerts]", page) <= {*AlertRule.model_fields, *AlertSettings.model_fields}
    assert set(re.findall(r"^\| `([a-z_]+)` \|", page, re.MULTILINE)) == set(BUILT_IN)
    assert {path.stem for path in (ROOT / "holderlake" / "operations" / "alerts" / "sql").iterdir()} == set(BUILT_IN)


def test_each_line_about_a_door_names_an_existing_test() -> None:
    doors = (ROOT / "SECURITY.md").read_text().partition("## What each door can do")[2]
    lines = re.findall(r"^- .*", doors, re.MULTILINE)
    assert lines
    for line in lines:
        (named,) = re.findall(r"`(\S+\.py)::(test_\w+)`", line)
        assert f"def {named[1]}(" in (ROOT / "tests" / named[0]).read_text(), line


def test_the_readme_names_every_table() -> None:
    text = (ROOT / "README.md").read_text()
    assert [name for name in TABLES if f"`{name}`" not in text] == []


@pytest.mark.parametrize(
    "page", ["CONTRIBUTING.md", "docs/design.md", "docs/engine.md", "docs/alerts.md", "docs/reports.md"]
)
def test_each_path_of_the_repository_that_a_page_names_exists(page: str) -> None:
    text = (ROOT / page).read_text()
    paths = re.findall(r"`((?:holderlake|assets|resources|pipelines|tests|docs|web|benchmarks)/[\w./-]*)`", text)
    below = re.findall(r"`([\w-]+/[\w./-]+\.py)`", text)  # the page says below which folder
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []
    bases = ("", "holderlake", "holderlake/core")
    assert [path for path in below if not any((ROOT / base / path).exists() for base in bases)] == []


def test_each_constant_that_the_guide_of_contributors_names_exists() -> None:
    names = set(re.findall(r"`(_?[A-Z][A-Z_]{3,})`", (ROOT / "CONTRIBUTING.md").read_text()))
    assert names
    folders = ("holderlake", "assets", "pipelines", "docs")
    code = "".join(path.read_text() for folder in folders for path in (ROOT / folder).rglob("*.py"))
    assert [name for name in sorted(names) if not re.search(rf"\b{name}\b", code)] == []
