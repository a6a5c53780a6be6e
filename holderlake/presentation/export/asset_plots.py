"""Plots of a partition for the asset metadata: PNG images within Markdown.

Names of tokens are drawn as plain text. A plot that cannot be drawn is logged and left out; it never fails a run.
Plots through time are in ``history_plots``.
"""

from __future__ import annotations

import base64
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from itertools import accumulate, groupby
from typing import Final, TypeAlias

import matplotlib
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from dagster import MetadataValue
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter
from PIL import Image

from holderlake.core.contract.figures import FIGURES
from holderlake.core.contract.text import printable
from holderlake.core.lake.lake import Lake
from holderlake.presentation.export.history_plots import legend_below, numbers, percent_tick
from holderlake.presentation.pictures.drawing.colours import PALETTE

_BLUE, _ORANGE, _GREY = "#4269d0", "#efb118", "#9498a0"
_CLUSTERS: Final = (("largest cluster", _BLUE), ("second", _ORANGE), ("smaller ones", _GREY))
"""Names and colours of the first clusters; further ones look like the third."""
_LONGEST_NAME: Final = 24
_MOST_TOKENS: Final = 8
"""Maximum tokens in a plot: the names of more would overlap."""
_log = logging.getLogger(__name__)
_Draw: TypeAlias = Callable[[Axes, pa.Table, Mapping[str, str]], None]
_SUPPLY = ("cexs", "dexs", "fresh_wallets", "top_10_adjusted", "bundles")
_TEXT_SIZE: Final = 9.5
"""Points; 12.7 pixels in Dagster's dialog, which shows pictures in their own size."""
_WIDTH: Final = 7.0
"""Inches of a plot at ``_DPI``: as wide as Dagster's dialog."""
_DPI: Final = 96
_COLOURS: Final = 64
"""Colours of a plot in Dagster's history, which stores it three times."""


def plots(table: str, lake: Lake, chain: str, as_of: datetime) -> dict[str, MetadataValue]:
    """Return the plot of a table at one as-of instant as asset metadata; empty if the table has no plot or no rows.

    It shows the first ``_MOST_TOKENS`` tokens; the title says of how many.
    """
    if table not in _PLOTS:
        return {}
    title, draw = _PLOTS[table]
    try:
        rows = lake.read(table, chain, as_of)
        if not rows.num_rows:
            return {}
        tokens = pc.unique(rows["token_address"])
        caption = f"{title} · {chain} · {as_of:%Y-%m-%d %H:%M} UTC"
        if len(tokens) > _MOST_TOKENS:
            rows = rows.filter(pc.is_in(rows["token_address"], tokens.slice(0, _MOST_TOKENS)))
            caption += f" · {_MOST_TOKENS} of {len(tokens):,} tokens"
        text = base64.b64encode(_picture(draw, rows, _symbols(lake, chain, as_of), caption)).decode()
    except Exception as error:
        _log.warning("the plot of %s of %s is left out: %s", table, chain, error)
        return {}
    return {"plot": MetadataValue.md(f"![{title}](data:image/png;base64,{text})")}


def _picture(draw: _Draw, rows: pa.Table, symbols: Mapping[str, str], title: str) -> bytes:
    with plain_text():
        figure = Figure(figsize=(_WIDTH, 4.6), dpi=_DPI, layout="constrained")
        axes = figure.subplots()
        draw(axes, rows, symbols)
        axes.set_title(title, fontsize=_TEXT_SIZE, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=_TEXT_SIZE)
        for label in (axes.xaxis.label, axes.yaxis.label):
            label.set_fontsize(_TEXT_SIZE)
        legend_below(figure, axes, "black", _WIDTH)
        return _small_png(figure)


def _small_png(figure: Figure) -> bytes:
    """Return a figure as a PNG of few colours: a quarter of its bytes."""
    drawn, small = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png")
    with Image.open(drawn) as picture:
        picture.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE).save(small, "png", optimize=True)
    return small.getvalue()


@contextmanager
def plain_text() -> Iterator[None]:
    """Make matplotlib draw text between dollar signs as plain text within the ``with`` block, not as formulas.

    Warnings about missing glyphs are suppressed too.
    """
    with matplotlib.rc_context({"text.parse_math": False, "text.usetex": False}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        yield


def _symbols(lake: Lake, chain: str, as_of: datetime) -> dict[str, str]:
    tokens = lake.read("tokens", chain, as_of)
    return dict(zip(tokens["token_address"].to_pylist(), tokens["symbol"].to_pylist(), strict=True))


def _name(symbols: Mapping[str, str], address: str) -> str:
    """Return a token's symbol as a label, or its address if it has no symbol."""
    symbol = printable(symbols.get(address) or "").strip()
    if not symbol:
        return address if len(address) < 14 else f"{address[:6]}…{address[-4:]}"
    short = symbol if len(symbol) <= _LONGEST_NAME else f"{symbol[: _LONGEST_NAME - 1]}…"
    return f" {short}" if short.startswith("_") else short  # a legend leaves out labels that begin with "_"


def _draw_holders(axes: Axes, rows: pa.Table, symbols: Mapping[str, str]) -> None:
    """Draw the share of supply that the first N holders have together, one line a token."""
    listed = rows.select(["token_address", "rank", "share"]).sort_by(
        [("token_address", "ascending"), ("rank", "ascending")]
    )
    for address, of_token in groupby(listed.to_pylist(), key=lambda row: str(row["token_address"])):
        holders = list(of_token)
        ranks, shares = [row["rank"] for row in holders], accumulate(row["share"] or 0 for row in holders)
        axes.plot(ranks, list(shares), label=_name(symbols, address), linewidth=1.6)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("number of holders, largest first")
    axes.set_ylabel("share of supply")
    axes.yaxis.set_major_formatter(percent_tick)
    axes.set_ylim(0, 1.02)


def _draw_maps(axes: Axes, rows: pa.Table, symbols: Mapping[str, str]) -> None:
    """Draw the shares of supply by kind of holder, one group of bars a token."""
    scores = [f"score {FIGURES['service_score'].text(score)}" for score in rows["service_score"].to_pylist()]
    names = [_name(symbols, address) for address in rows["token_address"].to_pylist()]
    places, height = np.arange(len(names)), 0.8 / len(_SUPPLY)
    for number, (measure, hue) in enumerate(zip(_SUPPLY, PALETTE, strict=False)):
        middle = places + (number + 0.5) * height - 0.4
        axes.barh(middle, numbers(rows, measure), height, label=FIGURES[measure].title, color=hue)
    axes.set_yticks(places, [f"{name}\n{score}" for name, score in zip(names, scores, strict=True)])
    axes.set_xlim(0, 1)
    axes.margins(y=0.02)
    axes.invert_yaxis()  # the first token and the first measure on top, as in the legend
    axes.xaxis.set_major_formatter(percent_tick)
    axes.set_xlabel("share of supply")


def _draw_clusters(axes: Axes, rows: pa.Table, symbols: Mapping[str, str]) -> None:
    """Draw the share of supply of each cluster, one bar a token."""
    shares = {(row["token_address"], row["cluster_id"]): row["share"] or 0 for row in rows.to_pylist()}
    tokens = sorted({token for token, _ in shares})
    starts = np.zeros(len(tokens))
    for number, cluster in enumerate(sorted({cluster for _, cluster in shares})):
        name, colour = _CLUSTERS[number] if number < len(_CLUSTERS) else (None, _GREY)
        widths = np.array([shares.get((token, cluster), 0) for token in tokens])
        axes.barh(range(len(tokens)), widths, 0.5, starts, label=name, color=colour, edgecolor="white")
        starts += widths
    axes.set_yticks(range(len(tokens)), [_name(symbols, token) for token in tokens])
    axes.xaxis.set_major_formatter(percent_tick)
    axes.set_xlabel("share of supply")
    axes.set_ylabel("")


_PLOTS: Mapping[str, tuple[str, _Draw]] = {
    "holders": ("Share of supply held by the first N holders", _draw_holders),
    "maps": ("Share of supply by kind of holder", _draw_maps),
    "clusters": ("Share of supply of each cluster", _draw_clusters),
}
"""Title and drawing function of each table's plot."""
