"""Build Arrow tables: the lake's tables from columns, and the engine's other tables from rows.

``holderlake.core.contract.tables`` has the schemas of the lake's tables. The other schemas are in the modules that fill
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from holderlake.core.contract.tables import AMOUNT_TYPE, INSTANT_TYPE, Table, amount_columns, assemble
from holderlake.engine.files.arrays import expand_ranges
from holderlake.engine.files.listing import View
from holderlake.engine.numeric.bigint import Array, from_digits, from_ints, to_digits, to_ints


@dataclass(frozen=True)
class Amounts:
    """Raw amounts (0 or more) as limbs (64-bit words, see ``bigint``), and the decimals of each amount's token."""

    limbs: Array
    decimals: Array

    def __len__(self) -> int:
        return len(self.limbs)


Columns = dict[str, Sequence[Any] | pa.Array | Amounts]
"""Columns of a table by name, all of the same length."""

_EXACT: Final = Context(prec=400)
_PLACES: Final = 18
_LIMIT: Final = to_digits(from_ints([10**38 - 10**18], 2))[0]
"""The least amount that is too large for the decimal column, with 18 decimals, as 32-bit digits.

From this amount on, only the column with the exact text has the amount.
"""


def built(schema: pa.Schema, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Return a table from rows. A row must have exactly the columns of the schema.

    Raises ``KeyError`` for a missing or unknown column. Raises ``pa.ArrowInvalid`` for a value of a wrong type, or a
    null in a required column.
    """
    listed = list(rows)
    table = pa.table(
        [pa.array([row[name] for row in listed], schema.field(name).type) for name in schema.names], schema
    )
    stray = {name for row in listed for name in row} - set(schema.names)
    if stray:
        raise KeyError(f"the schema has no column {', '.join(sorted(stray))}; remove it from the rows")
    for field in schema:
        if not field.nullable and table[field.name].null_count:
            raise pa.ArrowInvalid(f"column {field.name} may not be null; give it a value in every row")
    return table


def table_of(table: Table, columns: Columns, common: Mapping[str, Any] | None = None) -> pa.Table:
    """Return a table in the lake's schema ``table``, without the column ``fetched_at``.

    ``common`` has the columns whose value is the same in all rows. A column that is neither in ``columns`` nor in
    ``common`` is null.
    """
    count = max((len(column) for column in columns.values()), default=0)
    arrays: dict[str, Any] = {}
    for name, values in columns.items():
        arrays |= amount_arrays(name, values) if isinstance(values, Amounts) else {name: values}
    shared = {name: pa.scalar(value, table.schema.field(name).type) for name, value in (common or {}).items()}
    return assemble(table, count, shared, arrays)


def in_order(table: pa.Table, seconds: Array, requested: Array) -> pa.Table:
    """Return the rows of the requested instants, in the order in which these were requested.

    ``requested`` are indices into the ascending unix ``seconds``. The rows of ``table`` are sorted by their instant,
    the column ``as_of``.
    """
    if (requested == np.arange(len(requested))).all():
        return table
    as_of = table["as_of"].to_numpy().astype(np.int64) // 1_000_000
    starts, ends = (np.searchsorted(as_of, seconds[requested], side=side) for side in ("left", "right"))
    return table.take(pa.array(expand_ranges(starts, ends)))


def texts_of(view: View, addresses: Array) -> pa.Array:
    """Return the addresses as a column of text; ``addresses`` are their numbers in the view's dictionary."""
    return view.dictionary.text_array(addresses).cast(pa.string())


def instants_of(seconds: Array, is_known: Array | None = None) -> pa.Array:
    """Return unix seconds as a column of instants (UTC). With a mask ``is_known``, the column is null where
    ``is_known`` is False."""
    mask = None if is_known is None else ~is_known
    return pa.array(seconds.astype(np.int64) * 1_000_000, mask=mask).cast(INSTANT_TYPE)


def spread(column: pa.Array, places: Array) -> pa.Array:
    """Return the column's values at the indices ``places``, and null for negative indices."""
    return column.take(pa.array(places, mask=places < 0))


def amount_arrays(name: str, amounts: Amounts) -> dict[str, pa.Array]:
    """Return the two columns of an amount by name: the number, and the exact text.

    ``holderlake.core.contract.tables.amount_columns`` describes them.
    """
    scaled = _scaled(amounts)
    dense = np.ascontiguousarray(from_digits(scaled[:, :4]))
    decimal = pa.Array.from_buffers(AMOUNT_TYPE, len(dense), [None, pa.py_buffer(dense)])
    wide = np.flatnonzero(_reaches(scaled, _LIMIT) | (amounts.decimals > _PLACES))
    if not len(wide):
        return {name: decimal, f"{name}_exact": pa.nulls(len(dense), pa.string())}
    raw = zip(to_ints(amounts.limbs[wide]), amounts.decimals[wide].tolist(), strict=True)
    rows = [amount_columns(name, token_units(*amount)) for amount in raw]
    wide_columns = {column: pa.array([row[column] for row in rows]) for column in (name, f"{name}_exact")}
    place_of = np.full(len(dense), -1)
    place_of[wide] = np.arange(len(wide))
    texts = spread(wide_columns[f"{name}_exact"].cast(pa.string()), place_of)
    places = np.where(place_of < 0, np.arange(len(dense)), len(dense) + place_of)
    return {
        name: pa.concat_arrays([decimal, wide_columns[name].cast(AMOUNT_TYPE)]).take(pa.array(places)),
        f"{name}_exact": texts,
    }


def _scaled(amounts: Amounts) -> Array:
    """Return the amounts, scaled to 18 decimals, as rows of at least four 32-bit digits.

    Amounts of tokens with more than 18 decimals become 0.
    """
    numbers = to_digits(amounts.limbs)
    # 2 more digits are enough for numbers up to 10^18 times as large
    digits = np.zeros((len(numbers), max(4, numbers.shape[1] + 2)), np.int64)
    digits[:, : numbers.shape[1]] = numbers
    missing = np.maximum(_PLACES - amounts.decimals, 0)
    digits[amounts.decimals > _PLACES] = 0
    for places in (np.minimum(missing, 9), missing - np.minimum(missing, 9)):
        if places.any():
            digits *= 10 ** places[:, None]
            for place in range(digits.shape[1] - 1):
                digits[:, place + 1] += digits[:, place] >> 32
                digits[:, place] &= 0xFFFFFFFF
    return digits


def _reaches(numbers: Array, least: Array) -> Array:
    """Return, for each number, whether it is at least ``least``. Both are 32-bit digits, lowest first."""
    above = np.asarray(numbers[:, len(least) :].any(axis=1))
    is_equal = ~above
    for place in range(len(least) - 1, -1, -1):
        above |= is_equal & (numbers[:, place] > least[place])
        is_equal &= numbers[:, place] == least[place]
    reached: Array = above | is_equal
    return reached


def token_units(raw: int, decimals: int) -> Decimal:
    """Return a raw integer as the exact amount in token units."""
    return _EXACT.scaleb(Decimal(raw), -decimals)
