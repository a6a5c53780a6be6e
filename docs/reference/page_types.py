"""TypeScript types of rows that the explorer's page receives, from the contract's models."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from holderlake.core.contract.models import HolderNode, Model, Scores, SupplyStats
from holderlake.core.contract.tables import columns_of_model

_MODELS: Final[tuple[type[Model], ...]] = (HolderNode, SupplyStats, Scores)
_HEAD: Final = """\
/** Columns of an answer's objects, made by `python -m docs.reference.pages` from holderlake/core/contract/models.py. */
"""


def page_types() -> str:
    """Return the TypeScript file with a type for each model: its columns, amounts as exact texts."""
    return _HEAD + "".join(f"export type {model.__name__} = {{\n{_members(model)}}};\n" for model in _MODELS)


def _members(model: type[Model]) -> str:
    columns = [column for column in columns_of_model(model) if not column.name.endswith("_exact")]
    return "".join(
        f"  {column.name}: {_type(column.type)}{' | null' if column.nullable else ''};\n" for column in columns
    )


def _type(dtype: pa.DataType) -> str:
    if pa.types.is_boolean(dtype):
        return "boolean"
    return "string" if pa.types.is_string(dtype) or pa.types.is_decimal(dtype) else "number"
