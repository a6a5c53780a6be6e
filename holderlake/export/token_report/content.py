"""The data of a report: results of all queries about a token in a period."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from holderlake.warehouse.token_history import Period, TokenHistory, token_history
from holderlake.warehouse.warehouse import Warehouse

_QUESTIONS = (
    "concentration",
    "shares",
    "holders",
    "turnover",
    "changes",
    "clusters",
    "flows",
)
_OF_PERIOD = ("problems", "quality")
"""Questions about the complete period. The others compare its first and last instant with data."""


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
        of_period = {question: history.ask(question) for question in _OF_PERIOD}
        history.period = replace(period, since=token["first_instant"], until=token["last_instant"])
        answers = of_period | {question: history.ask(question) for question in _QUESTIONS}
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
