"""The report: a self-contained page with the warehouse's data, which runs no foreign code."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

from holderlake.cli.main import app
from holderlake.core.contract.tables import MAP_TABLES
from holderlake.core.lake.lake import Lake
from holderlake.core.warehouse.warehouse import Warehouse
from holderlake.engine.records import TRANSFERS
from holderlake.engine.store.store import Store
from holderlake.presentation.explorer.answers import history
from holderlake.presentation.explorer.published import Published
from holderlake.presentation.export.history_plots import DARK, LIGHT, PLOTS, draw_shares, followed, plot
from holderlake.presentation.export.token_history import Period, token_history
from holderlake.presentation.export.token_report import gather, write_report
from holderlake.sources.rpc.verified import VERIFIED
from holderlake.sources.store import stored_transfers
from tests.engine.world import transfer
from tests.helpers.browser import chromium, opened_browser
from tests.helpers.lakes import DAYS, failures, map_tables, rows, write

pytestmark = pytest.mark.integration

TOKEN = "0x000000000000000000000000000000000000000a"
HOSTILE = "</style><script>alert(1)</script>\"'&$\\frac$\u202e\x00"
HUGE = str(2**200)
MADE = datetime(2026, 11, 30)


def fill(lake: Lake, *days: int) -> None:
    """Three instants: two holders form a cluster, one leaves, one enters; names are hostile."""
    for day in days:
        as_of = DAYS[day]
        addresses = ["0x1", "0x2", "0x3" if day < 2 else "0x4"]
        listed = [
            {
                "token_address": TOKEN,
                "rank": rank,
                "address": address,
                "share": 0.3 / rank + day / 100,
                "amount": Decimal("12345.678"),
                "amount_exact": HUGE if rank == 2 else None,
                "label": HOSTILE,
                "is_cex": rank == 3,
            }
            for rank, address in enumerate(addresses, 1)
        ]
        write(lake, "holders", "eth", as_of, {"holders": rows("holders", "eth", as_of, listed)}, {TOKEN})
        named = {"token_address": TOKEN, "name": HOSTILE, "symbol": HOSTILE, "is_indexed": True}
        write(lake, "tokens", "eth", as_of, {"tokens": rows("tokens", "eth", as_of, [named])}, {TOKEN})
        tables = map_tables("eth", as_of, {TOKEN: [["0x1", "0x2"]]}, score=60 - 10 * day)
        nodes = [row | {"label": HOSTILE, "rank": 1, "share": 0.2} for row in tables["map_nodes"].to_pylist()]
        tables["map_nodes"] = rows("map_nodes", "eth", as_of, nodes)
        failed = failures("eth", as_of, ("map", TOKEN)) if day == 1 else None
        write(lake, "maps", "eth", as_of, tables, {TOKEN}, failed)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    folder = tmp_path_factory.mktemp("home")
    lake, made = Lake(folder / "lake"), Warehouse(folder / "warehouse.duckdb")
    fill(lake, 0, 1, 2)
    made.load(lake)
    return made


def period(since: datetime = DAYS[0], until: datetime = DAYS[9], token: str = TOKEN, chain: str = "eth") -> Period:
    return Period(chain, token, since, until)


@pytest.fixture(scope="module")
def page(warehouse: Warehouse, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(warehouse, period(), path, MADE)
    return path


@dataclass
class Parsed(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    text: str = ""

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def parsed(page: Path) -> Parsed:
    found = Parsed()
    found.feed(page.read_text())
    return found


@pytest.mark.long
def test_page_loads_and_runs_nothing(parsed: Parsed) -> None:
    assert not {"script", "iframe", "object", "link", "form", "base"} & {tag for tag, _ in parsed.elements}
    addresses = [
        value or ""
        for _, attributes in parsed.elements
        for name, value in attributes.items()
        if name in {"src", "srcset", "href", "action", "data", "poster"}
    ]
    assert addresses
    assert all(one.startswith(("data:image/svg+xml;base64,", "#")) for one in addresses)
    assert not [name for _, attributes in parsed.elements for name in attributes if name.startswith("on")]


@pytest.mark.long
def test_policy_allows_only_its_own_style(page: Path, parsed: Parsed) -> None:
    (style,) = re.findall(r"<style>(.*?)</style>", page.read_text(), re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    (policy,) = [one["content"] for one in parsed.of("meta") if one.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    assert f"style-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy


def test_foreign_text_is_escaped(page: Path, parsed: Parsed) -> None:
    assert "<script>" not in page.read_text()
    assert "</style><script>alert(1)</script>" in parsed.text
    pictures = [base64.b64decode((one["src"] or "").partition(",")[2]) for one in parsed.of("img")]
    assert not [one for one in pictures if b"<script" in one]


def test_pictures_have_alt_text_and_dark_variants_and_tables_headers(parsed: Parsed) -> None:
    media = [one["media"] or "" for one in parsed.of("source")]
    assert len(parsed.of("img")) == sum("dark" in one and "width" not in one for one in media) == 6
    assert sum("max-width" in one for one in media) == 2 * len(PLOTS)
    assert all(len(one["alt"] or "") > 20 for one in parsed.of("img"))
    assert {one.get("scope") for one in parsed.of("th")} == {"row", "col"}
    assert len(parsed.of("caption")) == len(parsed.of("table"))
    headings = [int(tag[1]) for tag, _ in parsed.elements if re.fullmatch(r"h[1-6]", tag)]
    assert headings[0] == 1
    assert all(later - earlier <= 1 for earlier, later in pairwise(headings))
    linked = {one["href"] for one in parsed.of("a")}
    assert linked == {f"#{one['id']}" for one in parsed.of("section")}


def test_page_shows_the_data_of_the_warehouse(parsed: Parsed) -> None:
    text = " ".join(parsed.text.split())
    assert "The score fell from 60 to 40." in text
    assert f"{2**200:,d}" in text
    assert "no holders, but some at an earlier and at a later instant" in text
    assert "2026-11-01 00:00 to 2026-11-03 00:00 UTC" in text
    assert "Of the first 3, 1 were not listed at the beginning." in text


@pytest.mark.long
def test_a_report_says_where_the_data_end(tmp_path: Path) -> None:
    lake, warehouse = Lake(tmp_path / "lake"), Warehouse(tmp_path / "warehouse.duckdb")
    fill(lake, 0, 20)
    known = {"token_address": TOKEN, "max_date": DAYS[5]}
    write(lake, "tokens", "eth", DAYS[21], {"tokens": rows("tokens", "eth", DAYS[21], [known])}, {TOKEN})
    warehouse.load(lake)
    page = tmp_path / "report.html"
    write_report(warehouse, period(until=DAYS[21]), page, MADE)
    parsed = Parsed()
    parsed.feed(page.read_text())
    text = " ".join(parsed.text.split())
    assert "The data end on 2026-11-06 00:00 UTC." in text
    assert "2 of 4 maps and lists of this report are as of later times" in text
    write_report(warehouse, period(until=DAYS[5]), page, MADE)
    assert "The data end" not in page.read_text()


@pytest.mark.long
def test_quality_is_about_the_complete_period_and_comparisons_about_its_data(tmp_path: Path) -> None:
    lake, warehouse = Lake(tmp_path / "lake"), Warehouse(tmp_path / "warehouse.duckdb")
    fill(lake, 0, 2)
    nothing = {name: rows(name, "eth", DAYS[5], []) for name in MAP_TABLES}
    failure = {"endpoint": "map", "subject": TOKEN, "code": "unreachable", "reason": "the provider did not answer"}
    write(lake, "maps", "eth", DAYS[5], nothing, {TOKEN}, rows("failures", "eth", DAYS[5], [failure]))
    warehouse.load(lake)
    content = gather(warehouse, period(since=datetime(2026, 10, 1)))
    assert content.rows("quality")[0]["failures"] == 1
    assert {row["change"] for row in content.rows("changes")} == {"entered", "left"}


@pytest.mark.long
def test_report_and_explorer_say_which_amounts_are_not_exact(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    warehouse = Warehouse(tmp_path / "warehouse.duckdb", lambda: stored_transfers(tmp_path / "engine"))
    fill(lake, 0)
    known = rows("tokens", "eth", DAYS[0], [{"token_address": TOKEN}])
    write(lake, "tokens", "eth", DAYS[0], {"tokens": known}, {TOKEN})
    page = tmp_path / "report.html"
    minted = pa.Table.from_pylist([transfer("mint -> a", 1, 1_700_000_000, token=("eth", TOKEN))], TRANSFERS)
    with Store(tmp_path / "engine") as store:
        store.add_transfers(minted, "test")
    checked = {"chain": "eth", "token_address": TOKEN, "is_complete": True, "balances": "different", "source": "x"}
    checked |= {"first_block": 1, "last_block": 9, "as_of": DAYS[0], "checked_at": DAYS[0], "blocks": 9, "events": 1}
    checked |= {"missing_rows": 0, "extra_rows": 0, "unread_blocks": 0}
    pq.write_table(pa.Table.from_pylist([checked], VERIFIED), tmp_path / "engine" / "verified.parquet")
    warehouse.load(lake)
    write_report(warehouse, period(), page, MADE)
    assert "so amounts with 18 decimals may be wrong" in page.read_text()
    assert "The balances are not exact." in page.read_text()
    with Published(warehouse).reader() as reader:
        token = history(reader, "eth", TOKEN)["token"]
    assert (token["assumed_decimals"], token["verified_balances"]) == ([18], ["different"])


@pytest.mark.long
def test_same_warehouse_gives_same_page(warehouse: Warehouse, page: Path, tmp_path: Path) -> None:
    write_report(warehouse, period(), tmp_path / "again.html", MADE)
    assert (tmp_path / "again.html").read_bytes() == page.read_bytes()


@pytest.mark.long
def test_one_instant_is_enough_for_a_page(warehouse: Warehouse, tmp_path: Path) -> None:
    written = write_report(warehouse, period(until=DAYS[0]), tmp_path / "one.html", MADE)
    assert written.instants == 1
    assert "It takes two lists of holders to tell" in (tmp_path / "one.html").read_text()


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (period(token="0xb"), f"no data of 0xb on eth; on that chain it has {TOKEN}"),
        (period(chain="base"), f"{TOKEN} on base, but on eth"),
        pytest.param(
            period(chain="base", token="0xb"),
            "nor of any token there; 'holderlake ingest --chain base",
            marks=pytest.mark.long,
        ),
        pytest.param(
            period(since=DAYS[5]),
            "the warehouse has data from 2026-11-01 00:00 to 2026-11-03 00:00",
            marks=pytest.mark.long,
        ),
    ],
    ids=["token", "chain", "both", "period"],
)
def test_missing_data_is_an_error_that_names_existing_data(
    warehouse: Warehouse, tmp_path: Path, wanted: Period, message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        write_report(warehouse, wanted, tmp_path / "x.html", MADE)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_chromium_shows_the_page_without_errors(page: Path, tmp_path: Path) -> None:
    picture = tmp_path / "page.png"
    log = subprocess.run(
        [
            *(chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"),
            *(f"--user-data-dir={tmp_path / 'profile'}", "--window-size=900,1400"),
            *(f"--screenshot={picture}", page.as_uri()),
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    assert picture.stat().st_size > 20_000
    assert "CONSOLE" not in log


def test_phone_shows_captions_complete_and_text_of_plots_large_enough(page: Path) -> None:
    with opened_browser() as browser:
        view = browser.new_page(viewport={"width": 390, "height": 844})
        view.goto(page.as_uri())
        captions = "[...document.querySelectorAll('caption span')].map(one => one.getBoundingClientRect())"
        boxes = view.evaluate(captions)
        assert boxes
        assert all(box["left"] >= 0 and box["right"] <= 390 for box in boxes)
        widths = "[...document.querySelectorAll('img.plot')].map(one => one.clientWidth / one.naturalWidth)"
        assert min(view.evaluate(widths)) > 0.8  # text of 9.5 points is then at least 10 pixels high


@pytest.mark.long
def test_command_writes_a_file_and_keeps_an_existing_one(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDERLAKE_HOME", str(warehouse.path.parent))
    path = tmp_path / "mine.html"
    path.write_text("mine")
    answer = CliRunner().invoke(app, ["report", "eth", TOKEN, str(path), "--to", "2026-11-01"])
    assert "--force" in str(answer.exception)
    assert path.read_text() == "mine"
    assert CliRunner().invoke(app, ["report", "eth", TOKEN, str(path), "--to", "2026-11-01", "--force"]).exit_code == 0
    assert path.read_text().startswith("<!doctype html>")


def test_plots_have_a_light_and_a_dark_variant(warehouse: Warehouse) -> None:
    with token_history(warehouse, period()) as history:
        answer = history.ask("shares")
    light, dark = plot("shares", answer, LIGHT), plot("shares", answer, DARK)
    assert LIGHT.ground.encode() in light
    assert DARK.ground.encode() in dark
    assert light != dark


@pytest.mark.long
def test_legend_has_labels_that_the_font_can_draw_and_else_addresses() -> None:
    labels = {"a": "Kite Exchange", "b": None, "c": "_hidden", "d": "\u65e5\u672c", "e": "A very long name of a wallet"}
    rows = [
        {"timestamp": day, "address": letter * 40, "label": label, "share": 0.1}
        for letter, label in labels.items()
        for day in DAYS[:2]
    ]
    axes = Figure().subplots()
    draw_shares(axes, pa.Table.from_pylist(rows), LIGHT)
    short = [f"{letter * 6}…{letter * 4}" for letter in "bcd"]
    assert axes.get_legend_handles_labels()[1] == ["Kite Exchange", *short, "A very long name of a…"]


def test_line_of_a_split_cluster_continues_with_the_larger_part() -> None:
    def cluster(day: int, number: int, before: int | None, share: float) -> dict[str, Any]:
        previous = None if before is None else DAYS[day - 1]
        return {
            **{"timestamp": DAYS[day], "cluster_id": number, "share": share},
            **{"previous_timestamp": previous, "previous_cluster_id": before},
        }

    rows = [cluster(0, 1, None, 0.3), cluster(1, 1, None, 0.5), cluster(1, 2, 1, 0.2), cluster(1, 3, 1, 0.1)]
    lines = followed(pa.Table.from_pylist(rows))
    assert sorted([row["share"] for row in line] for line in lines) == [[0.1], [0.3, 0.2], [0.5]]
