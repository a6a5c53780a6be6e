"""Shapes and text in pixels from a picture's top left, over matplotlib's objects; what is drawn is others' choice.

pyplot is never used: it keeps global state. One picture is drawn at a time, since matplotlib does not promise more.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final, Literal

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.collections import EllipseCollection, LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from holderlake.service.pictures.drawing import text as texts

Form = Literal["png", "svg"]
Point = tuple[float, float]

_DRAWING: Final = Lock()
_SETTINGS: Final[Any] = {
    "svg.hashsalt": "holderlake",
    "svg.fonttype": "path",
    "text.hinting": "no_hinting",
    "text.usetex": False,
    "path.sketch": None,
}
"""What would make two drawings of one map differ, or text other than it was measured; the user's file may set it."""


@contextmanager
def drawing() -> Iterator[None]:
    """The time in which one picture is drawn and written, with nobody else drawing."""
    with _DRAWING, matplotlib.rc_context(_SETTINGS):
        yield


class Canvas:
    """A picture being drawn, within ``drawing()``; later shapes cover earlier ones."""

    def __init__(self, width: int, height: int, ground: str) -> None:
        self._width, self._height = width, height
        # at 72 dots an inch, matplotlib's points are pixels
        self._figure = Figure(figsize=(width / 72, height / 72), dpi=72, facecolor=ground)
        self._axes = self._figure.add_axes((0.0, 0.0, 1.0, 1.0))
        self._axes.set(xlim=(0, width), ylim=(height, 0))
        self._axes.axis("off")
        self._order = 0

    def _next(self) -> int:
        self._order += 1
        return self._order

    def box(self, left: float, top: float, wide: float, high: float, fill: str, corner: float) -> None:
        """A rectangle with round corners."""
        style = f"round,pad=0,rounding_size={corner}"
        self._axes.add_patch(
            FancyBboxPatch((left, top), wide, high, boxstyle=style, facecolor=fill, linewidth=0, zorder=self._next())
        )

    def circles(
        self, at: Sequence[Point], radii: Sequence[float], fill: Sequence[str], rim: Sequence[str], rim_width: float
    ) -> None:
        """Many circles; the rim lies within the radius."""
        across = [2 * radius - rim_width for radius in radii]
        self._axes.add_collection(
            EllipseCollection(
                across,
                across,
                [0.0] * len(across),
                units="xy",
                offsets=list(at),
                offset_transform=self._axes.transData,
                facecolors=list(fill),
                edgecolors=list(rim),
                linewidths=rim_width,
                zorder=self._next(),
            ),
            autolim=False,
        )

    def lines(
        self, ends: Sequence[tuple[Point, Point]], colours: Sequence[str], widths: Sequence[float], opacity: float = 1.0
    ) -> None:
        """Straight lines with round ends."""
        self._axes.add_collection(
            LineCollection(
                list(ends),
                colors=list(colours),
                linewidths=list(widths),
                alpha=opacity,
                capstyle="round",
                zorder=self._next(),
            ),
            autolim=False,
        )

    def text(
        self,
        at: Point,
        text: str,
        size: float,
        colour: str,
        *,
        bold: bool = False,
        across: Literal["left", "center", "right"] = "left",
    ) -> None:
        """One line of printable text, ``at`` on its base line."""
        if text:
            self._axes.text(
                *at,
                text,
                fontproperties=texts.FONTS[bold],
                fontsize=size,
                color=colour,
                horizontalalignment=across,
                verticalalignment="baseline",
                parse_math=False,
                zorder=self._next(),
            )

    def written(self, form: Form, title: str) -> bytes:
        """The picture's file, the same for the same drawing; ``title`` (printable) is in its metadata."""
        file = io.BytesIO()
        if form == "png":
            known = {"Title": title, "Software": "Holderlake"}
            FigureCanvasAgg(self._figure).print_png(file, metadata=known)  # type: ignore[no-untyped-call]
            return file.getvalue()
        said = {"Title": title, "Creator": "Holderlake", "Date": None}
        FigureCanvasSVG(self._figure).print_svg(file, metadata=said)  # type: ignore[no-untyped-call]
        points, pixels = (f'width="{self._width}{unit}" height="{self._height}{unit}"' for unit in ("pt", "px"))
        return file.getvalue().replace(points.encode(), pixels.encode(), 1)
