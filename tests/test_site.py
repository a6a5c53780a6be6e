"""The docs as a site, built by ``make docs``: it is complete, and its links stay within it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urldefrag, urlsplit

import duckdb
import pytest
import typer.main

from docs.reference.pages import DECISIONS
from holderlake.cli.main import app
from holderlake.core.settings import Settings
from holderlake.core.warehouse import schema
from tests.helpers.browser import PHONE, expect, opened_browser
from tests.helpers.servers import LoopbackServer

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[1]


class PageReader(HTMLParser):
    """A page's anchors, links, loaded files, and the text below each heading."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.sections: dict[str, str] = defaultdict(str)
        self._heading = ""
        self._in_heading = False
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.ids |= {values["id"]} if "id" in values else set()
        if tag in {"h1", "h2", "h3"}:
            self._heading, self._in_heading = "", True
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag in {"link", "script", "img", "iframe", "source", "video", "audio"}:
            self.loaded += [values[name] for name in ("href", "src", "srcset", "data-src") if name in values]

    def handle_endtag(self, tag: str) -> None:
        if tag in {"h1", "h2", "h3"}:
            self._in_heading = False

    def handle_data(self, data: str) -> None:
        if self._in_heading:
            self._heading += data.replace("¶", "")
        else:
            self.sections[self._heading] += data

    def names(self, heading: str) -> set[str]:
        """Return the words below a heading, also names of columns, options and settings."""
        return set(re.findall(r"[\w-]+", self.sections[heading]))


def _make_docs(source: Path, site: Path) -> subprocess.CompletedProcess[str]:
    named = (f"DOCS={source}", f"SITE={site}", f"BIN={Path(sys.executable).parent}")
    command = ["make", "--silent", "--old-file", ".venv/ready", "docs", *named]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(ROOT / "docs", tmp_path_factory.mktemp("source") / "docs"))


@pytest.fixture(scope="module")
def site(source: Path) -> Path:
    built = _make_docs(source, source.parent / "site")
    assert (built.returncode, built.stderr) == (0, "")
    return source.parent / "site"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, PageReader]:
    return {str(path.relative_to(site)): PageReader(path) for path in site.rglob("*.html")}


@pytest.fixture(scope="module")
def warehouse() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        schema.install(connection)
        yield connection


# Completeness


def test_each_table_has_a_page_with_its_columns_and_types(
    pages: dict[str, PageReader], warehouse: duckdb.DuckDBPyConnection
) -> None:
    tables: dict[str, dict[str, str]] = defaultdict(dict)
    found = (
        "SELECT table_name, column_name, data_type FROM duckdb_columns() SEMI JOIN duckdb_tables() USING (table_name)"
    )
    for table, column, kind in warehouse.execute(f"{found} WHERE schema_name = 'main'").fetchall():
        tables[table][column] = kind
    assert len(tables) >= 14
    assert {f"tables/{name}.html" for name in tables} == {name for name in pages if name.startswith("tables/")}
    for table, columns in tables.items():
        page = pages[f"tables/{table}.html"]
        documented = dict(re.findall(r"^(\w+)\n[^\n]+\n[^\n]*\n([^\n]+)\n", page.sections["Columns"], re.MULTILINE))
        assert columns.keys() == documented.keys() - {"column"}, table
        for name, kind in columns.items():
            assert documented[name].removesuffix(" NOT NULL").replace(" ", "") == kind, f"{table}.{name}"
        assert "FROM " in page.sections["An example"]


def test_each_view_and_macro_is_documented(pages: dict[str, PageReader], warehouse: duckdb.DuckDBPyConnection) -> None:
    documented = {
        heading.partition("(")[0]
        for name, page in pages.items()
        if name.startswith("sql/")
        for heading in page.sections
    }
    listed = "SELECT view_name FROM duckdb_views() WHERE NOT internal AND schema_name = 'main'"
    views = {name for (name,) in warehouse.execute(listed).fetchall()}
    macros = "SELECT function_name FROM duckdb_functions() WHERE NOT internal"
    names = views | {name for (name,) in warehouse.execute(macros).fetchall()}
    assert len(names) > 40
    assert names - documented == set()


def _leaves(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    for child, below in getattr(command, "commands", {}).items():
        yield from _leaves(below, f"{name} {child}")
    if not hasattr(command, "commands"):
        yield name, command


def test_each_command_is_documented_with_its_options(pages: dict[str, PageReader]) -> None:
    commands = dict(_leaves(typer.main.get_command(app), "holderlake"))
    assert len(commands) > 20
    for name, command in commands.items():
        options = {text for one in command.params if one.name != "help" for text in one.opts if text.startswith("--")}
        assert options <= pages["commands.html"].names(name), name


def _settings(schema: dict[str, Any], model: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of each setting, from pydantic's JSON schema."""
    for name, one in model["properties"].items():
        many = one.get("additionalProperties", {})
        below = [place.get("$ref") for place in (one, many, *one.get("anyOf", ()), *one.get("allOf", ()))]
        found = [schema["$defs"][ref.rpartition("/")[2]] for ref in below if ref]
        inner = [section for section in found if "properties" in section]
        for section in inner:
            yield from _settings(schema, section, (*path, name, *(["<name>"] if many else [])))
        if not inner:
            yield (*path, name)


def test_each_setting_is_documented_with_its_variable(pages: dict[str, PageReader]) -> None:
    schema = Settings.model_json_schema()
    settings = list(_settings(schema, schema))
    assert len(settings) > 60
    for *section, name in settings:
        headings = [f"[{'.'.join(section)}]"] if section else DECISIONS
        text = " ".join(pages["settings.html"].sections[heading] for heading in headings)
        variable = "HOLDERLAKE_" + "__".join((*section, name)).upper()
        assert {name, variable} <= set(re.findall(r"[\w<>]+", text)), (section, name)


# Links


def test_each_link_and_anchor_has_a_target(pages: dict[str, PageReader], site: Path) -> None:
    lost = []
    for name, page in pages.items():
        for link in page.links:
            path, anchor = urldefrag(link)
            if urlsplit(path).scheme:
                continue
            target = os.path.normpath(Path(name).parent / unquote(path)) if path else name
            if not (site / target).exists() or (anchor and unquote(anchor) not in pages[target].ids):
                lost.append((name, link))
    assert lost == []


def test_pages_load_nothing_from_another_host(pages: dict[str, PageReader], site: Path) -> None:
    assert {link for page in pages.values() for link in page.loaded if urlsplit(link).netloc} == set()
    for sheet in site.rglob("*.css"):
        assert re.findall(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//", sheet.read_text()) == [], sheet.name


def test_broken_links_and_unlinked_pages_fail_the_build(site: Path, source: Path) -> None:
    page = source / "lost.md"
    page.write_text("# Lost\n\n[no page](nowhere.md), [no anchor](sql.md#nothing-of-the-kind)\n")
    built = _make_docs(source, site)
    page.unlink()
    assert built.returncode != 0
    assert "nowhere.md" in built.stderr
    assert "nothing-of-the-kind" in built.stderr
    assert "lost.md: WARNING: document isn't included in any toctree" in built.stderr


# In a browser


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    with LoopbackServer(partial(_Silent, directory=str(site))) as server:
        yield server.url


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with opened_browser() as opened:
        yield opened


def test_the_site_works_on_a_phone_and_finds_columns_by_a_part_of_a_name(browser: Browser, address: str) -> None:
    context = browser.new_context(**PHONE, color_scheme="dark")
    page = context.new_page()
    page.set_default_timeout(0)  # pytest ends a test that hangs
    requested: list[str] = []
    faults: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(f"{address}/index.html")
    page.get_by_role("row", name="know the type, unit and meaning of a column").get_by_role("link").click()
    page.get_by_role("main").get_by_role("link", name="maps", exact=True).click()
    expect(page.get_by_role("heading", name="maps")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(map(int, re.findall(r"\d+", background)[:3])) < 64, background
    page.goto(f"{address}/search.html?q=nakamoto")
    results = page.locator("#search-results li")
    expect(results.filter(has_text="nakamoto_coefficient").first).to_be_visible()
    expect(results.get_by_role("link", name="maps", exact=True)).to_be_visible()
    context.close()
    assert {urlsplit(url).netloc for url in requested} == {urlsplit(address).netloc}
    assert faults == []


@pytest.mark.parametrize(
    ("words", "first_page"),
    [
        ("install", "Install"),
        ("quickstart", "Quickstart: "),
        ("architecture", "Architecture: "),
        ("SQL", "SQL: "),
        ("FAQ", "Questions before you start (FAQ)"),
    ],
)
def test_the_search_finds_the_page_for_users_first(browser: Browser, address: str, words: str, first_page: str) -> None:
    page = browser.new_page()
    page.set_default_timeout(0)  # pytest ends a test that hangs
    page.goto(f"{address}/search.html?q={words}")
    page.wait_for_selector("#search-results p.search-summary")
    expect(page.locator("#search-results .search-summary")).to_contain_text("found")
    assert page.locator("#search-results li a").first.inner_text().startswith(first_page)
    page.close()
