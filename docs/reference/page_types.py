"""Types of the rows that the explorer's page receives, the names of figures and the colours of clusters."""

from __future__ import annotations

import json
from typing import Final

import pyarrow as pa

from holderlake.core.contract.chains import BURN_ADDRESSES, KNOWN_CHAINS
from holderlake.core.contract.figures import FIGURES, HEADLINE
from holderlake.core.contract.models import HolderNode, Model, Scores, SupplyStats
from holderlake.core.contract.tables import columns_of_model
from holderlake.presentation.pictures.drawing.colours import PALETTE
from holderlake.presentation.pictures.drawing.legend import LEGEND

_MODELS: Final[tuple[type[Model], ...]] = (HolderNode, SupplyStats, Scores)
_FIGURES: Final = """\

/** The figures of a map, from holderlake/core/contract/figures.py. */
export const FIGURES = {{
{}}} as const;
export type FigureName = keyof typeof FIGURES;
/** The figures above a map. */
export const HEADLINE = {} as const;
/** Colours of clusters, from pictures/drawing/colours.py. A cluster's number is always shown too. */
export const PALETTE = {} as const;
/** What the marks of a map mean, from pictures/drawing/legend.py. */
export const LEGEND = {} as const;
/** The names of known chains, from holderlake/core/contract/chains. */
export const CHAINS: ReadonlyMap<string, string> = new Map({});
/** Addresses without an owner, to which burnt tokens go. */
export const BURN_ADDRESSES: readonly string[] = {};
"""
_HEAD: Final = """\
/** Columns of an answer's objects, made by `python -m docs.reference.pages` from holderlake/core/contract/models.py. */
"""


def page_types() -> str:
    """Return the TypeScript file: a type for each model with its columns, amounts as exact texts, and the figures."""
    types = "".join(f"export type {model.__name__} = {{\n{_members(model)}}};\n" for model in _MODELS)
    shown = ("title", "short", "unit", "explanation")
    rows = ({name: getattr(figure, name) for name in shown} for figure in FIGURES.values())
    figures = "".join(
        f"  {column}: {json.dumps(row, ensure_ascii=False)},\n" for column, row in zip(FIGURES, rows, strict=True)
    )
    chains = [(chain.id, chain.name) for chain in KNOWN_CHAINS.values()]
    lists = (json.dumps(listed) for listed in (HEADLINE, PALETTE, LEGEND, chains, sorted(BURN_ADDRESSES)))
    return f"{_HEAD}{types}{_FIGURES.format(figures, *lists)}"


def _members(model: type[Model]) -> str:
    columns = [column for column in columns_of_model(model) if not column.name.endswith("_exact")]
    return "".join(
        f"  {column.name}: {_type(column.type)}{' | null' if column.nullable else ''};\n" for column in columns
    )


def _type(dtype: pa.DataType) -> str:
    if pa.types.is_boolean(dtype):
        return "boolean"
    return "string" if pa.types.is_string(dtype) or pa.types.is_decimal(dtype) else "number"
