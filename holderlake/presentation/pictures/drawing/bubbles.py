"""Draw the map: tints around clusters, lines with arrows, bubbles, rings and diamonds, names in large bubbles."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from holderlake.core.contract.figures import share_text
from holderlake.presentation.pictures.drawing.canvas import Point
from holderlake.presentation.pictures.drawing.colours import mixed, text_on
from holderlake.presentation.pictures.drawing.sheet import Sheet, arrow, diamond
from holderlake.presentation.pictures.drawing.text import broken, display_name, printable, shortened, width
from holderlake.presentation.pictures.scene import Node

_ARROWS_UP_TO: Final = 700
"""With more lines, none has an arrow."""


def draw_bubbles(sheet: Sheet) -> None:
    """Draw the map's panel with bubbles and lines."""
    panel = sheet.page.panel
    sheet.canvas.box(panel.left, panel.top, panel.width, panel.height, sheet.colours.panel, 0.7 * sheet.unit)
    if not sheet.scene.nodes:
        _draw_empty(sheet)
        return
    _tint_clusters(sheet)
    _draw_lines(sheet)
    _draw_nodes(sheet)
    for number, node in enumerate(sheet.scene.nodes):
        if node.share is not None:
            _name(sheet, node, _at(sheet, number), float(sheet.layout.radius[number]))


def _draw_empty(sheet: Sheet) -> None:
    panel, unit = sheet.page.panel, sheet.unit
    across, down = panel.left + panel.width / 2, panel.top + panel.height / 2
    sheet.canvas.text((across, down), "No holder to draw", 1.3 * unit, sheet.colours.ink, bold=True, across="center")
    reason = f"All listed holders are {', '.join(sheet.scene.left_out)}." if sheet.scene.left_out else ""
    text = shortened(reason, 0.95 * panel.width, 0.95 * unit)
    sheet.canvas.text((across, down + 1.8 * unit), text, 0.95 * unit, sheet.colours.soft, across="center")


def _at(sheet: Sheet, node: int) -> Point:
    return float(sheet.layout.x[node]), float(sheet.layout.y[node])


def _tint_clusters(sheet: Sheet) -> None:
    """Tint the panel around the nodes and lines of each cluster, because colour-blind readers need more than colour."""
    nodes, wide = sheet.scene.nodes, 0.95 * sheet.layout.gap
    tints = [mixed(sheet.colours.panel, sheet.hue(node), sheet.colours.halo) for node in nodes]
    lines = [line for line in sheet.scene.lines if nodes[line.first_node].cluster is not None]
    ends = [(_at(sheet, line.first_node), _at(sheet, line.second_node)) for line in lines]
    sheet.canvas.lines(ends, [tints[line.first_node] for line in lines], [2 * wide] * len(lines))
    members = [number for number, node in enumerate(nodes) if node.cluster is not None]
    radii = [float(sheet.layout.radius[number]) + wide for number in members]
    fills = [tints[number] for number in members]
    sheet.canvas.circles([_at(sheet, number) for number in members], radii, fills, fills, 0.0)


def _draw_lines(sheet: Sheet) -> None:
    """Draw the map's lines with arrows. Many lines are fainter, and have no arrows."""
    lines, unit = sheet.scene.lines, sheet.unit
    ends = [(_at(sheet, line.first_node), _at(sheet, line.second_node)) for line in lines]
    opacity = 0.6 * max(0.3, min(1.0, _ARROWS_UP_TO / max(1, len(lines))))
    sheet.canvas.lines(ends, [sheet.colours.soft] * len(lines), [0.08 * unit] * len(lines), opacity)
    if len(lines) > _ARROWS_UP_TO:
        return
    ways = [(line.first_node, line.second_node) for line in lines if line.forth]
    ways += [(line.second_node, line.first_node) for line in lines if line.back]
    heads = [head for way in ways if (head := _head(sheet, *way))]
    fill = mixed(sheet.colours.panel, sheet.colours.soft, 0.75)
    sheet.canvas.shapes(heads, [fill] * len(heads), ["none"] * len(heads), 0.0)


def _head(sheet: Sheet, first: int, second: int) -> list[Point]:
    """Return the corners of an arrow's head: at the last place before the node ``second`` where no node covers it.

    The list is empty if there is no such place.
    """
    layout, start, end, wide = sheet.layout, _at(sheet, first), _at(sheet, second), 0.35 * sheet.unit
    way = complex(end[0] - start[0], end[1] - start[1])
    length = abs(way) or 1.0
    others = (layout.x - start[0] + 1j * (layout.y - start[1])) * way.conjugate() / length
    half = (layout.radius + 0.6 * wide) ** 2 - others.imag**2
    half[[first, second]] = -1.0
    covered = [
        (at.real - math.sqrt(part), at.real + math.sqrt(part))
        for at, part in zip(others, half, strict=True)
        if part > 0
    ]
    tip = length - float(layout.radius[second])
    long = min(1.6 * wide, tip - float(layout.radius[first]))
    for begin, stop in sorted(covered, key=lambda part: -part[1]):
        if stop > tip - long and begin < tip:
            tip = begin
    if long < 0.5 * wide or tip - long < float(layout.radius[first]) - 0.01:
        return []
    return arrow(start, end, length - tip, long / 1.6)


def _draw_nodes(sheet: Sheet) -> None:
    """Draw filled bubbles for holders, hollow rings for magic nodes, hollow diamonds for time nodes."""
    nodes, unit = list(enumerate(sheet.scene.nodes)), sheet.unit
    radius = [float(one) for one in sheet.layout.radius]
    bubbles = [number for number, node in nodes if node.share is not None]
    rings = [number for number, node in nodes if node.share is None and node.time_node is None]
    windows = [number for number, node in nodes if node.time_node is not None]
    hues = [sheet.hue(node) for _, node in nodes]
    rims = {hue: sheet.rim(hue) for hue in sorted(set(hues))}
    for marks, fill, rim_width in ((bubbles, None, 0.05), (rings, sheet.colours.page, 0.16)):
        sheet.canvas.circles(
            [_at(sheet, number) for number in marks],
            [radius[number] for number in marks],
            [fill or hues[number] for number in marks],
            [rims[hues[number]] for number in marks],
            rim_width * unit,
        )
    corners = [diamond(_at(sheet, number), 1.25 * radius[number]) for number in windows]
    sheet.canvas.shapes(corners, [sheet.colours.page] * len(windows), [sheet.colours.soft] * len(windows), 0.11 * unit)


def _name(sheet: Sheet, node: Node, at: Point, radius: float) -> None:
    """Write name, share and cluster of a holder into its bubble, as far as they fit; at least the cluster's number.

    ``at`` is the bubble's centre; units are pixels.
    """
    ink, unit, share = text_on(sheet.hue(node)), sheet.unit, share_text(node.share or 0.0)
    facts = [share] if node.cluster is None else [share, f"cluster {node.cluster}"]
    for size, max_lines, may_cut in _tries(unit, bool(printable(node.label or ""))):
        lines = _fitting(display_name(node), facts, radius, size, max_lines, may_cut)
        if lines:
            _stack(sheet, lines, at, size, ink)
            return
    number = [] if node.cluster is None else [str(node.cluster)]
    for lines in (facts, number, [] if number else [share]):
        for size in (unit, 0.85 * unit):
            if lines and max(width(line, size) for line in lines) <= _room(len(lines), radius, size):
                _stack(sheet, lines, at, size, ink)
                return


def _tries(unit: float, is_label: bool) -> Iterator[tuple[float, int, bool]]:
    """Yield styles to try for a name, best first: text size in pixels, number of lines, and whether it may be cut.

    A label may be cut, because its beginning is useful. An address may not. ``unit`` is the size of plain text.
    """
    sizes = [part * unit for part in (1.7, 1.4, 1.2, 1.0, 0.85)]
    yield from ((size, lines, False) for size in sizes for lines in (1, 2))
    if is_label:
        yield from ((size, 2, True) for size in sizes)


def _fitting(name: str, facts: Sequence[str], radius: float, size: float, max_lines: int, may_cut: bool) -> list[str]:
    """Return the lines of a bubble's text: the name in at most ``max_lines`` lines, then ``facts``.

    Return an empty list if the text does not fit. ``may_cut`` allows to cut the name. ``radius`` and ``size`` are in
    pixels.
    """
    room = _room(max_lines + len(facts), radius, size)
    if max(width(fact, size) for fact in facts) > room or (may_cut and room < 7 * size):
        return []
    lines = broken(name, room, size, max_lines)
    is_whole = " ".join(lines) == " ".join(name.split())
    return [*lines, *facts] if lines[-1] and (is_whole or may_cut) else []


def _room(lines: int, radius: float, size: float) -> float:
    """Return the width in pixels that ``lines`` lines of text may have within a bubble; 0 if they are too high."""
    half, inner = lines * 0.6 * size, 0.93 * radius
    return 2 * math.sqrt(inner**2 - half**2) if half < inner else 0.0


def _stack(sheet: Sheet, lines: Sequence[str], at: Point, size: float, ink: str) -> None:
    """Write lines of text below each other, centred at the point ``at``, in the colour ``ink``."""
    baseline = at[1] - (len(lines) - 1) * 0.625 * size + 0.36 * size
    for number, line in enumerate(lines):
        sheet.canvas.text((at[0], baseline + number * 1.25 * size), line, size, ink, across="center")
