"""The page in Chromium, served by the real command, without foreign requests and without errors."""

from __future__ import annotations

import base64
import io
import math
import os
import re
from collections.abc import Callable, Iterator
from datetime import date
from http.server import SimpleHTTPRequestHandler
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest

from holderlake.core.contract.requests import MapOptions
from holderlake.core.contract.tables import TABLES, with_fetched_at
from holderlake.core.contract.times import from_unix
from holderlake.core.lake.lake import Lake
from holderlake.core.warehouse.warehouse import Warehouse
from holderlake.engine.errors import EngineError
from holderlake.engine.maps.maps import map_as_of
from holderlake.engine.store.store import Store
from holderlake.presentation.pictures.drawing.header import finding_of
from tests.helpers.browser import PHONE, chromium, expect, opened_browser
from tests.helpers.commands import holderlake
from tests.helpers.lakes import write
from tests.helpers.servers import LoopbackServer
from tests.presentation.explorer.serving import built_with, exploring
from tests.presentation.explorer.world import (
    ALL_BURNT,
    AMOUNTS,
    BURNT,
    CROWD,
    EXCHANGE,
    HAIRBALL,
    HOSTILE,
    HOSTILE_LABELS,
    LATEST,
    LEAVER,
    LONE,
    MAGIC,
    MAPLESS,
    NEWCOMER,
    OWNED,
    STRANGER,
    TEAM,
    TIDE,
    WALLETS,
    WHALE,
    add_owners,
    fill,
)
from tests.presentation.explorer.world import address as numbered

if TYPE_CHECKING:
    from playwright.sync_api import Browser, FloatRect, Locator, Page

BUBBLES = "() => document.getElementById('map').bubbles()"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    chromium()
    home = tmp_path_factory.mktemp("world")
    add_owners(home, fill(home, with_edges=True))
    pages = {"HOLDERLAKE_EXPLORER__TRANSACTION_LINKS": '{"eth": "https://scan.example/tx/{value}"}'}
    with exploring(home, **pages) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with opened_browser() as opened:
        yield opened


Open = Callable[..., "Page"]


@pytest.fixture
def open_page(browser: Browser, address: str) -> Iterator[Open]:
    """Open views. At the end, there must be no foreign request, console message or exception."""
    asked: list[str] = []
    faults: list[str] = []
    contexts = []

    def open_view(query: str = "", drawn: bool = True, **options: Any) -> Page:
        page = new_page(browser, **options)
        contexts.append(page.context)
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.context.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("dialog", lambda dialog: faults.append(dialog.message))
        page.goto(f"{address}/{query}")
        if drawn:
            settled(page)
        return page

    yield open_view
    for context in contexts:
        context.close()
    assert asked
    assert [url for url in asked if not url.startswith(f"{address}/")] == []
    assert faults == []


def new_page(browser: Browser, **options: Any) -> Page:
    page = browser.new_context(**{"reduced_motion": "reduce"} | options).new_page()
    page.set_default_timeout(0)  # pytest ends a test that hangs
    return page


def of(token: str, more: str = "") -> str:
    return f"?chain=eth&token={token}{more}"


def settled(page: Page, at: str = "") -> None:
    """Wait until the map is drawn, optionally of an instant."""
    of_instant = f"^='{at}'" if at else ""
    page.wait_for_selector(f".map[data-at{of_instant}][aria-busy=false]")


def card_of(page: Page) -> Locator:
    """Return the card about what is selected."""
    return page.get_by_role("region", name="Selection", exact=True)


def shows(page: Page, bubbles: int) -> None:
    """Wait until the map has this number of bubbles."""
    page.wait_for_function(f"() => document.getElementById('map').bubbles().length === {bubbles}")


def lit(page: Page) -> set[str]:
    return {one["id"] for one in page.evaluate(BUBBLES) if one["lit"]}


def box_of(part: Locator) -> FloatRect:
    found = part.bounding_box()
    assert found
    return found


def places(page: Page) -> dict[str, tuple[float, float]]:
    return {one["id"]: (one["x"], one["y"]) for one in page.evaluate(BUBBLES)}


def world(page: Page) -> dict[str, tuple[float, float, float]]:
    """Return the position and the radius of each bubble in the map's own units."""
    return {one["id"]: tuple(one["world"]) for one in page.evaluate(BUBBLES)}


def width(bubbles: dict[str, tuple[float, float, float]]) -> float:
    return max(x + radius for x, _, radius in bubbles.values()) - min(x - radius for x, _, radius in bubbles.values())


def test_the_first_view_is_the_map_of_a_token(open_page: Open) -> None:
    page = open_page()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Crowd")
    expect(page).to_have_title("Crowd · Holderlake")
    assert len(places(page)) == 500
    expect(page.get_by_role("tabpanel").get_by_role("row")).to_have_count(62)  # the head, 60 rows, and "show all"


@pytest.mark.long
def test_a_token_is_found_by_name_symbol_address_or_chain(open_page: Open) -> None:
    page = open_page(of(CROWD), drawn=False)
    box = page.get_by_role("combobox", name="Token")
    for text in ("crowd eth", "tide pool", TIDE[:12], "TIDE"):
        box.fill(text)
        expect(page.get_by_role("listbox").get_by_role("option")).to_have_count(1)
        expect(page.get_by_role("listbox").get_by_role("option")).to_contain_text(
            "Crowd" if "crowd" in text else "Tide Pool"
        )
    box.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Tide Pool")
    assert f"token={TIDE}" in page.url
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Crowd")


@pytest.mark.long
def test_bubbles_keep_their_position_through_time(open_page: Open) -> None:
    page = open_page(of(TIDE))
    slider = page.get_by_role("slider", name="Date")
    latest = world(page)
    slider.press("Home")
    settled(page, "20260101")
    expect(slider).to_have_attribute("aria-valuetext", re.compile("1 Jan 2026, 1 of 6"))
    earliest = world(page)
    assert (set(latest) - set(earliest), set(earliest) - set(latest)) == ({NEWCOMER}, {LEAVER})
    moved = [math.dist(earliest[one][:2], latest[one][:2]) for one in {*earliest} & {*latest}]
    assert max(moved) < 0.15 * width(latest)
    assert "at=20260101T000000Z" in page.url


@pytest.mark.long
@pytest.mark.parametrize("token", [TIDE, CROWD])
def test_positions_do_not_depend_on_the_way_to_a_date(open_page: Open, token: str) -> None:
    page = open_page(of(token))
    page.get_by_role("slider", name="Date").press("Home")
    settled(page, "20260101")
    page.get_by_role("button", name="Next date").click()
    settled(page, "20260201")
    other = open_page(of(token, "&at=20260201T000000Z"))
    assert (places(page), world(page)) == (places(other), world(other))


@pytest.mark.long
def test_history_plays_to_its_end(open_page: Open) -> None:
    page = open_page(of(TIDE, "&at=20260501T000000Z"))
    page.get_by_role("button", name="Play the history").click()
    settled(page, "20260601")
    expect(page.get_by_role("status")).to_contain_text("1 Jun 2026: Score 45")
    expect(page.get_by_role("button", name="Play the history")).to_be_visible()


@pytest.mark.parametrize("at", ["20260401T000000Z", "2026-04-01T00:00:00", "2026-04-01T00:00:00Z", "2026-04-01"])
def test_date_of_a_link_may_have_any_common_form(open_page: Open, at: str) -> None:
    page = open_page(of(TIDE, f"&at={at}"))
    slider = page.get_by_role("slider", name="Date")
    expect(slider).to_have_attribute("aria-valuetext", re.compile("^1 Apr 2026, 4 of 6"))


@pytest.mark.long
def test_two_dates_are_compared(open_page: Open) -> None:
    page = open_page(of(TIDE, "&tab=compare"))
    page.get_by_label("Compare with").select_option(label="1 Jan 2026")
    panel = page.get_by_role("tabpanel")
    expect(panel.get_by_role("row", name="Score 40 45 +5")).to_be_visible()
    found = {
        group.locator("summary").inner_text().split()[0]: group.locator("tbody tr").all_inner_texts()
        for group in panel.locator("details").all()
    }
    assert [len(rows) for rows in found.values()] == [1, 1, 1, 0]
    assert NEWCOMER[:6] in found["Entered"][0]
    assert LEAVER[:6] in found["Left"][0]
    assert "2.00% → 7.00%" in found["Grew"][0]
    assert "+50M" in found["Grew"][0]
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.get_by_text("1 Jun 2026, compared with 1 Jan 2026")).to_be_in_viewport()
    expect(page.get_by_label("What the colours mean")).to_contain_text("grew")


@pytest.mark.long
def test_the_earlier_of_two_compared_dates_is_first_whichever_the_map_shows(open_page: Open) -> None:
    panel = open_page(of(TIDE, "&tab=compare&at=20260101T000000Z&with=20260601T000000Z")).get_by_role("tabpanel")
    expect(panel.get_by_role("row", name="Score 40 45 +5")).to_be_visible()
    expect(panel).to_contain_text("Changes from 1 Jan 2026 to 1 Jun 2026")


@pytest.mark.long
def test_kinds_of_nodes_are_shown_and_hidden(open_page: Open) -> None:
    page = open_page(of(TIDE))
    drawn = set(world(page))
    for label, query in (
        ("linking wallet", "magic=no"),
        ("shared exchange or pool", "time=no"),
        ("exchanges", "exchanges="),
    ):
        page.get_by_label(label, exact=True).click()
        page.wait_for_function(f"() => location.search.includes('{query}')")
    other = set(world(open_page(of(TIDE, "&magic=no&time=no&exchanges="))))
    assert MAGIC in drawn - other
    assert EXCHANGE in other - drawn
    assert not any(one.startswith("time") for one in other)


@pytest.mark.long
def test_the_slider_has_true_time_and_goes_to_the_nearest_date(open_page: Open) -> None:
    page = open_page(of(TIDE))
    slider = page.get_by_role("slider", name="Date")
    first, last = (int(slider.get_attribute(name) or 0) for name in ("min", "max"))
    assert (last - first) / 86_400 == (date(2026, 6, 1) - date(2026, 1, 1)).days
    slider.fill(str(first + 86_400 * 40))  # nine days into February
    settled(page, "20260201")
    slider.press("ArrowRight")
    settled(page, "20260301")
    page.get_by_role("button", name="Zoom into the time around this date").click()
    assert int(slider.get_attribute("max") or 0) < last
    expect(page.get_by_label("Dates a second").locator("option")).to_have_text(
        ["1 date/s", "2 dates/s", "5 dates/s", "10 dates/s", "30 dates/s"]
    )


@pytest.mark.long
def test_a_wallet_is_found_over_all_tokens_and_followed(open_page: Open) -> None:
    page = open_page(of(CROWD))
    page.get_by_role("combobox", name="Token").fill(WHALE.upper().replace("X", "x"))
    found = page.get_by_role("listbox").get_by_role("option")
    expect(found).to_have_count(1)
    expect(found).to_contain_text("Tide Pool")
    expect(found).to_contain_text("0x2222…2222 holds 7.00%")
    page.keyboard.press("Enter")
    settled(page, "20260601")
    expect(card_of(page)).to_contain_text(WHALE)


def saved(page: Page, kind: str, name: str = "TIDE_20260601T000000Z") -> bytes:
    """Save what the page shows, and return the file."""
    page.get_by_text("Save", exact=True).click()
    with page.expect_download() as waiting:
        page.get_by_role("button", name=re.compile(f"[(]{kind}[)]")).click()
    assert waiting.value.suggested_filename == f"{name}.{kind.lower()}"
    return Path(waiting.value.path()).read_bytes()


@pytest.mark.long
@pytest.mark.parametrize(("scheme", "ground"), [("light", (255, 255, 255)), ("dark", (15, 18, 21))])
def test_saved_picture_has_the_ground_of_the_theme(open_page: Open, scheme: str, ground: tuple[int, ...]) -> None:
    image = pytest.importorskip("PIL.Image")
    with image.open(io.BytesIO(saved(open_page(of(TIDE), color_scheme=scheme), "PNG"))) as picture:
        assert picture.size == (2_800, 1_680)
        assert picture.convert("RGB").getpixel((2, 2)) == ground
        assert (0, 114, 178) in {colour for _, colour in picture.convert("RGB").getcolors(1 << 20)}  # cluster 1


@pytest.mark.long
def test_saved_drawing_has_title_date_legend_arrows_and_shapes(open_page: Open) -> None:
    drawing = ElementTree.fromstring(saved(open_page(of(TIDE)), "SVG"))
    svg = "{http://www.w3.org/2000/svg}"
    texts = [one.text or "" for one in drawing.iter(f"{svg}text")]
    for expected in (
        "Tide Pool",
        "TIDE",
        "Ethereum · 1 Jun 2026 UTC",
        TIDE,
        "45",
        "30.0%",
        "How to read it",
        "Linking wallet",
    ):
        assert expected in texts
    assert texts.count("cluster 1") == 3  # the number of the cluster, in each member
    corners = [len((one.get("points") or "").split()) for one in drawing.iter(f"{svg}polygon")]
    assert corners.count(3) == 7  # the arrows of six lines and of the legend
    assert corners.count(4) == 2  # the time node, and that of the legend
    assert "Tide: Team, 9.00%" in [one.text for one in drawing.iter(f"{svg}title")]


@pytest.mark.long
def test_saved_table_has_exact_amounts(open_page: Open) -> None:
    table = saved(open_page(of(TIDE)), "CSV").decode()
    assert table.startswith("kind,rank,")
    assert f"{TEAM},Tide: Team,0.09,123456789.000000000000000001" in table


LAST_FRAME = """
async (film) => {
    const shown = document.createElement("video");
    shown.src = `data:video/webm;base64,${film}`;
    shown.currentTime = 1e6; // a film that was recorded has no length until its end was read
    await new Promise((done) => { shown.onseeked = done; });
    const brush = new OffscreenCanvas(shown.videoWidth, shown.videoHeight).getContext("2d");
    let [red, green, blue, opaque] = [0, 0, 0, 0];
    while (!opaque) { // a busy browser draws nothing until it has decoded the frame
        await new Promise((done) => setTimeout(done, 20));
        brush.drawImage(shown, 0, 0);
        [red, green, blue, opaque] = brush.getImageData(2, 2, 1, 1).data;
    }
    return [[shown.videoWidth, shown.videoHeight], [red, green, blue]];
}
"""
"""Returns width and height of a film, and the colour near a corner of its last frame."""


@pytest.mark.long
@pytest.mark.parametrize(("scheme", "ground"), [("light", (255, 255, 255)), ("dark", (15, 18, 21))])
def test_saved_film_plays_the_history_as_the_picture_shows_it(
    open_page: Open, browser: Browser, scheme: str, ground: tuple[int, ...]
) -> None:
    page = open_page(of(TIDE), color_scheme=scheme)
    page.get_by_label("Dates a second").select_option("30")
    film = saved(page, "WebM")
    expect(page.get_by_role("status")).to_contain_text("Saved TIDE_20260601T000000Z.webm")
    player = browser.new_page()
    size, colour = player.evaluate(LAST_FRAME, base64.b64encode(film).decode())
    player.close()
    assert size == [1_400, 840]
    assert colour == pytest.approx(ground, abs=6)  # compression changes colours a little


@pytest.mark.long
def test_saved_page_opens_from_a_file_without_the_explorer(open_page: Open, browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "tide.html"
    file.write_bytes(saved(open_page(of(TIDE, "&cluster=1")), "HTML"))
    page = new_page(browser, offline=True)
    asked: list[str] = []
    faults: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(file.as_uri())
    settled(page, "20260601")
    expect(page).to_have_title("Tide Pool · Holderlake")
    expect(card_of(page)).to_contain_text("links 3 holders")
    latest = set(places(page))
    page.get_by_role("slider", name="Date").press("Home")
    settled(page, "20260101")
    assert set(places(page)) - latest == {LEAVER}
    for tab in ("Clusters", "Links", "Charts", "Holders"):
        page.get_by_role("tab", name=tab).click()
    page.get_by_role("button", name="Colours: Auto").click()
    for absent in ("combobox", "form"):
        expect(page.get_by_role(absent, name=re.compile("Token|Added"))).to_have_count(0)
    assert [url for url in asked if not url.startswith((file.as_uri(), "blob:"))] == []
    assert faults == []
    page.context.close()


@pytest.mark.long
def test_a_link_shows_its_transfers_and_leads_to_a_block_explorer(open_page: Open) -> None:
    page = open_page(of(TIDE, "&tab=links&find=team"))
    page.get_by_role("tabpanel").get_by_role("button", name="3 transfers").click()
    listed = page.get_by_label("Transfers of the link, newest first").get_by_role("listitem")
    expect(listed).to_have_count(3)
    expect(listed.first).to_contain_text("1 Jun 2026")
    expect(listed.first).to_contain_text("300")
    assert listed.first.get_by_role("link").get_attribute("href") == f"https://scan.example/tx/0x{0:064x}"
    listed.first.get_by_role("button", name="Copy the hash 0x0000…0000").click()
    expect(page.get_by_role("status")).to_contain_text("Copied the hash")
    assert page.evaluate("() => navigator.clipboard.readText()") == f"0x{0:064x}"


@pytest.mark.long
def test_known_chain_has_a_block_explorer_without_settings(open_page: Open) -> None:
    card = card_of(open_page(of(TIDE, f"&node={TEAM}")))
    link = card.get_by_role("link", name="Block explorer")
    assert link.get_attribute("href") == f"https://etherscan.io/address/{TEAM}"
    assert link.get_attribute("rel") == "noreferrer noopener"


@pytest.mark.long
def test_a_map_later_than_the_data_has_a_note(open_page: Open) -> None:
    note = open_page(of(HOSTILE)).get_by_role("note")
    expect(note).to_contain_text("end on 1 Jan 2026, 151 days before this date")
    expect(open_page(of(HOSTILE, "&at=20260101T000000Z")).get_by_role("note")).to_have_count(0)
    expect(open_page(of(TIDE)).get_by_role("note")).to_have_count(0)


@pytest.mark.long
def test_sample_bubbles_have_the_scale_of_the_map(open_page: Open) -> None:
    page = open_page(of(TIDE))
    [whale] = [one for one in page.evaluate(BUBBLES) if one["id"] == WHALE]
    sample = page.locator(".sizes span").first
    part = float(sample.inner_text().removesuffix("%")) / 100
    box = box_of(sample.locator("svg"))
    assert box["width"] / 2 == pytest.approx(whale["radius"] * math.sqrt(part / 0.07), rel=0.06)


@pytest.mark.long
def test_addresses_are_added_to_the_map_with_their_transfers(open_page: Open) -> None:
    page = open_page(of(TIDE))
    before = world(page)
    form = page.get_by_role("form", name="Added addresses")
    form.get_by_role("textbox").fill(f"{STRANGER}, {EXCHANGE.upper().replace('X', 'x')}")
    form.get_by_role("textbox").press("Enter")
    shows(page, len(before) + 2)
    assert set(world(page)) - set(before) == {STRANGER, EXCHANGE}
    form.get_by_title(STRANGER).click()
    card = card_of(page)
    expect(card).to_contain_text("not in the list of holders")
    expect(card.get_by_role("table", name="Links of the selected node")).to_contain_text("7 TIDE")
    expect(page.get_by_role("region", name="Not drawn")).not_to_contain_text("Bourse")
    assert world(open_page(page.url.partition("/?")[2].join(["?", ""]))) == world(page)
    form.get_by_role("button", name=f"Remove {STRANGER} from the map").click()
    card.get_by_role("button", name="End the selection").click()
    shows(page, len(before) + 1)
    page.get_by_role("tabpanel").get_by_role("button", name="Bourse").click()
    card.get_by_role("button", name="Remove from the map").click()
    shows(page, len(before))
    assert world(page) == before


@pytest.mark.long
def test_copied_link_shows_the_same_view(open_page: Open) -> None:
    page = open_page(of(TIDE, "&at=20260301T000000Z"))
    page.get_by_role("tab", name="Links").click()
    page.get_by_label("Search links").fill("team")
    page.get_by_role("tabpanel").get_by_role("button", name="Tide: Team").click()
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("status")).to_contain_text("Copied")
    copied = page.evaluate("() => navigator.clipboard.readText()")
    other = open_page(copied.partition("/?")[2].join(["?", ""]))
    assert other.locator("main").inner_text() == page.locator("main").inner_text()
    expect(card_of(other)).to_contain_text(TEAM)
    expect(other.get_by_label("Search links")).to_have_value("team")


@pytest.mark.long
def test_link_is_copied_without_the_clipboard_api(open_page: Open) -> None:
    page = open_page(of(TIDE))
    page.evaluate("() => Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    button = page.get_by_role("button", name="Copy link")
    button.focus()
    button.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("Copied the link")
    page.get_by_label("Search holders").focus()
    page.keyboard.press("Control+V")
    assert f"token={TIDE}" in page.get_by_label("Search holders").input_value()


@pytest.mark.long
def test_token_with_one_holder_is_shown(open_page: Open) -> None:
    page = open_page(of(LONE))
    expect(page.get_by_role("tabpanel")).to_contain_text("1 holder")
    text = page.locator("body").inner_text()
    assert "1 holders" not in text
    assert "99.9%" in text
    assert "100.0%" not in text
    expect(page.get_by_role("status")).to_contain_text("1 holder,")
    assert len(places(page)) == 1


@pytest.mark.long
def test_token_without_a_name_is_called_by_its_short_address(open_page: Open) -> None:
    heading = open_page(of(LONE)).get_by_role("heading", level=1)
    expect(heading).to_have_text(re.compile(r"^\s*0x10e0…10e0\s*$"))


@pytest.mark.long
def test_map_without_an_address_says_that_no_holder_is_known(open_page: Open) -> None:
    page = open_page(of(BURNT), drawn=False)
    expect(page.get_by_role("alert")).to_contain_text("No holder is known at 1 Jun 2026")
    for control in (
        page.get_by_role("group", name="Zoom"),
        page.get_by_text("Save", exact=True),
        page.locator(".sizes"),
    ):
        expect(control).to_have_count(0)
    page.get_by_role("button", name="Previous date").click()
    settled(page, "20260501")
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.get_by_text("Save", exact=True)).to_be_visible()


@pytest.mark.long
def test_keyboard_controls_everything(open_page: Open) -> None:
    page = open_page(of(TIDE))
    reached = []
    for _ in range(32):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("() => document.activeElement.id || document.activeElement.ariaLabel"))
    assert [one for one in reached if one in ("token", "map", "slider", "tab-holders")] == [
        "token",
        "map",
        "slider",
        "tab-holders",
    ]
    page.locator("#tab-holders").press("ArrowRight")
    expect(page.get_by_role("tab", name="Clusters")).to_be_focused()
    page.locator("#map").focus()
    page.keyboard.press("Home")
    status = page.get_by_role("status")
    expect(status).to_contain_text("Tide: Team, rank 3, 9.00% of the supply, cluster 1, 1 link.")
    page.keyboard.press("ArrowRight")
    expect(status).not_to_contain_text("Tide: Team")
    expect(card_of(page)).to_be_visible()
    page.keyboard.press("Escape")
    expect(card_of(page)).not_to_be_visible()
    page.keyboard.press(",")
    settled(page, "20260501")
    before = places(page)
    page.keyboard.press("+")
    assert places(page) != before
    page.keyboard.press("0")
    page.get_by_role("button", name="Help and keys").press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).not_to_be_visible()


@pytest.mark.long
def test_mouse_selects_a_bubble_and_shows_a_link(open_page: Open) -> None:
    page = open_page(of(TIDE))
    stage = page.locator("#map")
    at = places(page)
    stage.click(position={"x": at[TEAM][0], "y": at[TEAM][1]})
    expect(card_of(page)).to_contain_text("123,456,789.000000000000000001")
    (x1, y1), (x2, y2) = at[TEAM], at[MAGIC]
    page.keyboard.press("Escape")
    tips = []
    for part in range(40):  # bubbles cover parts of the line
        stage.hover(position={"x": x1 + (x2 - x1) * part / 40, "y": y1 + (y2 - y1) * part / 40})
        tips += page.locator(".tip").all_inner_texts()
    assert any("900 TIDE in 3 transfers" in tip for tip in tips), tips


@pytest.mark.long
def test_cluster_shows_its_members_and_evidence(open_page: Open) -> None:
    page = open_page(of(TIDE, "&tab=clusters"))
    page.get_by_role("button", name="Cluster 1").click()
    card = card_of(page)
    expect(card).to_contain_text("3 holders hold 11.0% of the supply")
    evidence = card.get_by_role("table", name="What connects the members of cluster 1")
    expect(evidence.get_by_role("row")).to_have_count(4)
    expect(evidence).to_contain_text("900 TIDE")
    assert "cluster=1" in page.url
    expect(card.locator(".why")).to_contain_text(
        "The wallet 0x5555…5555 links 3 holders: it got 900 TIDE from Tide: Team "
        "and sent 900 TIDE to 2 holders in 7 transfers, the last on 1 Jun 2026"
    )
    expect(page.locator(".finding")).to_contain_text(
        "3 wallets together hold 11.0%, if Tide: Team is one of them (without it 1.97%), "
        "2 of them funded by one wallet from 1 Jan to 1 Jun 2026"
    )
    expect(card.locator(".why").get_by_role("link")).to_have_attribute("href", f"https://scan.example/tx/0x{0:064x}")


@pytest.mark.long
def test_cluster_of_a_time_node_shows_its_evidence(open_page: Open) -> None:
    page = open_page(of(HAIRBALL, "&tab=clusters&cluster=2"))
    card = card_of(page)
    expect(card.locator(".why")).to_contain_text(
        "2 holders used 0x6666…6666 at the same time: it sent 60 HAIR to 2 holders"
    )
    expect(card).to_contain_text("2 links, 4 transfers")
    expect(page.get_by_role("tabpanel")).to_contain_text("2 holders used 0x6666…6666 at the same time")
    assert lit(page) == {f"{EXCHANGE}#1", *(numbered(20_000 + each) for each in (280, 281))}


@pytest.mark.long
def test_members_of_a_cluster_are_near_and_neighbours_differ_in_colour(open_page: Open) -> None:
    page = open_page(of(CROWD))
    drawn = {one["id"]: one for one in page.evaluate(BUBBLES)}
    at = {one: bubble["world"] for one, bubble in drawn.items()}
    listed = [one for one, _ in sorted(drawn.items(), key=lambda one: -one[1]["radius"])]
    groups = [[one for one in listed if drawn[one]["fill"] == fill] for fill in {one["fill"] for one in drawn.values()}]
    alone = max(groups, key=len)
    room = 3 + 2  # the tint of a member, and the gap between two bubbles
    assert len(groups) == 9  # eight colours, of which one is used twice, and holders on their own
    for members in (group for group in groups if group is not alone and len(group) == 40):
        middle = [sum(at[one][axis] for one in members) / 40 for axis in (0, 1)]
        packed = math.sqrt(sum((at[one][2] + room) ** 2 for one in members) / 0.5)
        assert max(math.dist(at[one][:2], middle) for one in members) < 1.2 * packed
    for members in (group for group in groups if group is not alone and len(group) == 80):
        cluster = _reached(members, at, 30)
        assert len(cluster) == 40, "two clusters of one colour are neighbours"


def _reached(members: list[str], at: dict[str, tuple[float, float, float]], gap: float) -> set[str]:
    """Return the members that are reached from the first one by steps over less than a gap."""
    reached, front = {members[0]}, [members[0]]
    while front:
        here = front.pop()
        near = [
            one
            for one in members
            if one not in reached and math.dist(at[one][:2], at[here][:2]) < at[one][2] + at[here][2] + gap
        ]
        reached.update(near)
        front += near
    return reached


@pytest.mark.long
def test_cluster_stays_selected_when_its_number_changes(open_page: Open) -> None:
    page = open_page(of(TIDE, "&at=20260201T000000Z&cluster=1"))
    page.get_by_role("button", name="Next date").click()
    settled(page, "20260301")
    card = card_of(page)
    expect(card.get_by_role("heading", name="Cluster 2")).to_be_visible()
    expect(card).to_contain_text("Tide: Team")
    assert "cluster=2" in page.url


@pytest.mark.long
def test_magic_and_time_nodes_differ_and_exchanges_are_listed_below(open_page: Open) -> None:
    page = open_page(of(TIDE, f"&node={MAGIC}"))
    expect(card_of(page)).to_contain_text("Wallet that links holders")
    drawn = places(page)
    assert f"{EXCHANGE}#1" in drawn
    assert EXCHANGE not in drawn
    excluded = page.get_by_role("region", name="Not drawn")
    expect(excluded).to_contain_text("exchanges, pools, 30.0% of the supply")
    assert excluded.get_by_role("listitem").all_inner_texts() == ["Bourse exchange 20.0%", "0x7777…7777 pool 10.0%"]
    page.locator("#map").click(position={"x": drawn[f"{EXCHANGE}#1"][0], "y": drawn[f"{EXCHANGE}#1"][1]})
    expect(page.get_by_role("status")).to_contain_text("Time window 1 of Bourse")


@pytest.mark.long
def test_large_cluster_opens_with_its_largest_members_and_strongest_links(open_page: Open) -> None:
    page = open_page(of(HAIRBALL))
    drawn = set(places(page))
    assert {numbered(20_000 + each) for each in range(60)} <= drawn
    assert numbered(20_100) not in drawn
    box = page.get_by_label(re.compile("all lines and members"))
    expect(page.get_by_label("What the map shows")).to_contain_text("213 smaller members")
    page.get_by_role("tabpanel").get_by_label("Search holders").fill(numbered(20_100))
    page.get_by_role("tabpanel").locator("tbody").get_by_role("button").first.click()
    page.wait_for_function(
        f"() => document.getElementById('map').bubbles().some((one) => one.id === '{numbered(20_100)}')"
    )
    page.keyboard.press("Escape")
    box.check()
    shows(page, 321)
    assert "all=" in page.url
    page = open_page(of(CROWD))
    expect(page.get_by_label("What the map shows")).to_contain_text(re.compile("4,[0-9]{3} weaker lines"))


@pytest.mark.long
def test_links_are_filtered_on_the_map_and_in_the_tables(open_page: Open) -> None:
    page = open_page(of(TIDE, "&tab=links"))
    panel = page.get_by_role("tabpanel")
    panel.get_by_text("Filter links").click()
    for label, value, left in (
        ("Transfers, at least", "3", 1),
        ("Amount, at least", "450", 1),
        ("Transfers, at least", "", 2),
    ):
        panel.get_by_label(label).fill(value)
        panel.get_by_label(label).press("Tab")
        expect(panel.get_by_text(f"{left} of 6", exact=True)).to_be_visible()
    panel.get_by_role("button", name="Clear the filter").click()
    expect(panel.get_by_text("6 links", exact=True)).to_be_visible()
    panel.get_by_label("Kind").select_option("other tokens")
    expect(panel.get_by_text("3 of 6", exact=True)).to_be_visible()
    panel.get_by_label("Kind").select_option("all tokens")
    panel.get_by_label("Since").fill("2026-12-01")
    expect(panel.get_by_text("0 of 6", exact=True)).to_be_visible()
    drawing = ElementTree.fromstring(saved(page, "SVG"))
    drawn = drawing.iter("{http://www.w3.org/2000/svg}line")
    assert {line.get("stroke-opacity") for line in drawn} <= {"1"}  # those that lead to names
    page = open_page(of(TIDE, f"&tab=links&node={MAGIC}&side=in"))
    card = card_of(page)
    expect(card.get_by_role("table", name="Links of the selected node").get_by_role("row")).to_have_count(2)
    expect(card).to_contain_text("Got 900 in 3 transfers, sent 0 in 0 transfers")


@pytest.mark.long
def test_path_between_two_wallets_is_found(open_page: Open) -> None:
    page = open_page(of(TIDE, f"&node={TEAM}"))
    card = card_of(page)
    card.get_by_text("Path to another wallet").click()
    box = card.get_by_label("Label or address of the other wallet")
    box.fill("00000002")  # a part of the address
    box.press("Enter")
    expect(card.get_by_role("table", name="Path of 2 steps").get_by_role("row")).to_have_count(3)
    assert lit(page) == {TEAM, MAGIC, numbered(2)}
    box.fill(WHALE)
    box.press("Enter")
    expect(card).to_contain_text("No links of this map connect the two.")
    box.fill("unheard of")
    box.press("Enter")
    expect(card).to_contain_text("No node of this map has this label or address.")


@pytest.mark.long
def test_counterparties_of_a_wallet_are_added_to_the_map(open_page: Open) -> None:
    page = open_page(of(TIDE, f"&node={WHALE}"))
    before = set(places(page))
    page.get_by_role("button", name="Add 1 counterparty to the map").click()
    shows(page, len(before) + 1)
    assert set(places(page)) - before == {STRANGER}
    expect(page.get_by_role("button", name=re.compile("Add 1 counterparty"))).to_have_count(0)


@pytest.mark.long
def test_card_shows_what_a_wallet_got_and_sent_by_month(open_page: Open) -> None:
    page = open_page(of(TIDE, f"&node={TEAM}"))
    card = card_of(page)
    card.get_by_text("In and out by month").click()
    months = card.get_by_role("table", name="Got and sent in each month").get_by_role("row")
    expect(months).to_have_count(3)
    expect(months.nth(1)).to_have_text("Jun 2026\u2013300 in 1 transfer")
    expect(months.nth(2)).to_have_text("May 2026\u2013600 in 2 transfers")


@pytest.mark.long
@pytest.mark.parametrize("text", ["tide: team", TEAM[:14], TEAM[-12:], f"{TEAM[:6]}…{TEAM[-4:]}"])
def test_wallet_is_found_by_its_label_or_a_part_of_its_address(open_page: Open, text: str) -> None:
    page = open_page(of(CROWD))
    page.get_by_role("combobox", name="Token").fill(text)
    found = page.get_by_role("listbox").get_by_role("option").filter(has_text="Tide: Team holds 9.00%")
    expect(found).to_have_count(1)
    page.keyboard.press("Enter")
    settled(page, "20260601")
    expect(card_of(page)).to_contain_text("Tide: Team")


@pytest.mark.integration
def test_wallets_of_one_owner_are_one_bubble_by_choice(open_page: Open) -> None:
    page = open_page(of(OWNED))
    by_wallet = world(page)
    page.get_by_label("holders by owner").check()
    shows(page, len(by_wallet) - 2)
    by_owner = world(page)
    owner = by_owner.keys() & {*WALLETS}
    together = sum(AMOUNTS[one] for one in WALLETS) / 1_000
    assert by_owner[owner.pop()][2] == pytest.approx(120 * math.sqrt(together))
    assert by_owner.keys() - {*WALLETS} == by_wallet.keys() - {*WALLETS}


@pytest.mark.long
def test_card_of_an_owner_lists_its_wallets_with_their_confidence(open_page: Open) -> None:
    page = open_page(of(OWNED, f"&owners=&node={WALLETS[2]}"))
    card = card_of(page)
    expect(card.get_by_role("heading", level=2)).to_have_text("One owner, 4 wallets")
    expect(card).to_contain_text("18.0% of the supply")
    wallets = card.get_by_role("table").first.get_by_role("row")
    expect(wallets).to_have_count(1 + len(WALLETS))
    for row, wallet, share in zip(wallets.all()[1:], WALLETS, ("6.00%", "5.00%", "4.00%", "3.00%"), strict=True):
        expect(row.get_by_title(wallet).first).to_be_visible()
        expect(row).to_contain_text(share)
        expect(row).to_contain_text(re.compile(r"paid in one transaction, .*act in the same minutes\s*\d\d%"))
    expect(card.get_by_role("table").last.get_by_role("row")).to_have_count(
        2
    )  # the link between its wallets is left out


@pytest.mark.long
def test_concentration_is_given_by_wallet_and_by_owner(open_page: Open) -> None:
    page = open_page(of(OWNED, "&owners="))
    figures = page.get_by_role("table", name="By wallet and by owner").get_by_role("row")
    wallets = sorted(AMOUNTS.values(), reverse=True)
    owned = [AMOUNTS[one] for one in WALLETS]
    owners = sorted([*(amount for amount in wallets if amount not in owned), sum(owned)], reverse=True)
    expect(figures.nth(0)).to_have_text("By walletBy certain ownerBy owner")
    for row, called, figure in (
        (1, "Holders", len),
        (2, "Top 10 holders", lambda amounts: f"{sum(amounts[:10]) / 10:.1f}%"),
        (5, "Nakamoto", lambda amounts: next(n for n in range(20) if sum(amounts[:n]) >= 500)),
    ):
        expect(figures.nth(row)).to_have_text(f"{called}{figure(wallets)}{figure(owners)}{figure(owners)}")


@pytest.mark.long
def test_holders_by_owner_are_not_offered_without_a_search(open_page: Open) -> None:
    page = open_page(of(CROWD, "&owners="))
    expect(page.get_by_label("holders by owner")).to_have_count(0)
    assert len(page.evaluate(BUBBLES)) == 500


def test_a_clusters_tint_reaches_no_other_bubble(open_page: Open) -> None:
    """A bubble on the tint would look like a member."""
    tint, alone = 3, "#c3cad1"
    bubbles = open_page(of(CROWD)).evaluate(BUBBLES)
    members = [bubble for bubble in bubbles if bubble["fill"] != alone]
    assert members
    for member in members:
        x, y, radius = member["world"]
        others = (bubble["world"] for bubble in bubbles if bubble["fill"] != member["fill"])
        assert all(math.dist((x, y), other[:2]) > radius + tint + other[2] - 0.5 for other in others)


@pytest.mark.long
def test_holders_are_searched_and_sorted(open_page: Open) -> None:
    page = open_page(of(TIDE))
    rows = page.get_by_role("tabpanel").locator("tbody tr")
    page.get_by_role("button", name="Share").click()
    page.get_by_role("button", name="Share").click()
    expect(page.get_by_role("columnheader", name="Share")).to_have_attribute("aria-sort", "descending")
    expect(rows.first).to_contain_text("0x5555…5555")
    page.get_by_label("Search holders").fill(WHALE.upper().replace("X", "x"))
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("7.00%")
    page.get_by_label("Search holders").fill("nobody's")
    expect(rows).to_have_count(0)


@pytest.mark.long
def test_charts_show_concentration_and_lead_to_a_date(open_page: Open) -> None:
    page = open_page(of(TIDE, "&tab=concentration"))
    expect(page.locator(".chart canvas")).to_have_count(4)
    page.locator(".chart .u-over").first.click(position={"x": 2, "y": 40})
    settled(page, "20260101")
    page.get_by_text("All numbers as a table").click()
    expect(page.get_by_role("row", name=re.compile("1 Jan 2026 40 "))).to_be_visible()


@pytest.mark.long
def test_500_holders_with_5000_links_are_drawn_at_each_date_and_zoomed(open_page: Open) -> None:
    page = open_page(of(CROWD, "&tab=links"))
    expect(page.get_by_role("tabpanel")).to_contain_text("5,000 links")
    first = places(page)
    page.get_by_role("button", name="Previous date").click()
    settled(page, "20260501")
    second = places(page)
    assert len(second) == 500
    assert len({*first} & {*second}) >= 475
    page.locator("#map").hover(position={"x": 300, "y": 200})
    page.mouse.wheel(0, -400)
    assert places(page) != second


@pytest.mark.long
def test_plays_of_a_history_keep_no_memory(open_page: Open) -> None:
    page = open_page(of(CROWD))
    page.get_by_label("Dates a second").select_option("30")
    chromium = page.context.new_cdp_session(page)
    megabytes = []
    for _ in range(3):
        for _ in range(4):
            page.get_by_role("slider", name="Date").press("Home")
            settled(page, "20260101")
            page.get_by_role("button", name="Play the history").click()
            settled(page, "20260601")
        chromium.send("HeapProfiler.collectGarbage")
        megabytes.append(chromium.send("Runtime.getHeapUsage")["usedSize"] / 1e6)
    assert megabytes[2] < megabytes[0] + 2  # a map of 5,000 links takes three megabytes


@pytest.mark.long
def test_hostile_names_and_labels_do_no_harm(open_page: Open) -> None:
    page = open_page(of(HOSTILE, "&cluster=1&with=20260101T000000Z"), **PHONE)
    for tab in ("Clusters", "Links", "Charts", "Compare", "Holders"):
        page.get_by_role("tab", name=tab).click()
        assert page.evaluate("() => [window.harmed ?? null, document.scripts.length]") == [None, 2]
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    page = open_page(of(HOSTILE))
    expect(page.get_by_role("tabpanel")).to_contain_text("<script>window.harmed")
    for number in range(len(HOSTILE_LABELS)):
        page.get_by_role("tabpanel").locator("tbody tr").nth(number).get_by_role("button").first.click()
    expect(card_of(page)).to_contain_text("Holder")
    page.get_by_role("combobox", name="Token").fill("<script>")
    expect(page.get_by_role("listbox").get_by_role("option")).to_have_count(1)
    assert page.evaluate("() => [window.harmed ?? null, document.images.length]") == [None, 2]
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.integration
@pytest.mark.parametrize(
    ("query", "said"),
    [
        (of(MAPLESS), "No one holds it at 1 Jun 2026"),
        pytest.param(of("<b>0xnowhere"), "This token is not in the warehouse", marks=pytest.mark.long),
        pytest.param(of(TIDE, "&at=once"), "", marks=pytest.mark.long),
    ],
)
def test_missing_data_is_shown_with_the_remedy(open_page: Open, query: str, said: str) -> None:
    page = open_page(query, drawn=not said)
    if said:
        expect(page.get_by_role("alert")).to_contain_text(said)
    else:
        expect(page.locator(".when")).to_contain_text("1 Jun 2026")


@pytest.mark.integration
@pytest.mark.parametrize(
    ("view", "options"),
    [
        ("&tab=compare&with=20260101T000000Z", {}),
        pytest.param("&cluster=1", {"color_scheme": "dark"}, marks=pytest.mark.long),
        pytest.param("&tab=concentration", PHONE, marks=pytest.mark.long),
    ],
    ids=["light", "dark", "phone"],
)
def test_page_breaks_no_accessibility_rule(open_page: Open, view: str, options: dict[str, Any]) -> None:
    page = open_page(of(TIDE, view), **options)
    page.evaluate((built_with() / "axe-core" / "axe.min.js").read_text())
    broken = page.evaluate("async () => (await axe.run()).violations.map(v => [v.id, v.nodes.map(n => n.html)])")
    assert broken == []


@pytest.mark.long
def test_phone_shows_all_controls_in_one_column_and_accepts_touch(open_page: Open) -> None:
    page = open_page(of(TIDE), **PHONE)
    assert page.evaluate("() => document.documentElement.scrollWidth") == 390
    for name in ("Previous date", "Zoom into the time around this date", "Copy link", "Help and keys"):
        expect(page.get_by_role("button", name=name)).to_be_visible()
    expect(page.get_by_text("Save", exact=True)).to_be_in_viewport(ratio=1)
    tops = [box_of(page.locator(one))["y"] for one in (".map", ".time", ".excluded", ".side")]
    assert tops == sorted(tops)
    x, y = places(page)[TEAM]
    page.locator("#map").tap(position={"x": x, "y": y})
    expect(card_of(page)).to_contain_text("Tide: Team")


@pytest.mark.long
def test_phone_shows_cards_complete_and_in_view_next_to_the_map(open_page: Open) -> None:
    page = open_page(of(TIDE, "&tab=clusters"), **PHONE)
    page.get_by_role("button", name="Cluster 1").tap()
    card = card_of(page)
    box = box_of(card)
    assert (box["x"], box["width"], box["y"] + box["height"]) == (0, 390, 844)
    assert box["y"] > 844 * 0.4
    last = card.get_by_role("row").last
    last.scroll_into_view_if_needed()
    expect(last).to_be_in_viewport(ratio=1)
    assert card.evaluate("card => card.scrollWidth <= card.clientWidth")
    card.get_by_role("button", name="End the selection").tap()
    expect(card).to_have_count(0)


@pytest.mark.long
def test_phone_keeps_a_tapped_bubble_in_view(open_page: Open) -> None:
    page = open_page(of(TIDE), **PHONE)
    [low] = sorted(page.evaluate(BUBBLES), key=lambda one: one["y"])[-1:]
    page.locator("#map").tap(position={"x": low["x"], "y": low["y"]})
    card = card_of(page)
    expect(card).to_be_visible()
    page.wait_for_function(
        """id => {
            const bubble = document.getElementById("map").bubbles().find((one) => one.id === id);
            const top = document.getElementById("map").getBoundingClientRect().top;
            return top + bubble.y + bubble.radius < document.querySelector(".card").getBoundingClientRect().top;
        }""",
        arg=low["id"],
    )


@pytest.mark.long
@pytest.mark.parametrize("size", [(844, 390), (640, 360)], ids=["landscape", "200 percent"])
def test_short_screen_shows_card_and_map_next_to_each_other(open_page: Open, size: tuple[int, int]) -> None:
    page = open_page(of(TIDE, "&cluster=1"), viewport={"width": size[0], "height": size[1]})
    card = card_of(page)
    stage, box = box_of(page.locator("#map")), box_of(card)
    assert stage["x"] + stage["width"] <= box["x"]
    assert stage["height"] > 0.55 * size[1]
    expect(page.get_by_role("slider", name="Date")).to_be_in_viewport(ratio=1)
    expect(card.get_by_text("Why together")).to_be_in_viewport(ratio=1)


@pytest.mark.long
@pytest.mark.parametrize(
    "size", [(320, 640), (640, 360), (390, 844), (844, 390), (960, 700), (1_280, 720), (1_440, 900)]
)
def test_tables_fit_every_width(open_page: Open, size: tuple[int, int]) -> None:
    for token, more in ((TIDE, "&cluster=1"), (HOSTILE, "&cluster=1&with=20260101T000000Z")):
        page = open_page(of(token, more), viewport={"width": size[0], "height": size[1]})
        assert page.get_by_role("tablist").evaluate("tabs => tabs.scrollWidth <= tabs.clientWidth")
        for tab in ("Clusters", "Links", "Compare", "Holders"):
            page.get_by_role("tab", name=tab).click()
            wide = "() => [...document.querySelectorAll('.side table')].filter((table) => table.clientWidth > 0)"
            assert page.evaluate(f"{wide}.every((table) => table.scrollWidth <= table.parentElement.clientWidth)")
            assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.long
def test_map_takes_most_of_a_small_screen_beside_the_tables(open_page: Open) -> None:
    box = box_of(open_page(of(TIDE), viewport={"width": 1_280, "height": 720}).locator("#map"))
    assert box["width"] * box["height"] >= 0.37 * 1_280 * 720  # all of it is free: the legend is below it


@pytest.mark.long
def test_dark_mode_follows_the_system_until_changed(open_page: Open) -> None:
    page = open_page(of(TIDE), color_scheme="dark")
    ground = "() => getComputedStyle(document.documentElement).backgroundColor"
    assert page.evaluate(ground) == "rgb(20, 23, 27)"
    page.get_by_role("button", name="Colours: Auto").click()
    assert page.evaluate(ground) == "rgb(251, 251, 249)"
    page.reload()
    assert page.evaluate(ground) == "rgb(251, 251, 249)"


@pytest.mark.long
def test_print_is_light_with_map_card_and_table_but_no_controls(open_page: Open) -> None:
    page = open_page(of(TIDE, f"&node={TEAM}"), color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    for control in ("slider", "combobox", "tablist"):
        expect(page.get_by_role(control, include_hidden=True).first).not_to_be_visible()
    expect(card_of(page)).to_be_visible()
    expect(page.get_by_role("table", name="Holders at")).to_be_visible()
    expect(page.get_by_text("1 Jun 2026", exact=True).first).to_be_visible()
    assert {one["fill"] for one in page.evaluate(BUBBLES)} >= {"#c3cad1"}
    assert page.evaluate("getComputedStyle(document.querySelector('h1')).color") == "rgb(28, 33, 39)"
    count = "() => ['.links', '.bubbles'].map((one) => document.querySelector(one).checkVisibility())"
    assert page.evaluate(count) == [False, True]  # browsers print one of two canvases, so one has all


def test_print_has_the_full_address_and_says_how_many_rows_it_lacks(open_page: Open) -> None:
    page = open_page(of(CROWD))
    page.emulate_media(media="print")
    expect(page.get_by_text(CROWD, exact=True)).to_be_visible()
    listed = page.get_by_role("table", name="Holders at").locator("tbody tr")
    more = listed.last.inner_text()
    assert more == f"and {500 - (listed.count() - 1)} more"


class _Framing(SimpleHTTPRequestHandler):
    """Answers each request with a page that shows the explorer in a frame."""

    explorer = ""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(f'<iframe src="{self.explorer}" width="900" height="600"></iframe>'.encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.mark.long
def test_page_is_shown_in_frames_of_the_named_sites_only(browser: Browser, tmp_path: Path) -> None:
    fill(tmp_path)
    with (
        LoopbackServer(_Framing) as site,
        LoopbackServer(_Framing) as other_site,
        exploring(tmp_path, HOLDERLAKE_EXPLORER__EMBED_IN=f'["{site.url}"]') as address,
    ):
        _Framing.explorer = f"{address}/{of(TIDE)}"
        page = new_page(browser)
        page.goto(site.url)
        expect(page.frame_locator("iframe").get_by_role("heading", level=1)).to_contain_text("Tide Pool")
        with page.expect_event("console", lambda message: "frame-ancestors" in message.text):
            page.goto(other_site.url)
        page.close()


@pytest.mark.long
def test_names_are_given_in_the_card_and_stored_as_labels(browser: Browser, tmp_path: Path) -> None:
    warehouse = fill(tmp_path)
    with exploring(tmp_path, "--edit") as address:
        page = new_page(browser)
        page.goto(f"{address}/{of(TIDE, f'&node={WHALE}')}")
        card = card_of(page)
        for name, heading in (("Captain", "Captain"), ("Ahab <b>", "Ahab <b>"), ("", "Holder")):
            if not card.get_by_label("Name of the wallet").is_visible():
                card.locator("summary", has_text=re.compile("Give a name|Rename")).click()
            card.get_by_label("Name of the wallet").fill(name)
            card.get_by_role("button", name="Store").click()
            expect(card.get_by_role("heading", level=2)).to_have_text(heading)
            rows = warehouse.query("SELECT label FROM stored_labels WHERE address = ?", [WHALE]).to_pylist()
            assert {row["label"] for row in rows} == {name or None}
            if name:
                page.get_by_role("combobox", name="Token").fill(name)
                found = page.get_by_role("option").first
                expect(found).to_contain_text(f"{heading} holds 7.00%")
                page.get_by_role("combobox", name="Token").press("Escape")
        page.close()


LABELS = "() => document.getElementById('map').labels()"
NAMES = "() => document.getElementById('map').labels().map(({ text }) => text)"


@pytest.mark.long
def test_names_beside_bubbles_are_placed_again_after_a_zoom(open_page: Open) -> None:
    page = open_page(of(CROWD))
    before = page.evaluate(NAMES)
    for _ in range(4):
        page.get_by_role("button", name="Zoom in", exact=True).click()
    page.wait_for_function(
        "before => document.getElementById('map').labels().map(({ text }) => text).join() !== before",
        arg=",".join(before),
    )


@pytest.mark.long
def test_colours_of_changes_are_not_those_of_clusters(open_page: Open) -> None:
    def fills(page: Page) -> dict[str, str]:
        return {one["id"]: one["fill"] for one in page.evaluate(BUBBLES)}

    page = open_page(of(TIDE, "&with=20260101T000000Z"))
    clusters = set(fills(page).values())
    page.get_by_role("tab", name="Compare").click()
    expect(page.get_by_label("What the colours mean")).to_contain_text("grew")
    changed = fills(page)
    assert changed[WHALE] != changed[NEWCOMER]
    assert not {changed[WHALE], changed[NEWCOMER]} & clusters
    drawing = ElementTree.fromstring(saved(page, "SVG"))
    dots = [one.get("fill") for one in drawing.iter("{http://www.w3.org/2000/svg}circle") if one.get("r") == "6.5"]
    assert clusters - {changed[WHALE], changed[NEWCOMER]} and len(set(dots)) == 4  # entered, grew, shrank, as before


@pytest.mark.long
@pytest.mark.parametrize("wide", [320, 390, 768, 1280, 1920])
def test_parts_of_the_legend_and_the_figures_do_not_touch(open_page: Open, wide: int) -> None:
    page = open_page(of(TIDE), viewport={"width": wide, "height": 800})
    parts = [box_of(one) for one in page.locator(".map-legend li:not(.sizes), .sizes > *").all()]
    for one, two in combinations(parts, 2):
        if one["y"] < two["y"] + two["height"] and two["y"] < one["y"] + one["height"]:
            assert one["x"] + one["width"] + 3 < two["x"] or two["x"] + two["width"] + 3 < one["x"]
    bars = [box_of(one) for one in page.locator(".figures .bar").all()]
    assert len({one["width"] for one in bars}) == 1


@pytest.mark.long
def test_search_for_too_few_letters_of_an_address_asks_for_more(open_page: Open) -> None:
    page = open_page(of(TIDE))
    page.get_by_role("combobox", name="Token").fill("0x")
    expect(page.get_by_role("listbox")).to_contain_text("Type at least 4 characters")
    page.get_by_role("combobox", name="Token").fill(WHALE[:8])
    expect(page.get_by_role("listbox")).not_to_contain_text("Type at least")


@pytest.mark.long
def test_token_without_a_name_shows_how_to_name_it(open_page: Open) -> None:
    page = open_page(of(LONE))
    page.get_by_text("Name this token").click()
    expect(page.get_by_text("holderlake import files tokens.json")).to_be_visible()
    expect(open_page(of(TIDE)).get_by_text("Name this token")).to_have_count(0)


@pytest.mark.long
def test_buttons_are_below_a_map_of_320_pixels(open_page: Open) -> None:
    page = open_page(of(TIDE), viewport={"width": 320, "height": 640})
    canvas, button = (box_of(page.locator(one)) for one in ("#map", ".zoom"))
    assert canvas["y"] + canvas["height"] <= button["y"]


@pytest.mark.long
def test_figures_that_do_not_fit_can_be_scrolled_to(open_page: Open) -> None:
    page = open_page(of(TIDE), viewport={"width": 720, "height": 450})
    last = page.locator(".figures div").last
    last.scroll_into_view_if_needed()
    expect(last).to_be_in_viewport(ratio=0.9)


@pytest.mark.long
def test_dates_to_compare_are_in_one_column_of_a_narrow_page(open_page: Open) -> None:
    page = open_page(of(TIDE, "&tab=compare"), viewport={"width": 320, "height": 640})
    before, after = (box_of(page.locator(one)) for one in ("#before", "#after"))
    assert before["y"] + before["height"] <= after["y"]


@pytest.mark.long
def test_warning_is_one_line_that_unfolds(open_page: Open) -> None:
    note = open_page(of(HOSTILE)).get_by_role("note")
    expect(note.get_by_text("looks the same")).to_be_hidden()
    note.get_by_text("end on 1 Jan 2026").click()
    expect(note.get_by_text("looks the same")).to_be_visible()


@pytest.mark.long
def test_name_of_a_holder_has_the_free_width_of_the_table(open_page: Open) -> None:
    panel = open_page(of(TIDE)).get_by_role("tabpanel")
    names = panel.locator("tbody .holder .cut").all()
    assert names
    for name in names:
        assert name.evaluate("one => one.scrollWidth <= one.clientWidth + 1")


Maps = tuple[str, dict[tuple[str, str], str]]
SIZES = [(1920, 1080), (1280, 760), (768, 1024), (390, 844), (320, 640)]


@pytest.fixture(scope="module")
def known_maps(sample_folder: Path, shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Maps]:
    """Serve three maps of each token of the sample world, and of three real histories with real names.

    Yield the address, and the sentence in the picture of each token's newest map.
    """
    chromium()
    home = tmp_path_factory.mktemp("maps")
    files = [str(shared_data / "transfers" / f"{name}.parquet") for name in ("helios_eth", "quidd_bsc", "mooncats_eth")]
    labels = [str(shared_data / "labels" / name) for name in ("helios_labels.json", "eth_labels_accounts.csv.gz")]
    for what, paths in (("files", files), ("labels", labels)):
        done = holderlake("import", what, *paths, env=os.environ | {"HOLDERLAKE_HOME": str(home)})
        assert done.returncode == 0, done.stderr
    lake, tokens = Lake(home / "lake"), {}
    for folder in (sample_folder, home / "engine"):
        with Store(folder) as store:
            for history in store.histories():
                chain, token = history.chain, history.token_address
                try:
                    for part in (3, 2, 1):
                        at = from_unix(history.first_time + (history.last_time - history.first_time) // part)
                        tables = map_as_of(store, chain, token, at, MapOptions(), at)
                        stamped = {name: with_fetched_at(TABLES[name], rows, LATEST) for name, rows in tables.items()}
                        write(lake, "maps", chain, at, stamped, {token})
                except EngineError:  # it has no holders, or no map
                    continue
                tokens[chain, token] = " ".join(finding_of(tables, at)).strip()
    Warehouse(home / "warehouse.duckdb").load(lake)
    assert len(tokens) > 15
    with exploring(home) as address:
        yield address, tokens


def opened(browser: Browser, known_maps: Maps, more: str = "") -> Iterator[tuple[Page, tuple[str, str]]]:
    """Open the newest map of each token, one after the other, in one page."""
    address, tokens = known_maps
    page = new_page(browser)
    for chain, token in tokens:
        page.goto(f"{address}/?chain={chain}&token={token}{more}")
        settled(page)
        yield page, (chain, token)
    page.context.close()


@pytest.mark.long
def test_picture_has_the_sentence_of_the_page_without_its_trend(browser: Browser, known_maps: Maps) -> None:
    for page, token in opened(browser, known_maps):
        sentence = known_maps[1][token]
        shown = page.locator(".finding").inner_text() if sentence else ""
        assert re.sub(r"; largest cluster (up|down) from \S+ on [^.]*", "", shown).split() == sentence.split()


@pytest.mark.long
def test_a_name_is_far_from_other_bubbles_or_has_a_line_that_crosses_none(browser: Browser, known_maps: Maps) -> None:
    named = 0
    for page, token in opened(browser, known_maps):
        for wide, high in SIZES:
            page.set_viewport_size({"width": wide, "height": high})
            page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            bubbles = {one["id"]: one for one in page.evaluate(BUBBLES)}
            labels = page.evaluate(LABELS)
            named += len(labels)
            for label in labels:
                others = [one for one in bubbles.values() if one["id"] != label["id"]]
                own = _away(label["box"], bubbles[label["id"]])
                assert all(_away(label["box"], one) > 10 for one in others), (token, wide, label)
                assert own < 5 or label["leader"], (token, wide, label)
                lines = [one["box"] for one in labels if one is not label]
                beside = [box for box in lines if box[1] < label["box"][3] and label["box"][1] < box[3]]
                assert all(box[0] - label["box"][2] > 12 or label["box"][0] - box[2] > 12 for box in beside), label
                if label["leader"]:
                    assert all(_from_line(label["leader"], one) > 1 for one in others), (token, wide, label)
            boxes = [label["box"] for label in labels]
            assert not any(
                one[0] < two[2] and one[2] > two[0] and one[1] < two[3] and one[3] > two[1]
                for one, two in combinations(boxes, 2)
            )
            lines = [label["leader"] for label in labels if label["leader"]]
            assert not any(_cross(one, two) and _cross(two, one) for one, two in combinations(lines, 2))
    assert named > 2 * len(known_maps[1])


def _from_line(line: list[float], bubble: dict[str, Any]) -> float:
    """Return the distance of a line from the rim of a bubble."""
    start, end = complex(*line[:2]), complex(*line[2:])
    centre, way = complex(bubble["x"], bubble["y"]), end - start
    along = ((centre - start) * way.conjugate()).real / (abs(way) ** 2 or 1)
    return abs(start + min(1.0, max(0.0, along)) * way - centre) - float(bubble["radius"])


@pytest.mark.long
def test_no_arrow_is_below_a_bubble_and_up_to_eight_clusters_differ_in_colour(
    browser: Browser, known_maps: Maps, tmp_path: Path
) -> None:
    arrows = 0
    for page, token in opened(browser, known_maps, "&tab=clusters"):
        page.locator(".save summary").click()
        with page.expect_download() as download:
            page.get_by_role("button", name="SVG").click()
        download.value.save_as(tmp_path / "map.svg")
        shapes = list(ElementTree.parse(tmp_path / "map.svg").iter())
        discs = [
            [float(one.get(name, "0")) for name in ("cx", "cy", "r")]
            for one in shapes
            if one.tag.endswith("circle") and one.get("stroke") and float(one.get("cx", "0")) < 1_044
        ]
        for shape in (one for one in shapes if one.tag.endswith("polygon")):
            corners = [[float(part) for part in point.split(",")] for point in shape.get("points", "").split()]
            if len(corners) == 3 and corners[0][0] < 1_044:  # an arrow within the map
                arrows += 1
                middle = [sum(axis) / 3 for axis in zip(*corners, strict=True)]
                assert all(math.dist(middle, disc[:2]) > disc[2] for disc in discs), (token, corners)
        for _ in range(3):
            fills = {one["fill"] for one in page.evaluate(BUBBLES)} - {"#c3cad1"}
            assert len(fills) == min(8, page.locator("[role=tabpanel] .why-head").count()), token
            back = page.get_by_role("button", name="Previous date")
            if back.is_enabled():
                before = page.locator(".map").get_attribute("data-at")
                back.click()
                page.wait_for_selector(f".map[data-at][aria-busy=false]:not([data-at='{before}'])")
    assert arrows > 100


def _cross(line: list[float], other: list[float]) -> bool:
    """Return whether the ends of the other line are on different sides of a line."""
    left, top, right, bottom = line
    sides = [(right - left) * (y - top) > (bottom - top) * (x - left) for x, y in (other[:2], other[2:])]
    return sides[0] != sides[1]


def _away(box: list[float], bubble: dict[str, Any]) -> float:
    """Return the distance of a box from the rim of a bubble."""
    nearest = (min(max(bubble["x"], box[0]), box[2]), min(max(bubble["y"], box[1]), box[3]))
    return math.dist((bubble["x"], bubble["y"]), nearest) - float(bubble["radius"])


@pytest.mark.long
def test_pointing_at_a_bubble_lights_its_cluster_with_a_tip_next_to_it(open_page: Open) -> None:
    page = open_page(of(TIDE))
    x, y = places(page)[TEAM]
    map_box = box_of(page.locator("#map"))
    page.mouse.move(map_box["x"] + x, map_box["y"] + y)
    assert lit(page) == {TEAM, MAGIC, numbered(1), numbered(2)}
    tip = box_of(page.locator(".tip"))
    bubble = next(one for one in page.evaluate(BUBBLES) if one["id"] == TEAM)
    corners = [tip["x"] - map_box["x"], tip["y"] - map_box["y"]]
    assert 0 < _away([*corners, corners[0] + tip["width"], corners[1] + tip["height"]], bubble) < 20


@pytest.mark.long
def test_a_bubble_is_dragged_and_put_back(open_page: Open) -> None:
    page = open_page(of(TIDE))
    before = world(page)
    x, y = places(page)[TEAM]
    map_box = box_of(page.locator("#map"))
    page.mouse.move(map_box["x"] + x, map_box["y"] + y)
    page.mouse.down()
    page.mouse.move(map_box["x"] + x + 60, map_box["y"] + y + 30, steps=3)
    page.mouse.up()
    after = world(page)
    assert {one for one in before if before[one] != after[one]} == {TEAM}
    assert "node=" not in page.url
    page.get_by_role("button", name="Show all bubbles").click()
    assert world(page) == before


@pytest.mark.long
def test_a_filter_lights_what_passes_and_takes_short_amounts(open_page: Open) -> None:
    page = open_page(of(TIDE, "&tab=links"))
    page.get_by_text("Filter links").click()
    page.get_by_label("Amount, at least").fill("0.5k")
    page.get_by_label("Amount, at least").press("Enter")
    page.wait_for_function("() => location.search.includes('least=500')")
    assert lit(page) == {TEAM, MAGIC}


@pytest.mark.long
def test_comparison_folds_the_card_and_a_click_unfolds_it(open_page: Open) -> None:
    page = open_page(of(TIDE, f"&node={TEAM}"))
    card = card_of(page)
    page.get_by_role("tab", name="Compare").click()
    expect(card.get_by_text("Rank")).to_be_hidden()
    card.get_by_role("heading").click()
    expect(card.get_by_text("Rank")).to_be_visible()


@pytest.mark.long
def test_shared_link_opens_at_the_top_of_a_phone(open_page: Open) -> None:
    page = open_page(of(TIDE, "&cluster=1"), **PHONE)
    expect(card_of(page)).to_be_visible()
    frames = "new Promise((done) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done))))"
    page.evaluate(f"() => {frames}")  # a jump would come after the card
    assert page.evaluate("() => scrollY") == 0


@pytest.mark.long
def test_token_without_drawn_holders_offers_to_draw_the_others(open_page: Open) -> None:
    page = open_page(of(ALL_BURNT))
    expect(page.get_by_role("alert")).to_contain_text("100% of the supply is burnt")
    expect(page.get_by_role("alert")).to_contain_text("All listed holders are burn addresses.")
    expect(page.get_by_role("region", name="Not drawn")).to_contain_text(
        "Not drawn: burn addresses, 100% of the supply"
    )
    page.get_by_role("button", name="Draw them").click()
    shows(page, 1)
    expect(page.get_by_role("tabpanel").locator(".kind")).to_have_text("burn")
