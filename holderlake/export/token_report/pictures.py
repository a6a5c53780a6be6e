"""The pictures of a report, for light and dark pages: plots through time, and the first and the last map."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from holderlake.contract.text import printable
from holderlake.export.history_plots import DARK, LIGHT, PLOTS, TITLES, plot
from holderlake.export.html import percent
from holderlake.export.token_report.content import Content
from holderlake.units import counted

_log = logging.getLogger(__name__)
_MAP_WIDTH = 600


@dataclass(frozen=True)
class Picture:
    """A picture as two SVG data URLs, for light and dark pages, and its alternative text."""

    light: str
    dark: str
    alt: str


def plots_of(content: Content) -> dict[str, Picture]:
    """Return the plots through time by the name of the query. A query without rows has no plot."""
    pictures = {}
    for question in PLOTS:
        rows = content.answers[question]
        if rows.num_rows:
            with _left_out_on_failure(question):
                light, dark = (_data_url(plot(question, rows, look)) for look in (LIGHT, DARK))
                pictures[question] = Picture(light, dark, _alternative_text(content, question))
    return pictures


def maps_of(content: Content) -> dict[datetime, Picture]:
    """Return pictures (bubble maps) of the report's first and last map, by instant."""
    from holderlake.service.pictures.drawing.draw import Theme, TokenTitle, draw_map

    pictures = {}
    for at, tables in content.maps.items():
        title = TokenTitle(
            printable(content.token["name"] or ""), printable(content.token["symbol"] or ""), content.period.chain, at
        )
        nodes, clusters = tables["map_nodes"].to_pylist(), tables["clusters"].num_rows
        holder_count = sum(1 for node in nodes if node["kind"] == "top_holder" and node["is_shown_on_map"])
        alt = (
            f"Bubble map at {at:%Y-%m-%d %H:%M} UTC: {counted(holder_count, 'holder')}, {counted(clusters, 'cluster')}."
        )
        with _left_out_on_failure(f"map at {at:%Y-%m-%d %H:%M}"):
            light, dark = (
                _data_url(draw_map(tables, title, width=_MAP_WIDTH, theme=theme, form="svg"))
                for theme in (Theme.LIGHT, Theme.DARK)
            )
            pictures[at] = Picture(light, dark, alt)
    return pictures


@contextmanager
def _left_out_on_failure(picture: str) -> Iterator[None]:
    """Log errors of the ``with`` block instead of raising them, so that the report appears without ``picture``."""
    try:
        yield
    except Exception as error:
        _log.warning("the picture %s is left out of the report: %s", picture, error)


def _alternative_text(content: Content, question: str) -> str:
    rows = content.rows(question)
    start, end = rows[0]["timestamp"], rows[-1]["timestamp"]
    text = f"{TITLES[question]}, {start:%Y-%m-%d} to {end:%Y-%m-%d}."
    if question == "concentration":
        scores = [row["service_score"] for row in rows if row["service_score"] is not None]
        if scores:
            text += f" The score goes from {scores[0]:.1f} to {scores[-1]:.1f}."
    elif question == "turnover":
        text += f" {sum(row['entered'] for row in rows):,} entered and {sum(row['left_it'] for row in rows):,} left."
    elif question == "clusters":
        text += f" The largest held {percent(max(row['share'] or 0 for row in rows))} of the supply."
    else:
        text += f" The largest share was {percent(max(row['share'] or 0 for row in rows))} of the supply."
    return f"{text} The table below has the numbers."


def _data_url(svg: bytes) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"
