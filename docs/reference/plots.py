"""Plots of the answers in ``questions.md``: one small SVG picture for each question.

A comment above the image says what is drawn: ``<!-- bars: VALUE by COLUMN, COLUMN -->`` draws a bar for each row, and
``<!-- lines: VALUE by TIME for COLUMN -->`` a line through time for each value of the last column; it may be left out.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import matplotlib
import pandas as pd
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

from holderlake.presentation.export.history_plots import percent_tick

_QUESTION: Final = re.compile(r"```sql\n(.*?)```.*?<!-- (.*?) -->\n!\[.*?\]\((.*?)\)", re.DOTALL)
_PLOT: Final = re.compile(r"(bars|lines): (\w+) by ([\w, ]+?)(?: for (\w+))?")
HUES: Final = ("#0072b2", "#e69f00", "#009e73", "#d55e00")
"""Okabe and Ito's colours, which colour-blind readers can distinguish."""
_LONGEST: Final = 20
_COLOURS: Final = (
    "svg { --ink: #1f2328; --paper: #ffffff } "
    "@media (prefers-color-scheme: dark) { svg { --ink: #e6edf3; --paper: #131416 } } "
    "text { fill: var(--ink) }"
)
"""Colours of text and ground. A reader's dark mode changes both, so that the text is legible on any page."""
_SETTINGS: Final[Any] = {"svg.hashsalt": "holderlake", "svg.fonttype": "none", "font.size": 9}


def plots(page: str, query: Callable[[str], pa.Table]) -> Iterator[tuple[str, str]]:
    """Yield the path and the SVG text of each plot in a page. ``query`` returns the answer to a question."""
    for sql, text, path in _QUESTION.findall(page):
        plot = _PLOT.fullmatch(text)
        if plot is None:
            raise ValueError(f"invalid plot '{text}' of {path}: use for example 'bars: share by rank, address'")
        kind, value, columns, series = plot.groups()
        frame = query(sql).to_pandas()
        frame[value] = frame[value].astype(float)
        yield path, _svg(frame, kind, value, columns.split(", "), series)


def _svg(frame: pd.DataFrame, kind: str, value: str, columns: list[str], series: str | None) -> str:
    height = 0.7 + 0.26 * len(frame) if kind == "bars" else 2.8

    def draw(axes: Axes) -> None:
        if kind == "bars":
            _draw_bars(axes, frame, value, columns)
        else:
            _draw_lines(axes, frame, value, columns[0], series)

    return svg_of(draw, height)


def svg_of(draw: Callable[[Axes], None], height: float) -> str:
    """Return a picture of the docs' width, and a height in inches, as SVG text."""
    with matplotlib.rc_context(_SETTINGS):
        figure = Figure(figsize=(7, height), layout="constrained")
        axes = figure.subplots()
        axes.spines[["top", "right"]].set_visible(False)
        draw(axes)
        picture = io.StringIO()
        figure.savefig(picture, format="svg", metadata={"Date": None, "Creator": None})
    svg = picture.getvalue().replace("#000000", "var(--ink)").replace("#ffffff", "var(--paper)")
    return svg.replace('<style type="text/css">', f'<style type="text/css">{_COLOURS} ')


def _draw_bars(axes: Axes, frame: pd.DataFrame, value: str, columns: list[str]) -> None:
    places = range(len(frame))
    axes.barh(places, frame[value], color=HUES[0], height=0.6)
    axes.set_yticks(places, ["  ".join(map(_short, row)) for row in frame[columns].itertuples(index=False)])
    axes.invert_yaxis()
    _name_axis(axes.xaxis, value)


def _draw_lines(axes: Axes, frame: pd.DataFrame, value: str, time: str, series: str | None) -> None:
    parts = frame.groupby(series) if series else [(None, frame)]
    for (name, rows), hue in zip(parts, HUES, strict=False):
        axes.plot(rows[time], rows[value], color=hue, marker="o", markersize=3, label=name)
    locator = AutoDateLocator()
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    axes.set_ylim(bottom=0)
    _name_axis(axes.yaxis, value)
    if len(axes.lines) > 1:
        axes.legend(frameon=False)


def _name_axis(axis: Axis, value: str) -> None:
    """Label an axis with the column's name in words, and its ticks with percent if the column is a share."""
    axis.set_label_text(value.replace("_", " "))
    axis.set_major_formatter(percent_tick if "share" in value else lambda number, _: _rounded(number))


def _rounded(number: float) -> str:
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:g}{letter}"
    return f"{number:.6g}"


def _short(value: Any) -> str:
    if isinstance(value, pd.Timestamp):
        return f"{value:%Y-%m-%d}"
    text = str(value)  # an address is longer than all other names
    return text if len(text) <= _LONGEST else f"{text[:6]}…{text[-4:]}"
