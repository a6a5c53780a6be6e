"""How the engine's own tables, those that the lake does not have, are described and built.

The lake's tables are ``contract.tables``'; each of ours has its schema beside the function that fills it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa


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
