"""The context that all parts of a picture use for drawing, and the shapes that parts share."""

from __future__ import annotations

from dataclasses import dataclass

from holderlake.presentation.pictures.drawing.canvas import Canvas, Point
from holderlake.presentation.pictures.drawing.colours import Colours, contrast, mixed
from holderlake.presentation.pictures.drawing.text import shortened
from holderlake.presentation.pictures.layout.bubbles import Layout
from holderlake.presentation.pictures.layout.page import Page
from holderlake.presentation.pictures.scene import Node, Scene


@dataclass(frozen=True)
class Sheet:
    """Canvas, page, colours, content and layout of one picture."""

    canvas: Canvas
    page: Page
    colours: Colours
    scene: Scene
    layout: Layout

    @property
    def unit(self) -> float:
        """Size of plain text in pixels."""
        return self.page.unit

    def hue(self, node: Node) -> str:
        """Return the colour of a node's cluster, or the colour of nodes outside clusters."""
        return self.colours.of_cluster(node.cluster)

    def rim(self, hue: str) -> str:
        """Return a darker or lighter shade of the colour ``hue`` for the edge of a circle.

        Its contrast to the panel is at least 3:1, as WCAG requires of shapes.
        """
        rims = (mixed(hue, self.colours.ink, part / 20) for part in range(4, 20))
        return next((rim for rim in rims if contrast(rim, self.colours.panel) >= 3), self.colours.ink)

    def bubble(self, at: Point, radius: float, hue: str) -> None:
        """Draw a bubble of the colour ``hue`` in the legend. ``at`` is its centre; units are pixels."""
        self.canvas.circles([at], [radius], [hue], [self.rim(hue)], 0.05 * self.unit)

    def ring(self, at: Point) -> None:
        """Draw a ring in the legend, the mark of magic nodes."""
        self.canvas.circles([at], [0.42 * self.unit], [self.colours.page], [self.colours.soft], 0.14 * self.unit)

    def diamond(self, at: Point) -> None:
        """Draw a diamond in the legend, the mark of time nodes."""
        corners = diamond(at, 0.5 * self.unit)
        self.canvas.shapes([corners], [self.colours.page], [self.colours.soft], 0.12 * self.unit)

    def arrow(self, at: Point) -> None:
        """Draw a short arrow in the legend, the mark of transfers."""
        start, end = (at[0] - 0.7 * self.unit, at[1]), (at[0] + 0.8 * self.unit, at[1])
        self.canvas.lines([(start, at)], [self.colours.soft], [0.1 * self.unit])
        self.canvas.shapes([arrow(start, end, 0.0, 0.35 * self.unit)], [self.colours.soft], ["none"], 0.0)

    def soft(self, at: Point, text: str, room: float, size: float = 1.0) -> None:
        """Write text in the softer colour, shortened to ``room`` pixels. ``size`` is a multiple of ``unit``."""
        self.canvas.text(at, shortened(text, room, size * self.unit), size * self.unit, self.colours.soft)

    def bar(self, left: float, top: float, wide: float, part: float) -> None:
        """Draw a horizontal bar that is filled to ``part`` (0 to 1). Position and width are in pixels."""
        high = 0.3 * self.unit
        self.canvas.box(left, top, wide, high, self.colours.track, high / 2)
        if part > 0:
            self.canvas.box(left, top, max(high, wide * min(1.0, part)), high, self.colours.bar, high / 2)


def diamond(at: Point, radius: float) -> list[Point]:
    """Return the corners of a time node's diamond around ``at``."""
    across, down = at
    return [(across, down - radius), (across + radius, down), (across, down + radius), (across - radius, down)]


def arrow(start: Point, end: Point, radius: float, wide: float) -> list[Point]:
    """Return the corners of the head of an arrow from ``start`` to the rim of a circle around ``end``."""
    way = complex(end[0] - start[0], end[1] - start[1])
    way /= abs(way) or 1.0
    tip = complex(*end) - way * radius
    back, side = tip - 1.6 * wide * way, 0.6j * wide * way
    return [(corner.real, corner.imag) for corner in (tip, back + side, back - side)]
