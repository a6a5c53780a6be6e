"""Draw the lists and the legend: clusters, largest holders, and the meaning of colours, sizes and marks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from holderlake.core.contract.figures import share_text
from holderlake.core.units import counted
from holderlake.presentation.pictures.drawing.canvas import Point
from holderlake.presentation.pictures.drawing.colours import PALETTE
from holderlake.presentation.pictures.drawing.sheet import Sheet
from holderlake.presentation.pictures.drawing.text import broken, display_name, shortened, width
from holderlake.presentation.pictures.layout.bubbles import Layout
from holderlake.presentation.pictures.layout.page import Area

LEGEND: Final = {
    "size": "Area: share of supply",
    "cluster": "Cluster",
    "alone": "Outside clusters",
    "magic": "Linking wallet",
    "time": "Shared exchange or pool",
    "line": "Transfers, as the arrow points",
}
"""The texts of the marks, which the explorer and its saved files have too."""
_MOST_HOLDERS: Final = 10


@dataclass(frozen=True)
class _Part:
    """A part of the picture with its height in pixels. ``draw`` draws it with its top at a given position."""

    height: float
    draw: Callable[[float], None]


def draw_lists_and_legend(sheet: Sheet) -> None:
    """Draw the clusters, the legend, and as many of the largest holders as there is space for."""
    page, between = sheet.page, 1.6 * sheet.unit
    legend = _legend(sheet)
    top = page.legend.bottom - sum(part.height for part in legend) if page.in_one_column else page.legend.top
    _stack(legend, top)
    below = _stack(_clusters(sheet), page.lists.top) + between
    end = top - between if page.in_one_column else page.lists.bottom
    _stack(_largest(sheet, end - below), below)


def _stack(parts: Sequence[_Part], top: float) -> float:
    """Draw parts below each other. Return the bottom of the last one."""
    for part in parts:
        part.draw(top)
        top += part.height
    return top


# ---------------------------------------------------------------------- kinds of parts


def _heading(sheet: Sheet, area: Area, text: str, at_right: str = "") -> _Part:
    unit = sheet.unit

    def draw(top: float) -> None:
        base = top + 0.85 * unit
        sheet.canvas.text((area.left, base), text, 1.05 * unit, sheet.colours.ink, bold=True)
        sheet.canvas.text((area.right, base), at_right, 0.9 * unit, sheet.colours.soft, across="right")

    return _Part(1.75 * unit, draw)


def _note(sheet: Sheet, text: str, mark: Callable[[Point], None] | None = None) -> _Part:
    """Return a part with small text, broken into lines. ``mark`` draws a symbol in front of it."""
    area, unit, size = sheet.page.legend, sheet.unit, 0.9 * sheet.unit
    text_left = area.left + (2.4 * unit if mark else 0.0)
    lines = broken(text, area.right - text_left, size)

    def draw(top: float) -> None:
        base = top + 0.8 * unit
        if mark:
            mark((area.left + 0.9 * unit, base - 0.32 * unit))
        for number, line in enumerate(lines):
            sheet.canvas.text((text_left, base + number * 1.26 * unit), line, size, sheet.colours.soft)

    return _Part((1.26 * len(lines) + 0.25) * unit, draw)


def _row(sheet: Sheet, hue: str, text: str, at_right: str, *, bold: bool) -> _Part:
    """Return a part with one line of a list: a dot of the colour ``hue``, a text, and a text at the right."""
    area, unit, small = sheet.page.lists, sheet.unit, 0.9 * sheet.unit
    text_left, size = area.left + 1.4 * unit, unit if bold else small
    label = shortened(text, area.right - text_left - width(at_right, small) - 0.8 * unit, size, bold)

    def draw(top: float) -> None:
        base = top + 0.95 * unit
        sheet.bubble((area.left + 0.45 * unit, base - 0.35 * unit), 0.45 * unit, hue)
        sheet.canvas.text((text_left, base), label, size, sheet.colours.ink, bold=bold)
        sheet.canvas.text((area.right, base), at_right, small, sheet.colours.soft, across="right")

    return _Part(1.6 * unit, draw)


# ---------------------------------------------------------------------- lists


def _clusters(sheet: Sheet) -> list[_Part]:
    """Return a list line for each cluster that has its own colour, and the number of all other clusters."""
    area, clusters, colours = sheet.page.lists, sheet.scene.clusters, sheet.colours
    if not clusters:
        none = broken("None: nothing links the drawn holders.", area.width, 0.9 * sheet.unit)
        return [_heading(sheet, area, "Clusters"), *(_plain(sheet, line) for line in none)]
    total = f"{len(clusters)}, {share_text(sum(cluster.share for cluster in clusters))} of the supply"
    rows = [
        _row(
            sheet,
            colours.of_cluster(cluster.number),
            f"{cluster.number}  {share_text(cluster.share)}",
            counted(cluster.holders, "holder"),
            bold=True,
        )
        for cluster in clusters[: len(PALETTE)]
    ]
    if len(clusters) > len(PALETTE):
        rows.append(_plain(sheet, f"and {len(clusters) - len(PALETTE)} smaller"))
    return [_heading(sheet, area, "Clusters", total), *rows]


def _plain(sheet: Sheet, line: str) -> _Part:
    area, unit = sheet.page.lists, sheet.unit
    return _Part(1.26 * unit, lambda top: sheet.soft((area.left, top + 0.8 * unit), line, area.width, 0.9))


def _largest(sheet: Sheet, room: float) -> list[_Part]:
    """Return list lines for the largest drawn holders, as many as fit into ``room`` pixels.

    Return an empty list if fewer than three fit, although the map has three or more.
    """
    bubbles = sorted((node for node in sheet.scene.nodes if node.share), key=lambda node: -(node.share or 0.0))
    rows = [
        _row(sheet, sheet.hue(node), display_name(node), share_text(node.share or 0.0), bold=False)
        for node in bubbles[:_MOST_HOLDERS]
    ]
    heading = _heading(sheet, sheet.page.lists, "Largest drawn holders")
    fitting = int((room - heading.height) / rows[0].height) if rows else 0
    return [heading, *rows[:fitting]] if fitting >= min(3, len(rows)) > 0 else []


# ---------------------------------------------------------------------- legend


def _legend(sheet: Sheet) -> list[_Part]:
    """Return the explanations of the colours, sizes and marks that this map uses."""
    scene, alone = sheet.scene, sheet.colours.alone
    bubbles = [node for node in scene.nodes if node.share is not None]
    parts = [_heading(sheet, sheet.page.legend, "How to read it", "Holderlake")]
    if bubbles:
        parts += [_note(sheet, LEGEND["size"]), _sizes(sheet)]
    if any(node.cluster is None for node in bubbles):
        mark = 0.45 * sheet.unit
        parts.append(_note(sheet, LEGEND["alone"], lambda at: sheet.bubble(at, mark, alone)))
    link_nodes = [node for node in scene.nodes if node.share is None]
    if any(node.time_node is None for node in link_nodes):
        parts.append(_note(sheet, LEGEND["magic"], sheet.ring))
    if any(node.time_node is not None for node in link_nodes):
        parts.append(_note(sheet, LEGEND["time"], sheet.diamond))
    if scene.lines:
        parts.append(_note(sheet, LEGEND["line"], sheet.arrow))
    if scene.not_drawn:
        parts.append(_note(sheet, f"Not drawn: {scene.not_drawn}"))
    if any(sheet.layout.is_enlarged(node.share or 0.0) for node in bubbles):
        least = share_text((sheet.layout.smallest / sheet.layout.scale) ** 2)
        parts.append(_note(sheet, f"Bubbles of less than {least} are enlarged, to be seen."))
    return parts


def _sizes(sheet: Sheet) -> _Part:
    """Return a part of the legend with sample bubbles of round shares, drawn in the map's scale."""
    area, unit, small = sheet.page.legend, sheet.unit, 0.9 * sheet.unit
    bubbles: list[tuple[float, float, str]] = []
    bubble_left = area.left
    for share in _round_shares(sheet.layout, 1.5 * unit):
        radius, text = sheet.layout.scale * math.sqrt(share), share_text(share)
        right = bubble_left + 2 * radius + 0.4 * unit + width(text, small)
        if right <= area.right:
            bubbles.append((bubble_left + radius, radius, text))
            bubble_left = right + 1.1 * unit
    high = max((radius for _, radius, _ in bubbles), default=0.0)

    def draw(top: float) -> None:
        middle = top + high + 0.1 * unit
        for across, radius, text in bubbles:
            sheet.bubble((across, middle), radius, sheet.colours.alone)
            right = (across + radius + 0.4 * unit, middle + 0.33 * unit)
            sheet.canvas.text(right, text, small, sheet.colours.soft)

    return _Part(2 * high + 0.7 * unit, draw)


def _round_shares(layout: Layout, largest: float) -> list[float]:
    """Return up to three one-digit shares, largest first, whose bubbles have clearly different sizes.

    The radius of the largest bubble is at most ``largest`` pixels.
    """
    shares: list[float] = []
    for power in range(0, -15, -1):
        for digit in (5, 2, 1):
            share = digit * 10.0**power
            fits = share <= 1 and layout.smallest <= layout.scale * math.sqrt(share) <= largest
            if fits and len(shares) < 3 and (not shares or share <= shares[-1] / 4):
                shares.append(share)
    return shares
