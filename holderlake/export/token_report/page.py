"""Write a report as one HTML page without scripts and external resources. Every text is escaped."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from holderlake.export.html import html_page, number, percent, short
from holderlake.export.token_report.content import Content, gather
from holderlake.export.token_report.pictures import maps_of, plots_of
from holderlake.storage.atomic_files import whole_file
from holderlake.warehouse.token_history import Period
from holderlake.warehouse.warehouse import Warehouse

_FIGURES: Final = (
    ("service_score", "Score, 0 concentrated to 100 decentralised", 1.0, 1),
    ("top_10_share", "10 largest holders", 100.0, 2),
    ("top_10_adjusted", "10 largest entities, without exchanges", 100.0, 2),
    ("bundles", "10 largest clusters", 100.0, 2),
    ("cexs", "Centralised exchanges", 100.0, 2),
    ("dexs", "Decentralised exchanges", 100.0, 2),
    ("contracts", "Contracts", 100.0, 2),
    ("fresh_wallets", "Fresh wallets", 100.0, 2),
    ("gini_index", "Gini index", 1.0, 3),
    ("herfindahl_hirschman_index", "Herfindahl\u2013Hirschman index", 1.0, 4),
    ("nakamoto_coefficient", "Entities that together hold half", 1.0, 0),
)
"""Rows of the table of key figures: column of the query ``concentration``, title, factor, number of decimals.

The shown number is the value times the factor: 100 shows a share as a percentage.
"""
_MOST_EVENTS: Final = 60


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
class Figure:
    """A row of the report's table of key figures, as texts.

    ``first_value`` and ``last_value`` are the values on the first and the last map, ``change`` is their difference.
    """

    name: str
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
        "holderlake.export.token_report",
        content=content,
        token=content.token,
        period=content.period,
        name=content.token["name"] or content.token["symbol"] or short(content.period.token_address),
        summary=_summary(content),
        figures=_figures(content.rows("concentration")),
        quality=content.rows("quality")[0],
        events=events[-_MOST_EVENTS:],
        events_of_all=len(events),
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
        sentences.append(f"The score {verb} from {scores[0]:.1f} to {scores[-1]:.1f}.")
    if maps and maps[-1]["top_10_share"] is not None:
        sentences.append(f"The ten largest holders have {percent(maps[-1]['top_10_share'])} of the supply")
        sentences[-1] += f", clusters {percent(maps[-1]['bundles'])}." if maps[-1]["bundles"] else "."
    new_count = sum(1 for row in holders[:10] if row["rank_before"] is None)
    if content.rows("turnover"):
        sentences.append(f"Of the first {min(10, len(holders))}, {new_count} were not listed at the beginning.")
    return " ".join(sentences)


def _figures(rows: list[dict[str, Any]]) -> list[Figure]:
    if not rows:
        return []
    return [
        Figure(
            title,
            _scaled(rows[0][column], scale, digits),
            _scaled(rows[-1][column], scale, digits),
            _change(rows[0][column], rows[-1][column], scale, digits),
        )
        for column, title, scale, digits in _FIGURES
    ]


def _scaled(value: float | None, scale: float, digits: int) -> str:
    text = number(None if value is None else value * scale, digits)
    return f"{text}\u00a0%" if scale != 1 and value is not None else text


def _change(first_value: float | None, last_value: float | None, scale: float, digits: int) -> str:
    if first_value is None or last_value is None:
        return number(None)
    return f"{(last_value - first_value) * scale:+,.{digits}f}".replace("-", "\u2212")
