"""The report of a token: an HTML page about one token and period, in one file without external resources.

It queries the warehouse, draws plots and maps, and writes the file.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from holderlake.core.contract.figures import FIGURES, NOTHING, Figure
from holderlake.core.contract.text import printable
from holderlake.core.storage.atomic_files import whole_file
from holderlake.core.units import counted
from holderlake.core.warehouse.warehouse import Warehouse
from holderlake.presentation.export.history_plots import DARK, LIGHT, NARROW, PLOTS, TITLES, WIDTH, plot
from holderlake.presentation.export.html import html_page, percent, short
from holderlake.presentation.export.token_history import Period, TokenHistory, questions, token_history

_DECIMALS: Final = {"score": 1, "share": 2, "index": 3, "groups": 0}
"""Decimals of a figure's change by its unit; a change of a share is in percentage points."""
_MOST_EVENTS: Final = 60
_log = logging.getLogger(__name__)
_MAP_WIDTH = 400
"""Pixels of a map: its text is legible on a phone, and in one of two columns on a screen."""


@dataclass(frozen=True)
class Written:
    """A written page: its path and its size in bytes.

    ``instants`` is the number of instants with data in the page, ``first`` and ``last`` the first and last of them.
    """

    path: Path
    bytes: int
    instants: int
    first: datetime
    last: datetime


@dataclass(frozen=True)
class FigureRow:
    """A row of the report's table of key figures, as texts.

    ``first_value`` and ``last_value`` are the values on the first and the last map, ``change`` is their difference.
    """

    name: str
    explanation: str
    first_value: str
    last_value: str
    change: str


def write_report(warehouse: Warehouse, period: Period, path: Path, made_at: datetime) -> Written:
    """Write the report of a token in a period. The file appears when it is complete.

    Raises ``ValueError`` if there is no data about the token or in the period, or the file cannot be written.
    """
    content = gather(warehouse, period)
    page = report_page(content, made_at).encode()
    try:
        with whole_file(path) as part:
            part.write_bytes(page)
    except OSError as error:
        raise ValueError(f"cannot write {path} ({error.strerror}): give another path") from error
    token = content.token
    return Written(path, len(page), token["instants"], token["first_instant"], token["last_instant"])


def report_page(content: Content, made_at: datetime) -> str:
    """Return the HTML of a report. ``made_at`` (UTC) is shown as the time of the report."""
    events = [row for row in content.rows("clusters") if row["event"] != "same"]
    return html_page(
        "holderlake.presentation.export",
        "token_report.html",
        content=content,
        token=content.token,
        period=content.period,
        name=content.token["name"] or content.token["symbol"] or short(content.period.token_address),
        summary=_summary(content),
        figures=_figures(content.rows("concentration")),
        quality=content.rows("quality")[0],
        events=events[-_MOST_EVENTS:],
        events_of_all=len(events),
        names=FIGURES,
        plots=plots_of(content),
        maps=maps_of(content),
        made_at=made_at,
    )


def _summary(content: Content) -> str:
    """Return a few sentences about the score, the largest holders, and their changes in the period."""
    sentences = []
    maps, holders = content.rows("concentration"), content.rows("holders")
    scores = [row["service_score"] for row in maps if row["service_score"] is not None]
    if len(scores) > 1:
        verb = "fell" if scores[-1] < scores[0] else "rose"
        first_score, last_score = (FIGURES["service_score"].text(score) for score in (scores[0], scores[-1]))
        sentences.append(f"The score {verb} from {first_score} to {last_score}.")
    if maps and maps[-1]["top_10_share"] is not None:
        sentences.append(f"The ten largest holders have {percent(maps[-1]['top_10_share'])} of the supply")
        sentences[-1] += f", clusters {percent(maps[-1]['bundles'])}." if maps[-1]["bundles"] else "."
    new_count = sum(1 for row in holders[:10] if row["rank_before"] is None)
    if content.rows("turnover"):
        sentences.append(f"Of the first {min(10, len(holders))}, {new_count} were not listed at the beginning.")
    return " ".join(sentences)


def _figures(rows: list[dict[str, Any]]) -> list[FigureRow]:
    if not rows:
        return []
    return [
        FigureRow(
            figure.title,
            figure.explanation,
            figure.text(rows[0][column]),
            figure.text(rows[-1][column]),
            _change(rows[0][column], rows[-1][column], figure),
        )
        for column, figure in FIGURES.items()
    ]


def _change(first_value: float | None, last_value: float | None, figure: Figure) -> str:
    if first_value is None or last_value is None:
        return NOTHING
    factor = 100 if figure.unit == "share" else 1
    return f"{(last_value - first_value) * factor:+,.{_DECIMALS[figure.unit]}f}".replace("-", "\u2212")


@dataclass(frozen=True)
class Content:
    """Data of a report.

    ``token`` is the row of the query ``token``: name and symbol, the number of instants with data, and the first and
    the last of these instants.
    ``answers`` has the rows of the other queries by query name. ``maps`` has two maps, the first and the last of the
    period, by instant; a map is its tables by name.
    """

    period: Period
    token: dict[str, Any]
    answers: dict[str, pa.Table]
    maps: dict[datetime, dict[str, pa.Table]]

    def rows(self, question: str) -> list[dict[str, Any]]:
        """Return the rows of a query by its name. Each row is a dictionary of values by column."""
        rows: list[dict[str, Any]] = self.answers[question].to_pylist()
        return rows


def gather(warehouse: Warehouse, period: Period) -> Content:
    """Return the data of a report.

    Raises ``ValueError`` if the warehouse has no data about the token or in the period.
    """
    with token_history(warehouse, period) as history:
        token = history.ask("token").to_pylist()[0]
        if token["known_from"] is None:
            raise ValueError(_unknown(warehouse, period))
        if not token["instants"]:
            raise ValueError(
                f"no data of {period.token_address} on {period.chain} from {period.since:%Y-%m-%d %H:%M} to "
                f"{period.until:%Y-%m-%d %H:%M}; the warehouse has data from {token['known_from']:%Y-%m-%d %H:%M} to "
                f"{token['known_to']:%Y-%m-%d %H:%M}"
            )
        history.since, history.until = token["first_instant"], token["last_instant"]
        answers = {question: history.ask(question) for question in questions() if question != "token"}
        return Content(period, token, answers, _maps(history, token))


def _maps(history: TokenHistory, token: dict[str, Any]) -> dict[datetime, dict[str, pa.Table]]:
    ends = dict.fromkeys(at for at in (token["first_map"], token["last_map"]) if at is not None)
    return {at: history.map_at(at) for at in ends}


def _unknown(warehouse: Warehouse, period: Period) -> str:
    """Return the error text for a token without data. It names other chains or tokens that have data."""
    elsewhere = warehouse.query(
        "SELECT DISTINCT chain FROM tokens WHERE token_address = ? ORDER BY chain", [period.token_address]
    )["chain"].to_pylist()
    problem = f"the warehouse has no data of {period.token_address} on {period.chain}"
    if elsewhere:
        return f"{problem}, but on {', '.join(elsewhere)}"
    addresses = warehouse.query(
        "SELECT DISTINCT token_address FROM maps WHERE chain = ? ORDER BY ALL LIMIT 5", [period.chain]
    )["token_address"].to_pylist()
    if not addresses:
        return f"{problem}, nor of any token there; 'holderlake ingest --chain {period.chain} --token …' fetches one"
    return f"{problem}; on that chain it has {', '.join(addresses)}{' and more' if len(addresses) == 5 else ''}"


@dataclass(frozen=True)
class Picture:
    """A picture as two SVG data URLs, for light and dark pages, and its alternative text.

    ``narrow`` has the same two for a phone, if they differ.
    """

    light: str
    dark: str
    alt: str
    narrow: tuple[str, str] | None = None


def plots_of(content: Content) -> dict[str, Picture]:
    """Return the plots through time by the name of the query. A query without rows has no plot."""
    pictures = {}
    for question in PLOTS:
        rows = content.answers[question]
        if rows.num_rows:
            with _left_out_on_failure(question):
                (light, dark), narrow = (
                    (_data_url(plot(question, rows, LIGHT, width)), _data_url(plot(question, rows, DARK, width)))
                    for width in (WIDTH, NARROW)
                )
                pictures[question] = Picture(light, dark, _alternative_text(content, question), narrow)
    return pictures


def maps_of(content: Content) -> dict[datetime, Picture]:
    """Return pictures (bubble maps) of the report's first and last map, by instant."""
    from holderlake.presentation.pictures.drawing.draw import Theme, TokenTitle, draw_map

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
        text += f" {sum(row['entered'] for row in rows):,} entered and {sum(row['left'] for row in rows):,} left."
    elif question == "clusters":
        text += f" The largest held {percent(max(row['share'] or 0 for row in rows))} of the supply."
    else:
        text += f" The largest share was {percent(max(row['share'] or 0 for row in rows))} of the supply."
    return f"{text} The table below has the numbers."


def _data_url(svg: bytes) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"
