"""Draw the header above the map: token, instant, number of drawn holders, key figures, and the sentence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from holderlake.core.contract.chains import KNOWN_CHAINS
from holderlake.core.contract.figures import FIGURES, HEADLINE, share_text
from holderlake.core.units import counted
from holderlake.presentation.evidence import evidence_of
from holderlake.presentation.pictures.drawing.sheet import Sheet
from holderlake.presentation.pictures.drawing.text import broken, display_name, instant, printable, shortened, width
from holderlake.presentation.pictures.layout.page import Page
from holderlake.presentation.pictures.scene import Node, Scene


@dataclass(frozen=True)
class TokenTitle:
    """Content of a picture's title: name and symbol of the token, the id of its chain, and the instant of the map.

    The instant (``as_of``) is in UTC, without zone.
    """

    name: str
    symbol: str
    chain: str
    as_of: datetime

    @property
    def shown_name(self) -> str:
        """Printable part of the token's name, or else of its symbol."""
        return printable(self.name) or printable(self.symbol) or "Unnamed token"


def draw_title(sheet: Sheet, token: TokenTitle) -> None:
    """Draw the title: name and symbol, chain and instant, and the number and share of the drawn holders."""
    area, unit, colours = sheet.page.title, sheet.unit, sheet.colours
    size, lesser = 2.1 * unit, 1.5 * unit
    symbol = "" if token.symbol == token.name else shortened(printable(token.symbol), 0.4 * area.width, lesser)
    symbol_room = width(symbol, lesser) + 0.6 * unit if symbol else 0.0
    name = shortened(token.shown_name, area.width - symbol_room, size, bold=True)
    base = area.top + 1.75 * unit
    sheet.canvas.text((area.left, base), name, size, colours.ink, bold=True)
    symbol_left = area.left + width(name, size, bold=True) + 0.6 * unit
    sheet.canvas.text((symbol_left, base), symbol, lesser, colours.soft)
    known_chain = KNOWN_CHAINS.get(token.chain)
    chain = shortened(printable(known_chain.name if known_chain else token.chain), 0.4 * area.width, unit)
    subtitle = " · ".join(filter(None, (chain, instant(token.as_of))))
    sheet.soft((area.left, base + 1.85 * unit), subtitle, area.width)
    sheet.soft((area.left, base + 3.4 * unit), _drawn_summary(sheet.scene), area.width)


def draw_figures(sheet: Sheet) -> None:
    """Draw the figures of ``HEADLINE``: short title, value, and a bar."""
    area, unit, between = sheet.page.figures, sheet.unit, 1.2 * sheet.unit
    step = (area.width + between) / len(HEADLINE)
    for number, column in enumerate(HEADLINE):
        figure, value = FIGURES[column], sheet.scene.figures.get(column)
        left, wide = area.left + number * step, step - between
        text = figure.text(value)
        small, large = (
            min(size, size * wide / width(words, size, bold))
            for words, size, bold in ((figure.short, 0.88 * unit, False), (text, 1.6 * unit, True))
        )
        sheet.canvas.text((left, area.top + 0.8 * unit), figure.short, small, sheet.colours.soft)
        sheet.canvas.text((left, area.top + 2.85 * unit), text, large, sheet.colours.ink, bold=True)
        sheet.bar(left, area.top + 3.5 * unit, wide, (value or 0) / (100 if figure.unit == "score" else 1))


def finding_of(tables: Mapping[str, pa.Table], as_of: datetime) -> tuple[str, str]:
    """Return the sentence about a map as of an instant (UTC, without zone), and its notes. ``tables`` are by name."""
    cluster_of = {row["address"]: row["cluster_id"] for row in tables["cluster_members"].to_pylist()}
    nodes = [row | {"cluster_id": cluster_of.get(row["address"])} for row in tables["map_nodes"].to_pylist()]
    nodes.sort(key=lambda row: (row["rank"] or 1e9, row["kind"], row["address"]))
    clusters = sorted(tables["clusters"].to_pylist(), key=lambda row: int(row["cluster_id"]))
    links = tables["grouped_transfers"].rename_columns({"total_transfers": "transfers"})
    links = links.append_column(
        "amount", pc.coalesce(links["total_value_exact"], links["total_value"].cast(pa.string()))
    )
    links = links.sort_by([("transfers", "descending"), ("from_address", "ascending"), ("to_address", "ascending")])
    (subject,) = tables["maps"].select(["chain", "token_address"]).to_pylist()
    parts, _ = evidence_of(nodes, links, clusters, (subject["chain"], subject["token_address"]), as_of)
    labels = {row["address"]: row["label"][:60] for row in nodes if row["label"]}

    def name(mark: re.Match[str]) -> str:
        address = nodes[int(mark[1])]["address"]
        return display_name(Node(address, None, None, labels.get(address), None))

    first, notes = (re.sub(r"\{name (\d+)\}", name, part) for part in parts)
    return first and f"{first}.", notes


def finding_lines(text: str, page: Page) -> tuple[list[str], float]:
    """Return the lines of the sentence about the map, at most five, and the size of their letters."""
    room, unit = page.finding.width - 2.3 * page.unit, page.unit
    size = max(unit, min(1.25 * unit, 1.249 * unit * room / max(1.0, width(text, 1.25 * unit, bold=True))))
    return broken(printable(text, 600), room, size, 5, bold=True), size


def draw_finding(sheet: Sheet, text: str, bold_words: int) -> None:
    """Draw the project's mark and, next to it, the sentence ``text`` about the map; the bold words are first."""
    area, unit = sheet.page.finding, sheet.unit
    part = 1.6 * unit / 20  # the mark is 20 wide
    centres = [(area.left + part * across, area.top + part * (down + 1)) for across, down, _, _ in _MARK]
    fills = [fill for *_, fill in _MARK]
    sheet.canvas.circles(centres, [part * radius for _, _, radius, _ in _MARK], fills, fills, 0.0)
    lines, size = finding_lines(text, sheet.page)
    for number, line in enumerate(lines):
        left, base, words = area.left + 2.3 * unit, area.top + 1.2 * unit + number * 1.3 * size, line.split()
        bold, soft = " ".join(words[:bold_words]), " ".join(words[bold_words:])
        bold_words -= min(bold_words, len(words))
        sheet.canvas.text((left, base), bold, size, sheet.colours.ink, bold=True)
        sheet.canvas.text(
            (left + width(f"{bold} ", size, bold=True) * bool(bold), base), soft, size, sheet.colours.soft
        )


_MARK: Final = ((6.9, 8.1, 5.0, "#0072b2"), (15.0, 5.0, 2.8, "#e69f00"), (13.1, 15.0, 3.75, "#009e73"))
"""Centres, radii and colours of the project's mark, as in ``web/icon.svg``."""


def _drawn_summary(scene: Scene) -> str:
    """Return a line such as ``60 of the 80 largest holders drawn, with 45.0% of the supply``."""
    shares = [node.share for node in scene.nodes if node.share is not None]
    if not shares:
        return f"None of {counted(scene.listed, 'holder')} drawn"
    all_drawn = len(shares) == scene.listed
    holders = counted(len(shares), "holder") if all_drawn else f"{len(shares)} of the {scene.listed} largest holders"
    return f"{holders} drawn, with {share_text(min(1.0, sum(shares)))} of the supply"
