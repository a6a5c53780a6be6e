"""Plots of a token through time, for reports.

Plots of one partition are in ``asset_plots``. The plots here show only numbers, dates and addresses, because names and
labels are untrusted.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import nan
from typing import Any, Final

import matplotlib
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from holderlake.core.contract.figures import FIGURES, HEADLINE, UNITS
from holderlake.presentation.pictures.drawing.colours import PALETTE

_REST_HUE: Final = "#9aa3af"
_LONGEST_NAME: Final = 22
_LAST_LETTER: Final = 0x250
"""Code points from here on are not Latin."""
_NAMED_CLUSTERS: Final = 6
_TEXT_SIZE: Final = 9.5
WIDTH, NARROW = 8.6, 4.2
"""Inches of a plot in a report, on a screen and on a phone."""
_SETTINGS: Final[Any] = {"svg.hashsalt": "holderlake", "svg.fonttype": "path", "text.parse_math": False}


@dataclass(frozen=True)
class Look:
    """Colours of a plot's background, text and grid."""

    ground: str
    ink: str
    grid: str


LIGHT: Final = Look("#ffffff", "#3d4653", "#e1e6ed")
DARK: Final = Look("#1a1f27", "#c3cad4", "#333b47")


def draw_concentration(axes: Axes, rows: pa.Table, look: Look) -> None:
    """Draw the rows of the query ``concentration``: a line through time for each of the figures above a map."""
    times = rows["timestamp"].to_numpy()
    for column, style, hue in zip(HEADLINE, ("-", "-.", "--", ":", "-"), PALETTE, strict=False):
        figure = FIGURES[column]
        values = numbers(rows, column) * (100 if figure.unit == "share" else 1)
        label = f"{figure.title}, {UNITS[figure.unit]}"
        axes.plot(times, values, style, label=label, color=hue, linewidth=1.6, marker="o", markersize=3)
    axes.set_ylim(0, 102)


def draw_shares(axes: Axes, rows: pa.Table, look: Look) -> None:
    """Draw the rows of the query ``shares``: a line through time for the share of each of the largest holders."""
    shares = {(row["address"], row["timestamp"]): row["share"] for row in rows.to_pylist()}
    names = {row["address"]: _name(row["address"], row["label"]) for row in rows.to_pylist()}
    times = sorted({when for _, when in shares})
    if len(times) == 1:
        axes.barh(list(names.values()), [share or 0 for share in shares.values()], color=PALETTE[0])
        axes.invert_yaxis()
        axes.xaxis.set_major_formatter(percent_tick)
        return
    for (address, name), hue in zip(names.items(), PALETTE, strict=False):
        line = [shares.get((address, when)) for when in times]
        values = [nan if share is None else share for share in line]
        axes.plot(times, values, label=name, color=hue, linewidth=1.6, marker="o", markersize=3)
    _in_percent(axes)


def draw_turnover(axes: Axes, rows: pa.Table, look: Look) -> None:
    """Draw the rows of the query ``turnover``: bars for the holders that entered and left the list at each instant."""
    at = [float(when) for when in date2num(rows["timestamp"].to_pylist())]  # type: ignore[no-untyped-call] # as below
    width = 0.6 * (at[-1] - at[0]) / (len(at) - 1) if len(at) > 1 else 1.0
    axes.xaxis_date()
    axes.bar(at, numbers(rows, "entered"), width=width, color=PALETTE[2], label="entered")
    axes.bar(at, -numbers(rows, "left"), width=width, color=PALETTE[3], label="left", hatch="//", alpha=0.85)
    axes.axhline(0, color=look.ink, linewidth=0.8)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(lambda value, _: f"{abs(value):.0f}")
    axes.set_ylabel("addresses")


def draw_clusters(axes: Axes, rows: pa.Table, look: Look) -> None:
    """Draw the rows of the query ``clusters``: a line through time for the share of each cluster."""
    lines = followed(rows)
    largest = sorted(lines, key=lambda line: -max(row["share"] or 0 for row in line))
    for number, line in enumerate(largest):
        is_named = number < _NAMED_CLUSTERS
        name = f"cluster {line[-1]['cluster_id']} on {line[-1]['timestamp']:%Y-%m-%d}"
        axes.plot(
            [row["timestamp"] for row in line],
            [row["share"] for row in line],
            color=PALETTE[number] if is_named else _REST_HUE,
            label=name if is_named else "smaller ones" if number == _NAMED_CLUSTERS else None,
            linewidth=1.6,
            marker="o",
            markersize=4,
        )
    _in_percent(axes)


def numbers(rows: pa.Table, column: str) -> npt.NDArray[np.float64]:
    """Return a column of numbers as floats, null as NaN, which a plot leaves out."""
    return np.array([nan if value is None else value for value in rows[column].to_pylist()], dtype=float)


def percent_tick(share: float, _: object = None) -> str:
    """Return the label of an axis at a share (0 to 1)."""
    return f"{100 * share:.4g}%"


def _in_percent(axes: Axes) -> None:
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(percent_tick)
    axes.set_ylabel("share of supply")


def followed(rows: pa.Table) -> list[list[dict[str, Any]]]:
    """Follow each cluster from map to map. Return a list for each cluster: its rows by time.

    ``rows`` are the result of ``clusters.sql``. If a cluster splits, its largest part continues its list, and each
    other part begins a new list.
    """
    lines: list[list[dict[str, Any]]] = []
    line_of: dict[tuple[datetime, int], int] = {}
    present = [row for row in rows.to_pylist() if row["cluster_id"] is not None]
    for row in sorted(present, key=lambda row: (row["timestamp"], -(row["share"] or 0))):
        number = line_of.get((row["previous_timestamp"], row["previous_cluster_id"]))
        if number is None or lines[number][-1]["timestamp"] == row["timestamp"]:
            lines.append([])
            number = len(lines) - 1
        lines[number].append(row)
        line_of[row["timestamp"], row["cluster_id"]] = number
    return lines


Draw = Callable[[Axes, pa.Table, Look], None]
PLOTS: Final[Mapping[str, Draw]] = {
    "concentration": draw_concentration,
    "shares": draw_shares,
    "turnover": draw_turnover,
    "clusters": draw_clusters,
}
"""Drawing functions by the name of a query in ``report_sql``, whose rows they draw."""
TITLES: Final[Mapping[str, str]] = {
    "concentration": "Score and shares of the supply",
    "shares": "Shares of the largest holders",
    "turnover": "Who entered the list of holders and who left it",
    "clusters": "Share of supply of each cluster, followed through time",
}
"""Titles of the plots, by the name of the query."""


def plot(question: str, rows: pa.Table, look: Look, width: float = WIDTH) -> bytes:
    """Return an SVG plot of the rows of a query as bytes, ``width`` inches wide. ``question`` is a key of ``PLOTS``.

    The same rows give the same bytes.
    """
    with matplotlib.rc_context(_SETTINGS):
        figure = Figure(figsize=(width, 3.7), layout="constrained", facecolor=look.ground)
        _draw(figure, question, rows, look, width)
        file = io.BytesIO()
        figure.savefig(file, format="svg", facecolor=figure.get_facecolor(), metadata={"Date": None})
        return file.getvalue()


def _draw(figure: Figure, question: str, rows: pa.Table, look: Look, width: float) -> None:
    """Draw the rows of a query with a legend below. ``width`` (inches) is that of the figure."""
    axes = figure.subplots()
    PLOTS[question](axes, rows, look)
    _finish(axes, look)
    legend_below(figure, axes, look.ink, width)


def legend_below(figure: Figure, axes: Axes, ink: str, width: float) -> None:
    """Add the legend of the axes below them, as far as they have labels, in a figure of ``width`` inches."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        longest = 0.085 * max(map(len, labels)) + 0.62
        columns = max(1, min(len(labels), int(width / longest)))
        figure.legend(
            handles, labels, ncols=columns, loc="outside lower left", fontsize=_TEXT_SIZE, frameon=False, labelcolor=ink
        )


def _finish(axes: Axes, look: Look) -> None:
    axes.set_facecolor(look.ground)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(look.grid)
    axes.tick_params(labelsize=_TEXT_SIZE, colors=look.ink)
    axes.yaxis.label.set(color=look.ink, fontsize=_TEXT_SIZE)
    axes.grid(axis="y", color=look.grid, linewidth=0.7)
    axes.set_axisbelow(True)
    if isinstance(axes.xaxis.get_major_locator(), AutoDateLocator):
        locator = AutoDateLocator(minticks=3, maxticks=7)  # type: ignore[no-untyped-call] # matplotlib has no type for it
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call] # as above


def _name(address: str, label: str | None) -> str:
    """Return the label of an address if the font has its letters, or else the beginning and end of the address."""
    is_drawn = label is not None and label.isprintable() and max(map(ord, label), default=_LAST_LETTER) < _LAST_LETTER
    if label is None or not is_drawn or label.startswith("_"):  # matplotlib leaves such names out of a legend
        return _short(address)
    return label if len(label) <= _LONGEST_NAME else f"{label[: _LONGEST_NAME - 1]}…"


def _short(address: str) -> str:
    return address if len(address) < 14 else f"{address[:6]}…{address[-4:]}"
