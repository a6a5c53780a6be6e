"""Draw the map: tints around clusters; lines, bubbles, rings and dots; names in bubbles that are large enough."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from holderlake.presentation.pictures.drawing.canvas import Point
from holderlake.presentation.pictures.drawing.colours import mixed, quiet_on, text_on
from holderlake.presentation.pictures.drawing.sheet import Sheet
from holderlake.presentation.pictures.drawing.text import broken, display_name, percent, printable, shortened, width
from holderlake.presentation.pictures.scene import Node


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
    reason = "All listed holders are exchanges, contracts or among the busiest wallets."
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
    """Draw the map's lines. A line with more transfers is thicker. If there are many lines, all are fainter."""
    lines, unit = sheet.scene.lines, sheet.unit
    ends = [(_at(sheet, line.first_node), _at(sheet, line.second_node)) for line in lines]
    colours = [mixed(sheet.hue(sheet.scene.nodes[line.first_node]), sheet.colours.ink, 0.25) for line in lines]
    widths = [max(0.5, unit * min(0.24, 0.06 + 0.025 * math.log2(line.transfers))) for line in lines]
    sheet.canvas.lines(ends, colours, widths, 0.75 * min(1.0, math.sqrt(200 / max(1, len(lines))) * unit / 15))


def _draw_nodes(sheet: Sheet) -> None:
    nodes = list(enumerate(sheet.scene.nodes))
    bubbles = [(number, sheet.hue(node)) for number, node in nodes if node.share is not None]
    rings = [(number, sheet.hue(node)) for number, node in nodes if node.share is None and node.time_node is None]
    dots = [(number, sheet.hue(node)) for number, node in nodes if node.time_node is not None]
    rims = {hue: sheet.rim(hue) for hue in sorted({hue for _, hue in bubbles + rings + dots})}
    for marks, fill, rim_width in (
        (bubbles, None, 0.05),
        (rings, sheet.colours.page, 0.13),
        (dots, sheet.colours.ink, 0.13),
    ):
        sheet.canvas.circles(
            [_at(sheet, number) for number, _ in marks],
            [float(sheet.layout.radius[number]) for number, _ in marks],
            [fill or hue for _, hue in marks],
            [rims[hue] for _, hue in marks],
            rim_width * sheet.unit,
        )


def _name(sheet: Sheet, node: Node, at: Point, radius: float) -> None:
    """Write a node's name, rank and share into its bubble. If they do not fit, write only the rank, or nothing.

    ``at`` is the bubble's centre; units are pixels.
    """
    fill, unit, name = sheet.hue(node), sheet.unit, display_name(node)
    rank = "" if node.rank is None else f"#{node.rank}"
    caption = " · ".join(filter(None, (rank, percent(node.share or 0.0))))
    for size, max_lines, may_cut in _tries(unit, bool(printable(node.label or ""))):
        lines = _fitting(name, caption, radius, size, max_lines, may_cut)
        if lines:
            _stack(sheet, lines, at, size, text_on(fill))
            return
    for size in (unit, 0.85 * unit):
        if width(rank, size) <= _room(1, radius, size):
            _stack(sheet, [rank], at, size, quiet_on(fill))
            return


def _tries(unit: float, is_label: bool) -> Iterator[tuple[float, int, bool]]:
    """Yield styles to try for a name, best first: text size in pixels, number of lines, and whether it may be cut.

    A label may be cut, because its beginning is useful. An address may not. ``unit`` is the size of plain text.
    """
    sizes = [part * unit for part in (1.7, 1.4, 1.2, 1.0, 0.85)]
    yield from ((size, lines, False) for size in sizes for lines in (1, 2))
    if is_label:
        yield from ((size, 2, True) for size in sizes)


def _fitting(name: str, caption: str, radius: float, size: float, max_lines: int, may_cut: bool) -> list[str]:
    """Return the lines of a bubble's text: the name in at most ``max_lines`` lines, then ``caption`` (rank and share).

    Return an empty list if the text does not fit. ``may_cut`` allows to cut the name. ``radius`` and ``size`` are in
    pixels.
    """
    room = _room(max_lines + 1, radius, size)
    if width(caption, size) > room or (may_cut and room < 7 * size):
        return []
    lines = broken(name, room, size, max_lines)
    is_whole = " ".join(lines) == " ".join(name.split())
    return [*lines, caption] if lines[-1] and (is_whole or may_cut) else []


def _room(lines: int, radius: float, size: float) -> float:
    """Return the width in pixels that ``lines`` lines of text may have within a bubble; 0 if they are too high."""
    half, inner = lines * 0.6 * size, 0.93 * radius
    return 2 * math.sqrt(inner**2 - half**2) if half < inner else 0.0


def _stack(sheet: Sheet, lines: Sequence[str], at: Point, size: float, ink: str) -> None:
    """Write lines of text below each other, centred at the point ``at``, in the colour ``ink``."""
    baseline = at[1] - (len(lines) - 1) * 0.625 * size + 0.36 * size
    for number, line in enumerate(lines):
        sheet.canvas.text((at[0], baseline + number * 1.25 * size), line, size, ink, across="center")
