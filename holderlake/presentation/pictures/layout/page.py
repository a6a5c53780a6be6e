"""The areas of a picture by its width: next to each other on a wide page, one below the other on a narrow one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_WIDE: Final = 960
"""Pages of at least this width (pixels) have lists and legend to the right of the map, narrower ones below it."""
_ROOMY: Final = 600
"""Pages narrower than this have more lines of text below the map."""


@dataclass(frozen=True)
class Area:
    """A rectangle of the page, in pixels from the page's top left."""

    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """The right edge."""
        return self.left + self.width

    @property
    def bottom(self) -> float:
        """The lower edge."""
        return self.top + self.height

    def inset(self, margin: float) -> Area:
        """Return the area made smaller by ``margin`` on each side."""
        return Area(self.left + margin, self.top + margin, self.width - 2 * margin, self.height - 2 * margin)


@dataclass(frozen=True)
class Page:
    """A picture's size and areas, in pixels. ``unit`` is the size of plain text; all other sizes depend on it.

    ``finding`` is for the sentence about the map, ``panel`` for the map, ``lists`` for clusters and holders, ``legend``
    for the meaning of colours and sizes. On a wide page, lists and legend share a column, the legend at the bottom.
    """

    unit: float
    width: int
    height: int
    title: Area
    figures: Area
    finding: Area
    panel: Area
    lists: Area
    legend: Area

    @property
    def frame(self) -> Area:
        """Part of the panel in which bubbles may be."""
        return self.panel.inset(0.5 * self.unit)

    @property
    def in_one_column(self) -> bool:
        """Return whether lists and legend share a column."""
        return self.lists == self.legend


def page_of(width: int, lines: float = 1.625) -> Page:
    """Return the page for a width in pixels and a sentence of a height of ``lines`` units.

    Text grows more slowly than the page.
    """
    unit = 7.7 + 0.0055 * width
    return _wide(width, unit, lines) if width >= _WIDE else _narrow(width, unit, lines)


def _wide(width: int, unit: float, lines: float) -> Page:
    margin, height = 1.7 * unit, round(0.62 * width)
    head, side, between = 5.6 * unit, 17.5 * unit, 1.5 * unit
    inner = width - 2 * margin
    figures = Area(width - margin - 36 * unit, margin, 36 * unit, head)
    title = Area(margin, margin, inner - figures.width - 2 * unit, head)
    finding = Area(margin, margin + head + 0.3 * unit, inner, (0.3 + lines) * unit)
    top = finding.bottom + 0.6 * unit
    panel = Area(margin, top, inner - side - between, height - top - margin)
    column = Area(panel.right + between, top, side, panel.height)
    return Page(unit, width, height, title, figures, finding, panel, column, column)


def _narrow(width: int, unit: float, lines: float) -> Page:
    margin, between = 1.6 * unit, 2.2 * unit
    inner = width - 2 * margin
    title = Area(margin, margin, inner, 5.4 * unit)
    figures = Area(margin, title.bottom + 0.7 * unit, inner, 4.0 * unit)
    finding = Area(margin, figures.bottom + 0.6 * unit, inner, (0.3 + lines) * unit)
    panel = Area(margin, finding.bottom + 0.6 * unit, inner, 0.76 * inner)
    half = (inner - between) / 2
    rows = 17 if width >= _ROOMY else 20
    lists = Area(margin, panel.bottom + 1.4 * unit, half, rows * unit)
    legend = Area(margin + half + between, lists.top, half, lists.height)
    return Page(unit, width, round(legend.bottom + margin), title, figures, finding, panel, lists, legend)
