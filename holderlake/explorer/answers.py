"""What the page asks of the warehouse, in the SQL files of ``sql/``; answers are columns by name."""

from __future__ import annotations

import hashlib
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any, Final

import pyarrow as pa

from holderlake.explorer.published import Question

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


def token_map(question: Question, chain: str, token: str, at: datetime) -> dict[str, Any]:
    """All of one map: nodes, links, clusters; and why something is missing, where it is known.

    A column of texts of the links is ``{"values": …, "at": …}``: each text once, and where it stands in each row.
    """
    asked = {"chain": chain, "token": token, "at": at}
    parts = {part: _ask(question, part, **asked) for part in ("nodes", "clusters", "failures")}
    return parts | {"links": _packed(question.ask(_sql("links"), asked))}


def comparison(question: Question, chain: str, token: str, before: datetime, after: datetime) -> Columns:
    """The holders at two instants, and what became of each."""
    return _ask(question, "compare", chain=chain, token=token, before=before, after=after)


def _ask(question: Question, name: str, **parameters: Any) -> Columns:
    answer: Columns = question.ask(_sql(name), parameters).to_pydict()
    return answer


def _packed(answer: pa.Table) -> dict[str, Any]:
    """Thousands of links are between hundreds of addresses: a third of the bytes, and of the time to read them."""
    packed: dict[str, Any] = {}
    for name, column in zip(answer.column_names, answer.columns, strict=True):
        if pa.types.is_string(column.type):
            encoded = column.combine_chunks().dictionary_encode()
            packed[name] = {"values": encoded.dictionary.to_pylist(), "at": encoded.indices.to_pylist()}
        else:
            packed[name] = column.to_pylist()
    return packed


@cache
def shape() -> str:
    """Tells versions of what is asked apart."""
    texts = sorted((file.name, file.read_text()) for file in files("holderlake.explorer").joinpath("sql").iterdir())
    return hashlib.sha256(repr(texts).encode()).hexdigest()[:16]


@cache
def _sql(name: str) -> str:
    return files("holderlake.explorer").joinpath("sql", f"{name}.sql").read_text()
