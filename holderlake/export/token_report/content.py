"""What a report says: the answers to all questions about a token and period, and the instants they are of."""

from __future__ import annotations

from dataclasses import dataclass
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
    "failures",
    "quality",
)


@dataclass(frozen=True)
class Content:
    """All that a report is made of. ``token`` is its name, ticker and instants; ``maps`` its first and last map, by
    instant, one where they are the same."""

    period: Period
    token: dict[str, Any]
    answers: dict[str, pa.Table]
    maps: dict[datetime, dict[str, pa.Table]]

    def rows(self, question: str) -> list[dict[str, Any]]:
        """An answer's rows."""
        found: list[dict[str, Any]] = self.answers[question].to_pylist()
        return found


def gather(warehouse: Warehouse, period: Period) -> Content:
    """What the warehouse tells. Raises ``ValueError`` on a token or a period that it knows nothing of."""
    with token_history(warehouse, period) as history:
        token = history.ask("token").to_pylist()[0]
        if token["known_from"] is None:
            raise ValueError(_unknown(warehouse, period))
        if not token["instants"]:
            raise ValueError(
                f"nothing is known of {period.token_address} on {period.chain} from {period.since:%Y-%m-%d %H:%M} to "
                f"{period.until:%Y-%m-%d %H:%M}; there is data from {token['known_from']:%Y-%m-%d %H:%M} to "
                f"{token['known_to']:%Y-%m-%d %H:%M}"
            )
        answers = {question: history.ask(question) for question in _QUESTIONS}
        return Content(period, token, answers, _maps(history, token))


def _maps(history: TokenHistory, token: dict[str, Any]) -> dict[datetime, dict[str, pa.Table]]:
    ends = dict.fromkeys(at for at in (token["first_map"], token["last_map"]) if at is not None)
    return {at: history.map_at(at) for at in ends}


def _unknown(warehouse: Warehouse, period: Period) -> str:
    """Why there can't be a report, with the tokens that there may be one of."""
    elsewhere = warehouse.query(
        "SELECT DISTINCT chain FROM tokens WHERE token_address = ? ORDER BY chain", [period.token_address]
    )["chain"].to_pylist()
    said = f"the warehouse knows nothing of {period.token_address} on {period.chain}"
    if elsewhere:
        return f"{said}, but on {', '.join(elsewhere)}"
    known = warehouse.query(
        "SELECT DISTINCT token_address FROM maps WHERE chain = ? ORDER BY ALL LIMIT 5", [period.chain]
    )["token_address"].to_pylist()
    if not known:
        return f"{said}, nor of any token there; 'holderlake ingest --chain {period.chain} --token …' fetches one"
    return f"{said}; of that chain it knows {', '.join(known)}{' and more' if len(known) == 5 else ''}"
