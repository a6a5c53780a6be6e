"""What the page asks of the warehouse, in the SQL files of ``sql/``; answers are columns by name."""

from __future__ import annotations

import hashlib
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any, Final

from explorer.published import Question

Columns = dict[str, list[Any]]
"""Equally long columns by name. Amounts are exact texts, instants texts of partitions, other dates unix seconds."""

MOST_TOKENS: Final = 50
"""So many tokens are answered to one search."""


def tokens(question: Question, text: str) -> Columns:
    """Tokens whose name, symbol, address and chain together hold all words of a text; ``found`` counts all of them."""
    whole = text.strip().lower()
    return _ask(question, "tokens", words=whole.split(), whole=whole, most=MOST_TOKENS)


def history(question: Question, chain: str, token: str) -> dict[str, Columns]:
    """A token's name, its instants in order with what each tells of concentration, and what failed last."""
    asked = {"chain": chain, "token": token}
    return {
        "token": _ask(question, "token", **asked),
        "instants": _ask(question, "history", **asked),
        "failures": _ask(question, "failures", **asked, at=None),
    }


def token_map(question: Question, chain: str, token: str, at: datetime) -> dict[str, Columns]:
    """All of one map: nodes, links, clusters; and why something is missing, where it is known."""
    asked = {"chain": chain, "token": token, "at": at}
    return {part: _ask(question, part, **asked) for part in ("nodes", "links", "clusters", "failures")}


def comparison(question: Question, chain: str, token: str, before: datetime, after: datetime) -> Columns:
    """The holders at two instants, and what became of each."""
    return _ask(question, "compare", chain=chain, token=token, before=before, after=after)


def _ask(question: Question, name: str, **parameters: Any) -> Columns:
    answer: Columns = question.ask(_sql(name), parameters).to_pydict()
    return answer


@cache
def shape() -> str:
    """Tells versions of what is asked apart."""
    texts = sorted((file.name, file.read_text()) for file in files("explorer").joinpath("sql").iterdir())
    return hashlib.sha256(repr(texts).encode()).hexdigest()[:16]


@cache
def _sql(name: str) -> str:
    return files("explorer").joinpath("sql", f"{name}.sql").read_text()
