"""How the engine's tables are built: the lake's from columns, and its own, which are described here, from rows.

The lake's tables are ``contract.tables``'; each of ours has its schema beside the function that fills it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Context, Decimal
from typing import Any, Final

import pyarrow as pa

from contract.tables import AMOUNT_TYPE, Table, amount_columns, assemble
from engine.words import from_ints

Columns = dict[str, list[Any]]
"""Columns of a table as lists of one length. An instant is a number of microseconds, an amount a raw integer with the
token's decimals."""

_EXACT: Final = Context(prec=400)
_PLACES: Final = 18
_LIMIT: Final = 10**38 - 10**18
"""Raw integers with eighteen places from here on have their exact text beside them."""


def column(name: str, dtype: pa.DataType, comment: str, *, required: bool = True) -> pa.Field:
    """A column that is never null unless said otherwise, with what it holds in words."""
    return pa.field(name, dtype, nullable=not required, metadata={"comment": comment})


def built(schema: pa.Schema, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """An Arrow table of the rows, each of which has the schema's columns and no other.

    Raises ``KeyError`` on a missing column, and ``pa.ArrowInvalid`` on a value of a wrong type or a null where none
    may be.
    """
    listed = list(rows)
    table = pa.table(
        [pa.array([row[name] for row in listed], schema.field(name).type) for name in schema.names], schema
    )
    stray = {name for row in listed for name in row} - set(schema.names)
    if stray:
        raise KeyError(f"there is no column {', '.join(sorted(stray))}")
    for field in schema:
        if not field.nullable and table[field.name].null_count:
            raise pa.ArrowInvalid(f"{field.name} may not be null")
    return table


def table_of(table: Table, columns: Columns) -> pa.Table:
    """The lake's table of the columns, without ``fetched_at``; columns that are not there are null."""
    count = max((len(column) for column in columns.values()), default=0)
    filled: dict[str, Any] = dict(columns)
    for name in columns:
        if f"{name}_exact" in table.schema.names:
            filled |= _amounts(name, columns[name])
    return assemble(table, count, {}, filled)


def repeated(common: Mapping[str, Any], columns: Columns) -> Columns:
    """What all rows share, once for each."""
    count = max((len(column) for column in columns.values()), default=0)
    return {name: [value] * count for name, value in common.items()}


def joined_columns(pieces: Sequence[Columns]) -> Columns:
    """The rows of all pieces, which have the same columns."""
    return {name: [value for piece in pieces for value in piece[name]] for name in pieces[0]} if pieces else {}


def _amounts(name: str, raw: Sequence[tuple[int, int] | None]) -> dict[str, Any]:
    """The two columns of an amount, as ``contract.tables.amount_columns`` has them."""
    known = [one for one in raw if one is not None]
    scaled = [value * 10 ** (_PLACES - decimals) for value, decimals in known if decimals <= _PLACES]
    if len(scaled) == len(known) and max(scaled, default=0) < _LIMIT and min(scaled, default=0) > -_LIMIT:
        dense = pa.Array.from_buffers(AMOUNT_TYPE, len(scaled), [None, pa.py_buffer(from_ints(scaled, 2))])
        if len(known) < len(raw):
            places = iter(range(len(known)))
            dense = dense.take(pa.array([None if one is None else next(places) for one in raw], pa.int64()))
        return {name: dense, f"{name}_exact": pa.nulls(len(raw), pa.string())}
    rows = [amount_columns(name, None if one is None else token_units(*one)) for one in raw]
    return {column: [row[column] for row in rows] for column in (name, f"{name}_exact")}


def token_units(raw: int, decimals: int) -> Decimal:
    """A raw integer amount in token units, exact."""
    return _EXACT.scaleb(Decimal(raw), -decimals)
