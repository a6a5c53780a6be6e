"""What stands beside or below the map: the clusters, the largest holders, and what colours, sizes and marks mean."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from holderlake.service.pictures.drawing.canvas import Point
from holderlake.service.pictures.drawing.header import FINEST
from holderlake.service.pictures.drawing.sheet import Sheet
from holderlake.service.pictures.drawing.text import broken, shortened, width
from holderlake.service.pictures.drawing.text_format import called, count, percent
from holderlake.service.pictures.layout.bubbles import Layout
from holderlake.service.pictures.layout.page import Area

_MOST_HOLDERS: Final = 10


@dataclass(frozen=True)
class _Part:
    """Something of a known height, in pixels, that draws itself below a given line."""

    height: float
    draw: Callable[[float], None]


def draw_beside(sheet: Sheet) -> None:
    """The clusters, the legend, and the largest holders in what room is left."""
    page, between = sheet.page, 1.6 * sheet.unit
    legend = _legend(sheet)
    top = page.legend.bottom - sum(part.height for part in legend) if page.in_one_column else page.legend.top
    _stack(legend, top)
    below = _stack(_clusters(sheet), page.lists.top) + between
    end = top - between if page.in_one_column else page.lists.bottom
    _stack(_largest(sheet, end - below), below)


def _stack(parts: Sequence[_Part], top: float) -> float:
    """Draws parts below each other; gives where the last one ends."""
    for part in parts:
        part.draw(top)
        top += part.height
    return top


# ---------------------------------------------------------------------- kinds of parts


def _heading(sheet: Sheet, area: Area, text: str, aside: str = "") -> _Part:
    unit = sheet.unit

    def draw(top: float) -> None:
        base = top + 0.85 * unit
        sheet.canvas.text((area.left, base), text, 1.05 * unit, sheet.colours.ink, bold=True)
        sheet.canvas.text((area.right, base), aside, 0.9 * unit, sheet.colours.soft, across="right")

    return _Part(1.75 * unit, draw)


def _note(sheet: Sheet, text: str, mark: Callable[[Point], None] | None = None) -> _Part:
    """Small text of the legend in as many lines as it takes, after a mark if it has one."""
    area, unit, size = sheet.page.legend, sheet.unit, 0.9 * sheet.unit
    left = area.left + (2.4 * unit if mark else 0.0)
    lines = broken(text, area.right - left, size)

    def draw(top: float) -> None:
        base = top + 0.8 * unit
        if mark:
            mark((area.left + 0.9 * unit, base - 0.32 * unit))
        for number, line in enumerate(lines):
            sheet.canvas.text((left, base + number * 1.26 * unit), line, size, sheet.colours.soft)

    return _Part((1.26 * len(lines) + 0.25) * unit, draw)


def _row(sheet: Sheet, hue: str, text: str, aside: str, after: str = "", *, bold: bool) -> _Part:
    """A line of a list: a dot, a text and what follows it, and another text at the line's end."""
    area, unit, small = sheet.page.lists, sheet.unit, 0.9 * sheet.unit
    left, size = area.left + 1.4 * unit, unit if bold else small
    shown = shortened(text, area.right - left - width(aside, small) - 0.8 * unit, size, bold)

    def draw(top: float) -> None:
        base = top + 0.95 * unit
        sheet.bubble((area.left + 0.45 * unit, base - 0.35 * unit), 0.45 * unit, hue)
        sheet.canvas.text((left, base), shown, size, sheet.colours.ink, bold=bold)
        beside = left + width(shown, size, bold) + 0.5 * unit
        sheet.canvas.text((beside, base), after, small, sheet.colours.soft)
        sheet.canvas.text((area.right, base), aside, small, sheet.colours.soft, across="right")

    return _Part(1.6 * unit, draw)


# ---------------------------------------------------------------------- lists


def _clusters(sheet: Sheet) -> list[_Part]:
    """The clusters that have a colour of their own, and all others in one line."""
    area, clusters, colours = sheet.page.lists, sheet.scene.clusters, sheet.colours
    if not clusters:
        none = broken("None: nothing links the holders drawn.", area.width, 0.9 * sheet.unit)
        return [_heading(sheet, area, "Clusters"), *(_plain(sheet, line) for line in none)]
    aside = f"{len(clusters)}, {percent(sum(each.share for each in clusters))} of supply"
    named, rest = clusters[: len(colours.clusters)], clusters[len(colours.clusters) :]
    rows = [
        _row(sheet, colours.of_cluster(each.number), percent(each.share), count(each.holders, "holder"), bold=True)
        for each in named
    ]
    if rest:
        held, holders = percent(sum(each.share for each in rest)), count(sum(each.holders for each in rest), "holder")
        rows.append(_row(sheet, colours.other, held, holders, f"+{len(rest)} more", bold=True))
    return [_heading(sheet, area, "Clusters", aside), *rows]


def _plain(sheet: Sheet, line: str) -> _Part:
    area, unit = sheet.page.lists, sheet.unit
    return _Part(1.26 * unit, lambda top: sheet.soft((area.left, top + 0.8 * unit), line, area.width, 0.9))


def _largest(sheet: Sheet, room: float) -> list[_Part]:
    """The largest bubbles by name, as many as there is room for; nothing where that is hardly any."""
    bubbles = sorted((node for node in sheet.scene.nodes if node.share), key=lambda node: -(node.share or 0.0))
    rows = [
        _row(sheet, sheet.hue(node), called(node), percent(node.share or 0.0), bold=False)
        for node in bubbles[:_MOST_HOLDERS]
    ]
    heading = _heading(sheet, sheet.page.lists, "Largest holders drawn")
    fitting = int((room - heading.height) / rows[0].height) if rows else 0
    return [heading, *rows[:fitting]] if fitting >= min(3, len(rows)) > 0 else []


# ---------------------------------------------------------------------- legend


def _legend(sheet: Sheet) -> list[_Part]:
    """Of colours, sizes and marks, those that are on this map."""
    scene, alone = sheet.scene, sheet.colours.alone
    bubbles = [node for node in scene.nodes if node.share is not None]
    parts = [_heading(sheet, sheet.page.legend, "How to read it", "Holderlake")]
    if bubbles:
        parts += [_note(sheet, "A bubble's area is its share of supply"), _sizes(sheet)]
    if any(node.cluster is None for node in bubbles):
        mark = 0.45 * sheet.unit
        parts.append(_note(sheet, "Holder outside clusters", lambda at: sheet.bubble(at, mark, alone)))
    others = [node for node in scene.nodes if node.share is None]
    if any(node.time_node is None for node in others):
        parts.append(_note(sheet, "Wallet that links holders", sheet.ring))
    if any(node.time_node is not None for node in others):
        parts.append(_note(sheet, "Exchange that holders used at the same time", sheet.dot))
    if scene.lines:
        parts.append(_note(sheet, "Transfers; thicker: more", sheet.line))
    parts.append(_note(sheet, _left_out(sheet)))
    if any(sheet.layout.is_enlarged(node.share or 0.0) for node in bubbles):
        least = percent((sheet.layout.smallest / sheet.layout.scale) ** 2)
        parts.append(_note(sheet, f"Bubbles of less than {least} are enlarged, to be seen."))
    return parts


def _left_out(sheet: Sheet) -> str:
    """What has no bubble, and what it holds."""
    figures = sheet.scene.figures
    exchanges = "" if figures.exchanges is None else f" ({percent(figures.exchanges, FINEST)} of supply)"
    contracts = "" if figures.contracts is None else f" ({percent(figures.contracts, FINEST)}, exchanges' own too)"
    return f"Not drawn: exchanges{exchanges}, contracts{contracts} and the busiest wallets."


def _sizes(sheet: Sheet) -> _Part:
    """Bubbles of round shares, as large as they are on the map."""
    area, unit, small = sheet.page.legend, sheet.unit, 0.9 * sheet.unit
    bubbles: list[tuple[float, float, str]] = []
    left = area.left
    for share in _round_shares(sheet.layout, 1.5 * unit):
        radius, text = sheet.layout.scale * math.sqrt(share), percent(share)
        right = left + 2 * radius + 0.4 * unit + width(text, small)
        if right <= area.right:
            bubbles.append((left + radius, radius, text))
            left = right + 1.1 * unit
    high = max((radius for _, radius, _ in bubbles), default=0.0)

    def draw(top: float) -> None:
        middle = top + high + 0.1 * unit
        for across, radius, text in bubbles:
            sheet.bubble((across, middle), radius, sheet.colours.alone)
            beside = (across + radius + 0.4 * unit, middle + 0.33 * unit)
            sheet.canvas.text(beside, text, small, sheet.colours.soft)

    return _Part(2 * high + 0.7 * unit, draw)


def _round_shares(layout: Layout, largest: float) -> list[float]:
    """Up to three shares of one digit, whose bubbles are at most so large and well apart in size, largest first."""
    found: list[float] = []
    for power in range(0, -15, -1):
        for digit in (5, 2, 1):
            share = digit * 10.0**power
            fits = share <= 1 and layout.smallest <= layout.scale * math.sqrt(share) <= largest
            if fits and len(found) < 3 and (not found or share <= found[-1] / 4):
                found.append(share)
    return found
