"""Draw shapes and text with matplotlib, in pixels from the top left of a picture.

pyplot is not used, because it keeps global state. A lock allows one drawing at a time, because matplotlib is not
thread-safe.
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
from matplotlib.collections import EllipseCollection, LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from holderlake.presentation.pictures.drawing import text as texts

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
"""matplotlib settings that replace the user's matplotlibrc, because it could change the measured size of text."""


@contextmanager
def drawing() -> Iterator[None]:
    """Hold the lock for drawing, and use fixed matplotlib settings, while the ``with`` block runs."""
    with _DRAWING, matplotlib.rc_context(_SETTINGS):
        yield


class Canvas:
    """A picture that is being drawn, for use within ``drawing()``. Later shapes cover earlier ones."""

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
        """Draw a rectangle, ``wide`` by ``high`` pixels, with round corners of the radius ``corner``."""
        style = f"round,pad=0,rounding_size={corner}"
        self._axes.add_patch(
            FancyBboxPatch((left, top), wide, high, boxstyle=style, facecolor=fill, linewidth=0, zorder=self._next())
        )

    def circles(
        self, at: Sequence[Point], radii: Sequence[float], fill: Sequence[str], rim: Sequence[str], rim_width: float
    ) -> None:
        """Draw circles with the centres ``at``. ``radii`` include the rim, which is ``rim_width`` wide; units are
        pixels.

        ``fill`` and ``rim`` are colours. All sequences have one element for each circle.
        """
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

    def shapes(
        self, corners: Sequence[Sequence[Point]], fill: Sequence[str], rim: Sequence[str], rim_width: float
    ) -> None:
        """Draw polygons with these ``corners``. ``fill`` and ``rim`` are their colours."""
        self._axes.add_collection(
            PolyCollection(
                list(corners),
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
        """Draw straight lines with round ends. ``ends`` has the two points of each line."""
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
        """Write one line of printable text. Its base line is at the point ``at``."""
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

    def encode(self, form: Form, title: str) -> bytes:
        """Return the picture as a file. Equal drawings give equal files.

        ``title`` must be printable; it becomes part of the file's metadata.
        """
        file = io.BytesIO()
        if form == "png":
            FigureCanvasAgg(self._figure).print_png(file, metadata={"Title": title, "Software": "Holderlake"})  # type: ignore[no-untyped-call]
            return file.getvalue()
        metadata = {"Title": title, "Creator": "Holderlake", "Date": None}
        FigureCanvasSVG(self._figure).print_svg(file, metadata=metadata)  # type: ignore[no-untyped-call]
        points, pixels = (f'width="{self._width}{unit}" height="{self._height}{unit}"' for unit in ("pt", "px"))
        return file.getvalue().replace(points.encode(), pixels.encode(), 1)
