"""Pictures of maps are correct and legible for any map and any names."""

from __future__ import annotations

import hashlib
import math
import os
import random
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holderlake.core.contract.figures import NOTHING, share_text
from holderlake.core.contract.tables import TABLES, build
from holderlake.presentation.pictures.drawing.colours import COLOURS, PALETTE, Theme, contrast, mixed, text_on
from holderlake.presentation.pictures.drawing.draw import TokenTitle, draw_map
from holderlake.presentation.pictures.drawing.header import finding_of
from holderlake.presentation.pictures.drawing.text import broken, printable, shortened, width
from holderlake.presentation.pictures.layout.bubbles import Layout, place
from holderlake.presentation.pictures.layout.packing import packed
from holderlake.presentation.pictures.layout.page import Area
from holderlake.presentation.pictures.scene import Line, Node, Scene, scene_of
from tests.helpers.examples import some

pytestmark = pytest.mark.integration

Link = tuple[int, int, int]
Tables = dict[str, pa.Table]

AS_OF = datetime(2025, 11, 21, 7, 4)
TITLE = TokenTitle("Alpha", "ALP", "eth", AS_OF)
ROOT = Path(__file__).parents[3]
SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = (
    "$x^2$ and $\\frac{1}{",
    "<script>alert('x')</script> --> & \" ]]>",
    "\u202eright to left\u202c \u0645\u0631\u062d\u0628\u0627",
    "\U0001f680\U0001f680\U0001f680",
    "two\nlines\tand\ra tab",
    "\x00\x01\x02\x7f\x9f\ufffe",
    "Z\u0351\u036b\u0343A\u0334\u0321\u034aL\u0320\u0368G\u0301\u0301\u0301",
    "\u67f4\u72ac \ufdfd \u00e9\u00e8 \ufb01",
    "W" * 10_000,
    "a b " * 5_000,
    "",
)


def address(number: int) -> str:
    return "0x" + hashlib.sha256(str(number).encode()).hexdigest()[:40]


def tables_of(
    shares: Sequence[float],
    links: Sequence[Link] = (),
    *,
    rings: int = 0,
    hidden: Sequence[int] = (),
    labels: dict[int, str] | None = None,
    **figures: Any,
) -> Tables:
    """Tables of a map: holders by falling share, then rings; links as two indices and a number of transfers."""
    common = {"chain": "eth", "as_of": AS_OF, "token_address": address(-1)}
    nodes: list[dict[str, Any]] = [
        {
            "kind": "top_holder",
            "address": address(number),
            "rank": number + 1,
            "share": share,
            "is_shown_on_map": number not in hidden,
            "label": (labels or {}).get(number),
        }
        for number, share in enumerate(shares)
    ]
    nodes += [
        {"kind": "magic", "address": address(len(shares) + ring), "is_shown_on_map": True} for ring in range(rings)
    ]
    clusters, members = _clusters(shares, links)
    facts = {"dt_update": "2025-11-21T07:04:00", "cexs": 0.2, "dexs": 0.1, "contracts": 0.125}
    facts |= {"top_10_adjusted": 0.4, "service_score": 61.5, **figures}
    transfers = [
        {
            "from_address": address(first),
            "to_address": address(second),
            "rel_type": "GROUPED_TRANSFER",
            "transfer_chain": "eth",
            "transfer_token": address(-1),
            "total_transfers": times,
        }
        for first, second, times in links
    ]
    rows = {
        "maps": [facts],
        "map_nodes": nodes,
        "grouped_transfers": transfers,
        "clusters": clusters,
        "cluster_members": members,
    }
    return {name: build(TABLES[name], [common | row for row in rows[name]]) for name in rows}


def _clusters(shares: Sequence[float], links: Sequence[Link]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    graph: nx.Graph[int] = nx.Graph((first, second) for first, second, _ in links)
    parts = [
        (holders, [node for node in component if node >= len(shares)])
        for component in nx.connected_components(graph)
        if len(holders := [node for node in component if node < len(shares)]) > 1
    ]
    parts.sort(key=lambda part: -sum(shares[node] for node in part[0]))
    clusters = [
        {
            "cluster_id": number,
            "share": sum(shares[node] for node in holders),
            "holder_count": len(holders),
            "magic_node_count": len(magic),
        }
        for number, (holders, magic) in enumerate(parts, start=1)
    ]
    members = [
        {"cluster_id": number, "address": address(node), "kind": kind}
        for number, (holders, magic) in enumerate(parts, start=1)
        for kind, nodes in (("holder", holders), ("magic", magic))
        for node in nodes
    ]
    return clusters, members


def falling(count: int, power: float = 1.0, total: float = 0.6) -> list[float]:
    """Shares of holders by Zipf's law."""
    parts = [(place + 1) ** -power for place in range(count)]
    return [total * part / sum(parts) for part in parts]


CLUSTERED = tables_of(
    falling(40), [(0, 3, 9), (3, 41, 1), (41, 5, 1), (1, 2, 40), (2, 9, 1), (7, 8, 1)], rings=2, labels={0: "Treasury"}
)


def draw(tables: Tables, title: TokenTitle = TITLE, at: int = 600, theme: Theme = Theme.LIGHT) -> str:
    """The SVG of a map."""
    return draw_map(tables, title, width=at, theme=theme, form="svg").decode()


@cache
def clustered(at: int = 600) -> str:
    """The SVG of a map with clusters, drawn once for several tests."""
    return draw(CLUSTERED, at=at)


def texts_in(svg: str) -> list[str]:
    """The texts of a picture: matplotlib writes each as a comment next to the paths of its glyphs."""
    found = re.findall(r"<!-- (.*?) -->", svg, re.DOTALL)
    return [text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") for text in found]


# ---------------------------------------------------------------------- layout

FRAME = Area(20.0, 80.0, 1100.0, 800.0)


def scene_of_numbers(shares: Sequence[float], rings: int = 0, lines: Sequence[tuple[int, int]] = ()) -> Scene:
    nodes = [Node(address(number), number + 1, share, None, None) for number, share in enumerate(shares)]
    nodes += [Node(address(len(shares) + ring), None, None, None, None) for ring in range(rings)]
    pairs = sorted({(min(pair), max(pair)) for pair in lines if pair[0] != pair[1]})
    drawn = tuple(Line(first, second) for first, second in pairs)
    return Scene(tuple(nodes), drawn, (), {}, len(shares))


@st.composite
def scenes(draw_from: st.DrawFn) -> Scene:
    """Few or many holders of equal or any sizes down to 0, in chains, stars, webs or alone."""
    share = st.one_of(
        st.sampled_from([0.0, 1e-30, 1e-9, 0.01, 0.01, 0.3]), st.floats(0, 1, allow_nan=False, allow_infinity=False)
    )
    shares = draw_from(st.lists(share, min_size=1, max_size=40))
    rings = draw_from(st.integers(0, 5))
    node = st.integers(0, len(shares) + rings - 1)
    lines = draw_from(st.lists(st.tuples(node, node), max_size=60))
    if draw_from(st.booleans()):
        lines = [(0, other) for _, other in lines]
    return scene_of_numbers(shares, rings, lines)


FRAMES = st.sampled_from([FRAME, Area(10.0, 130.0, 560.0, 420.0), Area(0.0, 0.0, 900.0, 300.0)])
MANY = settings(max_examples=some(50), deadline=None)


def between(layout: Layout) -> np.ndarray:
    """The distance between the edges of each two circles."""
    apart = np.hypot(layout.x[:, None] - layout.x, layout.y[:, None] - layout.y)
    room = apart - layout.radius[:, None] - layout.radius
    np.fill_diagonal(room, np.inf)
    return room


@MANY
@given(scenes(), FRAMES)
def test_bubbles_do_not_overlap_stay_in_the_frame_and_keep_their_proportions(scene: Scene, frame: Area) -> None:
    layout = place(scene, frame, 14.0)
    assert between(layout).min() > 0
    assert np.all(layout.x - layout.radius >= frame.left - 1e-6)
    assert np.all(layout.y - layout.radius >= frame.top - 1e-6)
    assert np.all(layout.x + layout.radius <= frame.right + 1e-6)
    assert np.all(layout.y + layout.radius <= frame.bottom + 1e-6)
    for node, radius in zip(scene.nodes, layout.radius, strict=True):
        if node.share is not None and layout.is_enlarged(node.share):
            assert radius == pytest.approx(layout.smallest)
            assert layout.scale * math.sqrt(node.share) < layout.smallest <= 0.25 * 14
        elif node.share is not None:
            assert radius == pytest.approx(layout.scale * math.sqrt(node.share), rel=1e-9)
    rings = [radius for node, radius in zip(scene.nodes, layout.radius, strict=True) if node.share is None]
    assert len({round(radius, 9) for radius in rings}) <= 1


@pytest.mark.parametrize("count", [1, 2, 80, 500])
def test_equal_holders_have_equal_bubbles_that_fill_the_frame(count: int) -> None:
    layout = place(scene_of_numbers([1 / count] * count), FRAME, 16.0)
    assert len({round(radius, 9) for radius in layout.radius}) == 1
    covered = math.pi * float(np.sum(layout.radius**2)) / (FRAME.width * FRAME.height)
    assert covered > (0.2 if count < 80 else 0.45)
    assert between(layout).min() > 0


@pytest.mark.parametrize(
    "lines", ["none", pytest.param("tree", marks=pytest.mark.long), pytest.param("web", marks=pytest.mark.long)]
)
def test_five_hundred_holders_of_any_size_fit(lines: str) -> None:
    chance = random.Random(1)
    pairs = {
        "none": [],
        "tree": [(number, chance.randrange(number)) for number in range(1, 400)],
        "web": [(chance.randrange(500), chance.randrange(540)) for _ in range(5_000)],
    }
    layout = place(scene_of_numbers(falling(500), 40, pairs[lines]), FRAME, 16.0)
    assert between(layout).min() > 0
    assert layout.x.max() <= FRAME.left + FRAME.width


def test_linked_holders_are_close() -> None:
    lines = [(0, 10), (10, 20), (20, 30), (1, 11), (11, 21), (21, 31)]
    layout = place(scene_of_numbers(falling(40, 0.5), 0, lines), FRAME, 16.0)
    room = between(layout)
    typical = float(np.median(room[np.isfinite(room)]))
    assert np.median([room[first, second] for first, second in lines]) < typical / 4


def test_no_bubble_covers_a_line_of_another_component() -> None:
    lines = [(0, number) for number in range(2, 30)] + [(1, number) for number in range(30, 45)]
    scene = scene_of_numbers(falling(80, 0.7), 0, lines)
    layout = place(scene, FRAME, 16.0)
    for one, other in lines:
        for stranger in range(45, 80):
            assert _distance(layout, stranger, one, other) > layout.radius[stranger]


def _distance(layout: Layout, node: int, first: int, second: int) -> float:
    at, start, end = (np.array([layout.x[each], layout.y[each]]) for each in (node, first, second))
    along = np.clip(np.dot(at - start, end - start) / np.dot(end - start, end - start), 0, 1)
    return float(np.linalg.norm(at - start - along * (end - start)))


@pytest.mark.parametrize("lines", [[], [(0, 5), (5, 9), (1, 2), (2, 12), (2, 14)]])
def test_small_change_of_data_keeps_most_positions(lines: list[tuple[int, int]]) -> None:
    scene = scene_of_numbers(falling(60), 0, lines)
    grown = replace(scene.nodes[7], share=1.02 * (scene.nodes[7].share or 0))
    changed = replace(scene, nodes=(*scene.nodes[:7], grown, *scene.nodes[8:]))
    one, other = place(scene, FRAME, 16.0), place(changed, FRAME, 16.0)
    assert np.median(np.hypot(one.x - other.x, one.y - other.y)) < 0.05 * FRAME.width


# ---------------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("at", "theme"),
    [
        (600, Theme.LIGHT),
        pytest.param(1600, Theme.DARK, marks=pytest.mark.long),
        pytest.param(1200, Theme.LIGHT, marks=pytest.mark.long),
    ],
)
def test_png_has_the_requested_width(at: int, theme: Theme) -> None:
    png = draw_map(CLUSTERED, TITLE, width=at, theme=theme, form="png")
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(png[16:20], "big") == at


@pytest.mark.long
def test_svg_has_the_requested_width_in_pixels() -> None:
    root = ElementTree.fromstring(clustered(1200))
    assert root.get("width") == "1200px"
    assert (root.get("viewBox") or "").split()[2] == "1200"


@pytest.mark.long
@pytest.mark.parametrize("form", ["png", "svg"])
def test_same_map_gives_same_bytes(form: Any) -> None:
    first, second = (draw_map(CLUSTERED, TITLE, width=600, theme=Theme.DARK, form=form) for _ in range(2))
    assert first == second


@pytest.mark.long
def test_the_order_of_the_rows_does_not_matter() -> None:
    turned = {name: table.take(list(reversed(range(table.num_rows)))) for name, table in CLUSTERED.items()}
    assert draw(turned) == clustered()


@pytest.mark.long
def test_another_process_draws_same_bytes_without_pyplot() -> None:
    code = (
        "import hashlib, sys\n"
        "from tests.presentation.pictures.test_pictures import CLUSTERED, draw\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
        "print(hashlib.sha256(draw(CLUSTERED).encode()).hexdigest())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.stdout.strip() == hashlib.sha256(clustered().encode()).hexdigest(), ran.stderr


@pytest.mark.long
def test_many_threads_draw_the_same_bytes() -> None:
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: draw(CLUSTERED), range(8))) == {clustered()}


# ---------------------------------------------------------------------- texts


def test_the_title_names_token_chain_and_instant() -> None:
    texts = texts_in(clustered())
    assert {"Alpha", "ALP", "Ethereum · 21 Nov 2025, 07:04 UTC"} <= set(texts)


def test_the_key_figures_are_the_maps() -> None:
    texts = texts_in(clustered())
    assert {"Score", "61.5", "Top 10 groups", "40.0%", "Exchanges", "20.0%", "Pools", "10.0%"} <= set(texts)


def test_unknown_figures_are_a_dash() -> None:
    names = ("service_score", "cexs", "dexs", "bundles", "top_10_adjusted")
    unknown: dict[str, Any] = dict.fromkeys(names)
    texts = texts_in(draw(tables_of([0.5], **unknown)))
    assert texts.count(NOTHING) == 5


def test_the_sentence_about_the_map_names_its_holders() -> None:
    tables = tables_of([0.3, 0.1, 0.05], [(0, 1, 3), (0, 2, 1)], labels={0: "Trea\u202esury"})
    first, notes = finding_of(tables, AS_OF)
    assert (
        first
        == "3 wallets together hold 45.0% (15.0% without Treasury), 2 of them funded by another member (Treasury)."
    )
    assert notes == ""
    assert first in " ".join(texts_in(draw(tables, at=1600)))


def test_the_largest_bubbles_carry_their_label_or_short_address() -> None:
    texts = texts_in(clustered(1600))
    short = f"{address(1)[:6]}…{address(1)[-4:]}"
    assert texts.count("Treasury") == 2  # in its bubble and in the list
    assert texts.count(short) == 2


def test_clusters_are_listed_by_share_and_the_rest_in_one_line() -> None:
    tables = tables_of(falling(40, 0.5), [(2 * pair, 2 * pair + 1, 1) for pair in range(9)])
    texts = texts_in(draw(tables))
    shares = tables["clusters"]["share"].to_pylist()
    rows = [f"{number}  {share_text(share)}" for number, share in enumerate(shares[:8], start=1)]
    assert [text for text in texts if text in rows] == rows
    assert "and 1 smaller" in texts


def test_each_cluster_has_its_own_colour() -> None:
    colours = COLOURS[Theme.LIGHT]
    tables = tables_of(falling(30), [(0, 1, 1), (1, 2, 1), (3, 4, 1), (4, 30, 1)], rings=1)
    nodes = scene_of(tables).nodes
    hues = [colours.of_cluster(node.cluster) for node in nodes]
    assert hues == [*[PALETTE[0]] * 3, *[PALETTE[1]] * 2, *[colours.alone] * 25, PALETTE[1]]
    filled = re.findall("fill: (#[0-9a-f]{6})", draw(tables))
    assert filled.count(PALETTE[0]) > 3 and filled.count(PALETTE[1]) > 2
    assert filled.count(PALETTE[2]) == 1  # in the project's mark


def test_legend_mentions_enlarged_bubbles_only_if_there_are_some() -> None:
    assert "enlarged" not in " ".join(texts_in(draw(tables_of([0.3, 0.2]))))
    assert "enlarged" in " ".join(texts_in(draw(tables_of([0.3, 1e-9]))))


def test_legend_explains_only_marks_of_the_map() -> None:
    text = " ".join(texts_in(draw(tables_of([0.3, 0.2]))))
    assert "links holders" not in text
    assert "Transfers" not in text


def test_holders_that_are_not_shown_are_not_drawn() -> None:
    texts = texts_in(draw(tables_of(falling(10), hidden=[0], labels={0: "Some Exchange", 1: "Someone"})))
    assert "Some Exchange" not in texts
    assert "Someone" in texts


def test_a_map_without_shown_holders_says_so() -> None:
    texts = texts_in(draw(tables_of([0.6, 0.4], hidden=[0, 1], service_score=None)))
    assert {"No holder to draw", "None of 2 holders drawn"} <= set(texts)


def test_time_nodes_of_clusters_are_drawn_between_their_users() -> None:
    """Two windows of one exchange, of which the second links no cluster."""
    without = tables_of(falling(5), [(3, 4, 1)])
    windows = [{"kind": "time", "address": address(99), "time_node": number} for number in (1, 2)]
    links = [
        {"from_address": address(user), "to_address": address(99), "rel_type": "GROUPED_TRANSFER", "time_node": number}
        for user, number in ((3, 1), (4, 1), (0, 2))
    ]
    common = {"chain": "eth", "as_of": AS_OF, "token_address": address(-1)}
    added = {
        name: pa.concat_tables([without[name], build(TABLES[name], [common | row for row in rows])])
        for name, rows in (("map_nodes", windows), ("grouped_transfers", links))
    }
    scene = scene_of(without | added)
    assert scene.nodes[5:] == (Node(address(99), None, None, None, 1, time_node=1),)
    assert scene.lines == (Line(3, 4), Line(3, 5), Line(4, 5))
    assert "Shared exchange or pool" in " ".join(texts_in(draw(without | added)))
    assert "used together" not in " ".join(texts_in(draw(without)))


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0%"),
        (1.0, "100%"),
        (0.9998, "99.9%"),
        (0.1 + 0.2 + 0.7, "100%"),
        (0.123, "12.3%"),
        (0.073, "7.30%"),
        (0.00034, "0.034%"),
        (2e-7, "<0.001%"),
    ],
)
def test_a_share_has_the_digits_that_it_needs(share: float, text: str) -> None:
    assert share_text(share) == text


# ---------------------------------------------------------------------- legibility


def boxes(svg: str) -> list[tuple[str, float, float, float, float]]:
    """Each text with the rectangle it takes: left, top, right, bottom."""
    found = []
    for text, group in re.findall(r"<!-- (.*?) -->\s*<g ([^>]*)>", svg, re.DOTALL):
        x, y, scale = (
            float(number) for number in re.findall(r"translate\(([-\d.]+) ([-\d.]+)\) scale\(([\d.]+)", group)[0]
        )
        plain = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        size = 100 * scale
        after = svg[svg.index(group) :]
        is_bold = "DejaVuSans-Bold" in after[: after.index("</g>")]
        found.append((plain, x, y - 0.76 * size, x + width(plain, size, is_bold), y + 0.24 * size))
    return found


def assert_legible(svg: str) -> None:
    _, _, wide, high = (float(number) for number in (ElementTree.fromstring(svg).get("viewBox") or "").split())
    texts = boxes(svg)
    assert len(texts) > 8
    for text, left, top, right, bottom in texts:
        assert left >= 0 and top >= 0 and right <= wide and bottom <= high, f"{text} is cut off"
    for number, (text, left, top, right, bottom) in enumerate(texts):
        for other, left2, top2, right2, bottom2 in texts[:number]:
            across, down = min(right, right2) - max(left, left2), min(bottom, bottom2) - max(top, top2)
            assert across < 1 or down < 1, f"{text} lies over {other}"


@pytest.mark.later(long=1)
@pytest.mark.parametrize("at", [400, 960, 600, 1600])
@pytest.mark.parametrize(
    "tables",
    [
        CLUSTERED,
        tables_of(falling(80, 0.4), [(2 * pair, 2 * pair + 1, 1) for pair in range(20)]),
        tables_of([1.0], labels={0: "Everything there is, in one wallet"}, service_score=None),
        tables_of(falling(50, 3.0, 1e-7), [(0, 50, 1), (1, 50, 2)], rings=1, cexs=1e-12, contracts=1e-9),
    ],
    ids=["clustered", "many clusters", "one holder", "tiny shares"],
)
def test_no_text_is_cut_off_or_lies_over_another(tables: Tables, at: int) -> None:
    assert_legible(draw(tables, at=at))


@pytest.mark.later(long=1)
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_any_text_is_drawn_harmlessly_and_legibly(text: str) -> None:
    labels = {0: text, 1: f"{text} 1", 2: text[::-1]}
    tables = tables_of([0.3, 0.2, 0.1, 0.05], [(0, 1, 3)], labels=labels)
    title = TokenTitle(text, text, text, AS_OF)
    svg = draw(tables, title)
    root = ElementTree.fromstring(svg)
    assert_legible(svg)
    for element in root.iter():
        assert element.tag not in {f"{SVG}script", f"{SVG}foreignObject", f"{SVG}image", f"{SVG}a"}
        for name, value in element.attrib.items():
            assert not name.startswith("on")
            assert not name.endswith("href") or value.startswith("#")
    assert draw_map(tables, title, width=1200, theme=Theme.DARK, form="png").startswith(b"\x89PNG")


@pytest.mark.long
def test_unprintable_name_is_replaced_by_the_symbol() -> None:
    assert "ROCKET" in texts_in(draw(CLUSTERED, TokenTitle("\U0001f680", "ROCKET", "eth", AS_OF)))
    assert "Unnamed token" in texts_in(draw(CLUSTERED, TokenTitle("\U0001f680", "\n", "eth", AS_OF)))


def test_unknown_letter_becomes_a_box_and_unknown_symbol_is_dropped() -> None:
    assert printable("\u67f4 \U0001f680 coin") == "□ coin"


@given(st.text(max_size=60), st.floats(0, 300))
@settings(max_examples=some(60), deadline=None)
def test_shortened_text_fits(text: str, room: float) -> None:
    shown = shortened(printable(text), room, 12.0)
    assert not shown or width(shown, 12.0) <= room


def test_a_broken_text_has_at_most_its_number_of_lines() -> None:
    words, room = "one two three four", width("three", 12.0) + 1
    assert broken(words, room, 12.0) == ["one", "two", "three", "four"]
    first, last = broken(words, room, 12.0, 2)
    assert (first, last[-1]) == ("one", "…")


@pytest.mark.parametrize("theme", Theme)
def test_text_has_the_contrast_of_wcag(theme: Theme) -> None:
    colours = COLOURS[theme]
    for ground in (colours.page, colours.panel):
        assert min(contrast(colours.ink, ground), contrast(colours.soft, ground)) >= 4.5
    for fill in (colours.alone, *PALETTE):
        assert contrast(text_on(fill), fill) >= 4.5


def test_mixed_colours_lie_between() -> None:
    assert mixed("#000000", "#ffffff", 0.5) == "#808080"


def test_circles_in_the_same_place_are_pushed_apart() -> None:
    at = packed(np.full(3, 50 + 50j), np.full(3, 5.0), np.arange(3), 2.0, 1.0)
    distance = np.abs(at[:, None] - at) + np.diag(np.full(3, np.inf))
    assert distance.min() > 10
