"""The page's queries of the warehouse, from the SQL files of ``sql/``; results are columns by name."""

from __future__ import annotations

import hashlib
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any, Final

import pyarrow as pa

from holderlake.explorer.published import Reader

Columns = dict[str, list[Any]]
"""Columns of equal length by name. Amounts are exact texts, instants partition texts, other dates unix seconds."""

MOST_TOKENS: Final = 50
"""Limit of tokens in one search result."""


def tokens(reader: Reader, text: str) -> Columns:
    """Find tokens whose name, symbol, address and chain together contain all words; ``found`` counts all matches."""
    whole = text.strip().lower()
    return _query(reader, "tokens", words=whole.split(), whole=whole, most=MOST_TOKENS)


def history(reader: Reader, chain: str, token: str) -> dict[str, Columns]:
    """Return a token's name, its instants in order with concentration figures, and the last failures."""
    subject = {"chain": chain, "token": token}
    return {
        "token": _query(reader, "token", **subject),
        "instants": _query(reader, "history", **subject),
        "failures": _query(reader, "failures", **subject, at=None),
    }


def token_map(reader: Reader, chain: str, token: str, at: datetime) -> dict[str, Any]:
    """Return one map: nodes, links, clusters, and the failures that explain missing parts.

    A text column of the links is ``{"values": …, "at": …}``: the distinct texts, and the index of each row's text.
    """
    subject = {"chain": chain, "token": token, "at": at}
    parts = {part: _query(reader, part, **subject) for part in ("nodes", "clusters", "failures")}
    return parts | {"links": _packed(reader.query(_sql("links"), subject))}


def comparison(reader: Reader, chain: str, token: str, before: datetime, after: datetime) -> Columns:
    """Return the holders at two instants, with the change of each."""
    return _query(reader, "compare", chain=chain, token=token, before=before, after=after)


def _query(reader: Reader, name: str, **parameters: Any) -> Columns:
    columns: Columns = reader.query(_sql(name), parameters).to_pydict()
    return columns


def _packed(answer: pa.Table) -> dict[str, Any]:
    """Encode text columns as dictionaries: thousands of links join hundreds of addresses, so this saves two thirds."""
    packed: dict[str, Any] = {}
    for name, column in zip(answer.column_names, answer.columns, strict=True):
        if pa.types.is_string(column.type):
            encoded = column.combine_chunks().dictionary_encode()
            packed[name] = {"values": encoded.dictionary.to_pylist(), "at": encoded.indices.to_pylist()}
        else:
            packed[name] = column.to_pylist()
    return packed


@cache
def queries_hash() -> str:
    """Return a hash of the SQL files, as part of the version of an answer."""
    texts = sorted((file.name, file.read_text()) for file in files("holderlake.explorer").joinpath("sql").iterdir())
    return hashlib.sha256(repr(texts).encode()).hexdigest()[:16]


@cache
def _sql(name: str) -> str:
    return files("holderlake.explorer").joinpath("sql", f"{name}.sql").read_text()
