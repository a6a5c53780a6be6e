"""Plots of tokens through time: one token in reports, several small plots in the metadata of Dagster's warehouse asset.

Plots of one partition are in ``holderlake.dagster.plots``. The plots here show only numbers, dates and
addresses, because names and labels are untrusted.
"""

from __future__ import annotations

import base64
import io
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

import matplotlib
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from holderlake.warehouse.token_history import Period, token_history
from holderlake.warehouse.warehouse import Warehouse

_log = logging.getLogger(__name__)
_FEWEST_MAPS: Final = 3
"""Fewest maps of a token in ``history_markdown``. Tokens with fewer maps are left out."""
_HUES: Final = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#b8a600", "#8c6bb1")
"""Okabe and Ito's colours, which colour-blind readers can distinguish; the yellow is darker."""
_REST_HUE: Final = "#9aa3af"
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
    """Draw the rows of the query ``concentration``: lines through time for the score and for shares of the supply."""
    frame = rows.to_pandas()
    lines = {
        "score, 0 to 100": (frame["service_score"], 2.4, "-"),
        "10 largest holders, %": (frame["top_10_share"] * 100, 1.5, "-"),
        "in clusters, %": (frame["bundles"] * 100, 1.5, "--"),
        "exchanges, pools, %": (frame["exchanges"] * 100, 1.5, ":"),
    }
    for (name, (values, width, style)), hue in zip(lines.items(), _HUES, strict=False):
        axes.plot(frame["timestamp"], values, style, label=name, color=hue, linewidth=width, marker="o", markersize=3)
    axes.set_ylim(0, 102)


def draw_shares(axes: Axes, rows: pa.Table, look: Look) -> None:
    """Draw the rows of the query ``shares``: a line through time for the share of each of the largest holders."""
    frame = rows.to_pandas()
    addresses = list(dict.fromkeys(frame["address"]))
    wide = frame.pivot_table(index="timestamp", columns="address", values="share", dropna=False)[addresses] * 100
    if len(wide) == 1:
        axes.barh([_short(address) for address in addresses], wide.iloc[0].fillna(0), color=_HUES[0])
        axes.invert_yaxis()
        return
    for address, hue in zip(addresses, _HUES, strict=False):
        axes.plot(wide.index, wide[address], label=_short(address), color=hue, linewidth=1.6, marker="o", markersize=3)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("% of supply")


def draw_turnover(axes: Axes, rows: pa.Table, look: Look) -> None:
    """Draw the rows of the query ``turnover``: bars for the holders that entered and left the list at each instant."""
    frame = rows.to_pandas()
    at = [float(when) for when in date2num(frame["timestamp"])]  # type: ignore[no-untyped-call] # as below
    width = 0.6 * (at[-1] - at[0]) / (len(at) - 1) if len(at) > 1 else 1.0
    axes.xaxis_date()
    axes.bar(at, frame["entered"], width=width, color=_HUES[2], label="entered")
    axes.bar(at, -frame["left"], width=width, color=_HUES[3], label="left", hatch="//", alpha=0.85)
    axes.axhline(0, color=look.ink, linewidth=0.8)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(lambda value, _: f"{abs(value):.0f}")
    axes.set_ylabel("addresses")


def draw_clusters(axes: Axes, rows: pa.Table, look: Look) -> None:
    """Draw the rows of the query ``clusters``: a line through time for the share of each cluster."""
    lines = followed(rows)
    largest = sorted(lines, key=lambda line: -max(share for _, share in line))
    for line, hue in zip(largest, [*_HUES, *[_REST_HUE] * len(largest)], strict=False):
        times, shares = zip(*line, strict=True)
        axes.plot(times, [share * 100 for share in shares], color=hue, linewidth=1.6, marker="o", markersize=4)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("% of supply")


def followed(rows: pa.Table) -> list[list[tuple[datetime, float]]]:
    """Follow each cluster from map to map. Return a list for each cluster: pairs of instant and share of supply (0 to
    1).

    ``rows`` are the result of ``clusters.sql``. If a cluster splits, its largest part continues its list, and each
    other part begins a new list.
    """
    lines: list[list[tuple[datetime, float]]] = []
    line_of: dict[tuple[datetime, int], int] = {}
    present = [row for row in rows.to_pylist() if row["cluster_id"] is not None]
    for row in sorted(present, key=lambda row: (row["timestamp"], -(row["share"] or 0))):
        number = line_of.get((row["previous_timestamp"], row["previous_cluster_id"]))
        if number is None or lines[number][-1][0] == row["timestamp"]:
            lines.append([])
            number = len(lines) - 1
        lines[number].append((row["timestamp"], row["share"]))
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


def plot(question: str, rows: pa.Table, look: Look, form: Literal["svg", "png"] = "svg") -> bytes:
    """Return an SVG or PNG plot of the rows of a query as bytes. ``question`` is a key of ``PLOTS``.

    The same rows give the same bytes.
    """
    with matplotlib.rc_context(_SETTINGS):
        figure = Figure(figsize=(8.6, 3.4), layout="constrained", facecolor=look.ground)
        axes = figure.subplots()
        PLOTS[question](axes, rows, look)
        _finish(axes, look, 9)
        if axes.get_legend_handles_labels()[0]:
            legend = axes.legend(fontsize=8.5, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
            for text in legend.get_texts():
                text.set_color(look.ink)
        return _file(figure, form)


def history_markdown(warehouse: Warehouse, chain: str, tokens: Sequence[str], until: datetime) -> dict[str, str]:
    """Return Markdown images by title, with a small plot for each token that has enough maps. Empty after an error."""
    try:
        answers = _answers(warehouse, chain, tokens, until)
        return {f"{name} through time": _side_by_side(name, plots) for name, plots in answers.items() if plots}
    except Exception as error:  # plots never fail a run
        _log.warning("the plots of %s through time are left out: %s", chain, error)
        return {}


def _answers(
    warehouse: Warehouse, chain: str, tokens: Sequence[str], until: datetime
) -> dict[str, list[tuple[str, pa.Table]]]:
    """Return the rows that each plot draws, by query name: pairs of a token's address and its rows."""
    answers: dict[str, list[tuple[str, pa.Table]]] = {question: [] for question in PLOTS}
    for address in tokens:
        with token_history(warehouse, Period(chain, address, datetime.min, until)) as history:
            tables = {question: history.ask(question) for question in PLOTS}
        if tables["concentration"].num_rows >= _FEWEST_MAPS:
            for question, rows in tables.items():
                if rows.num_rows:
                    answers[question].append((address, rows))
    return answers


def _side_by_side(question: str, plots: Sequence[tuple[str, pa.Table]]) -> str:
    across = min(2, len(plots))
    down = -(-len(plots) // across)
    with matplotlib.rc_context(_SETTINGS):
        figure = Figure(figsize=(4.2 * across, 2.4 * down + 0.5), dpi=80)
        figure.suptitle(TITLES[question], fontsize=9)
        grid = iter(figure.subplots(down, across, squeeze=False).flat)
        for (address, rows), axes in zip(plots, grid, strict=False):
            axes.set_title(_short(address), fontsize=8, loc="left")
            PLOTS[question](axes, rows, LIGHT)
            _finish(axes, LIGHT, 7)
            if question == "concentration" and address == plots[0][0]:
                axes.legend(fontsize=6, frameon=False)
        for axes in grid:  # unused cells
            axes.set_visible(False)
        text = base64.b64encode(_file(figure, "png")).decode()
    return f"![{TITLES[question]}](data:image/png;base64,{text})"


def _finish(axes: Axes, look: Look, size: int) -> None:
    axes.set_facecolor(look.ground)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(look.grid)
    axes.tick_params(labelsize=size, colors=look.ink)
    axes.yaxis.label.set(color=look.ink, fontsize=size)
    axes.grid(axis="y", color=look.grid, linewidth=0.7)
    axes.set_axisbelow(True)
    if isinstance(axes.xaxis.get_major_locator(), AutoDateLocator):
        locator = AutoDateLocator(minticks=3, maxticks=7)  # type: ignore[no-untyped-call] # matplotlib has no type for it
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call] # as above


def _file(figure: Figure, form: str) -> bytes:
    file = io.BytesIO()
    figure.savefig(
        file, format=form, facecolor=figure.get_facecolor(), metadata={"Date": None} if form == "svg" else {}
    )
    return file.getvalue()


def _short(address: str) -> str:
    return address if len(address) < 14 else f"{address[:6]}…{address[-4:]}"
