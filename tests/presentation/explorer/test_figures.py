"""Each figure of a token at one date has one name and one text on every surface."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest

from holderlake.core.contract.figures import FIGURES
from holderlake.core.warehouse.warehouse import Warehouse
from holderlake.presentation.export.token_history import Period, token_history
from holderlake.presentation.export.token_report import write_report
from holderlake.presentation.pictures.drawing.draw import Theme, TokenTitle, draw_map
from holderlake.presentation.pictures.drawing.legend import LEGEND
from tests.helpers.browser import expect, opened_browser
from tests.presentation.explorer.serving import ROOT, exploring
from tests.presentation.explorer.world import EARLIEST, LATEST, TIDE, fill

if TYPE_CHECKING:
    from playwright.sync_api import Page

HEADLINE = {"Score": "45", "Top 10 groups": "30.0%", "Top 10 clusters": "11.0%", "Exchanges": "20.0%", "Pools": "10.0%"}
ALL = {
    "Score": "45",
    "10 largest holders": "52.4%",
    "10 largest groups": "30.0%",
    "10 largest clusters": "11.0%",
    "Exchanges": "20.0%",
    "Pools": "10.0%",
    "Contracts": "5.00%",
    "Fresh wallets": "0%",
    "Gini index": "0.500",
    "Herfindahl\u2013Hirschman index": "0.100",
    "Nakamoto coefficient": "9",
}
"""The figures of ``TIDE`` at the latest date, as ``world`` fills them in."""
WORDS = {LEGEND[mark] for mark in ("size", "magic", "line")} | {
    "33 of the 35 largest holders drawn, with 42.8% of the supply"
}
"""Texts that saved pictures and those of the service share."""

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    return fill(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def page(warehouse: Warehouse) -> Iterator[Page]:
    with exploring(warehouse.path.parent) as address, opened_browser() as browser:
        opened = browser.new_context(reduced_motion="reduce").new_page()
        opened.set_default_timeout(0)  # pytest ends a test that hangs
        opened.goto(f"{address}/?chain=eth&token={TIDE}&tab=compare&with={EARLIEST:%Y%m%d}T000000Z")
        opened.wait_for_selector(".map[data-at][aria-busy=false]")
        yield opened


def test_page_and_saved_files_have_the_names_and_texts(page: Page, tmp_path: Path) -> None:
    shown = page.locator(".figures > div")
    assert (
        dict(zip(shown.locator("dt").all_inner_texts(), shown.locator("dd").all_inner_texts(), strict=True)) == HEADLINE
    )
    expect(page.locator(".figures-table tbody tr")).to_have_count(len(ALL))
    rows = [row.locator("th, td").all_inner_texts() for row in page.locator(".figures-table tbody tr").all()]
    assert {name: now for name, _, now, _ in rows} == ALL
    for name, form in (("SVG", "svg"), ("HTML", "html")):
        page.locator(".save summary").click()
        with page.expect_download() as download:
            page.get_by_role("button", name=name).click()
        download.value.save_as(tmp_path / f"tide.{form}")
    drawn = [one.text for one in ElementTree.parse(tmp_path / "tide.svg").iter("{http://www.w3.org/2000/svg}text")]
    assert _pairs(drawn) == HEADLINE
    assert set(drawn) >= WORDS
    saved = page.context.new_page()
    saved.goto((tmp_path / "tide.html").as_uri())
    saved.wait_for_selector(".map[data-at][aria-busy=false]")
    assert saved.locator(".figures dd").all_inner_texts() == list(HEADLINE.values())
    assert saved.locator(".finding").inner_text() == page.locator(".finding").inner_text()
    page.get_by_role("tab", name="Charts").click()
    page.get_by_text("All numbers as a table").click()
    table = page.get_by_role("region", name="All numbers")
    names, texts = (table.locator(cells).all_inner_texts() for cells in ("thead th", "tbody tr:last-child > *"))
    assert dict(zip(names[1:], texts[1:], strict=True)) == ALL


def test_picture_and_report_have_the_names_and_texts(warehouse: Warehouse, tmp_path: Path) -> None:
    period = Period("eth", TIDE, EARLIEST, LATEST)
    with token_history(warehouse, period) as history:
        tables = history.map_at(LATEST)
    svg = draw_map(tables, TokenTitle("Tide Pool", "TIDE", "eth", LATEST), width=1200, theme=Theme.LIGHT, form="svg")
    texts = re.findall(r"<!-- (.*?) -->", svg.decode(), re.DOTALL)
    assert _pairs(texts) == HEADLINE
    assert set(texts) >= WORDS
    assert any(text.startswith("3 wallets together hold 11.0%") for text in texts)
    write_report(warehouse, period, tmp_path / "report.html", LATEST)
    cells = _Cells()
    cells.feed((tmp_path / "report.html").read_text())
    assert {row[0]: row[2] for row in cells.rows if len(row) == 4 and row[0] in ALL} == ALL
    [concentration] = [row[1:] for row in cells.rows if len(row) == 9 and row[0].startswith("2026-06-01")]
    assert concentration == ["45", "52.4%", "30.0%", "11.0%", "20.0%", "10.0%", "0.500", "9"]


def test_sql_has_the_values(warehouse: Warehouse) -> None:
    query = f"FROM concentration_history WHERE token_address = '{TIDE}' ORDER BY timestamp DESC LIMIT 1"
    [row] = warehouse.query(query).to_pylist()
    assert {figure.title: figure.text(row[column]) for column, figure in FIGURES.items()} == ALL


def test_docs_and_notebook_take_the_names_from_the_declaration() -> None:
    assert {figure.title for figure in FIGURES.values()} == set(ALL)
    meanings = (ROOT / "docs" / "sql" / "concentration.md").read_text()
    figures = (ROOT / "docs" / "figures.md").read_text()
    for column, figure in FIGURES.items():
        assert (
            f"| `{column}` | {'BIGINT' if column.startswith('naka') else 'DOUBLE'} | {figure.explanation} |" in meanings
        )
        assert f"| {figure.title} | {figure.short} | `{column}` |" in figures
    assert "label=FIGURES[column].title" in (ROOT / "notebooks" / "warehouse.py").read_text()


def _pairs(texts: list[Any]) -> dict[str, str]:
    """Return the text after each name of the headline."""
    return {name: texts[texts.index(name) + 1] for name in HEADLINE}


class _Cells(HTMLParser):
    """The texts of the cells of all tables, by row."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = [[]]
        self._is_inside = False

    def handle_starttag(self, tag: str, _: object) -> None:
        self._is_inside |= tag in ("td", "th")
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self._is_inside &= tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self._is_inside:
            self.rows[-1][-1] = (self.rows[-1][-1] + data).strip()
