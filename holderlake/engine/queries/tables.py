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
import pyarrow.compute as pc

from holderlake.core.contract.tables import AMOUNT_TYPE, INSTANT_TYPE, Table, amount_columns, assemble
from holderlake.engine.files.arrays import expand_ranges
from holderlake.engine.files.listing import View
from holderlake.engine.numeric.bigint import Array, from_ints, resized, to_ints


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
_LIMITS: Final = from_ints([(10**20 - 1) * 10**decimals for decimals in range(_PLACES + 1)], 2)
"""The least raw amount that is too large for the decimal column, by the token's decimals.

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
    decimals, raw = np.minimum(amounts.decimals, _PLACES), resized(amounts.limbs, 2).copy()
    limits = _LIMITS[decimals]
    is_wide = (raw[:, 1] > limits[:, 1]) | ((raw[:, 1] == limits[:, 1]) & (raw[:, 0] >= limits[:, 0]))
    is_wide |= (amounts.decimals > _PLACES) | amounts.limbs[:, 2:].any(axis=1)
    raw[is_wide] = 0
    pieces, order = [pa.array([], AMOUNT_TYPE)], np.argsort(decimals, kind="stable")
    for places in np.split(order, np.flatnonzero(np.diff(decimals[order])) + 1):
        scale = int(decimals[places[0]]) if len(places) else 0
        buffers = [None, pa.py_buffer(raw[places])]
        pieces.append(pa.Array.from_buffers(pa.decimal128(38, scale), len(places), buffers).cast(AMOUNT_TYPE))
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    numbers, texts = pa.concat_arrays(pieces).take(pa.array(back)), pa.nulls(len(order), pa.string())
    if is_wide.any():
        wide = zip(to_ints(amounts.limbs[is_wide]), amounts.decimals[is_wide].tolist(), strict=True)
        rows, mask = [amount_columns(name, token_units(*amount)) for amount in wide], pa.array(is_wide)
        numbers = pc.replace_with_mask(numbers, mask, pa.array([row[name] for row in rows], AMOUNT_TYPE))
        texts = pc.replace_with_mask(texts, mask, pa.array([row[f"{name}_exact"] for row in rows], pa.string()))
    return {name: numbers, f"{name}_exact": texts}


def token_units(raw: int, decimals: int) -> Decimal:
    """Return a raw integer as the exact amount in token units."""
    return _EXACT.scaleb(Decimal(raw), -decimals)
