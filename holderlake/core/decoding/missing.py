"""Content that an answer lacks although the contract promises it for the request: blocks, lists and fields.

Such an answer was paid. Its rows land with nulls, and each lack becomes a row of ``failures`` with its JSON path.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel

from holderlake.core.contract import models
from holderlake.core.contract.chains import normalise_address
from holderlake.core.contract.tables import MISSING_CONTENT
from holderlake.core.decoding.lenient import Unreadable
from holderlake.core.decoding.structs import stored_fields

_PARENTS: Final = (
    ("holders", "$[*].holder_data", models.HolderData),
    ("map_nodes", "$.nodes.top_holders[*].holder_data", models.HolderData),
    ("maps", "$.metrics.supply_stats", models.SupplyStats),
    ("maps", "$.metrics.scores", models.Scores),
    ("grouped_transfers", "$.relationships[*].data", models.GroupedTransferData),
    ("clusters", "$.clusters[*]", models.Cluster),
    ("subgraph_transfers", "$[*].data", models.GroupedTransferData),
    ("tokens", "$[*].metadata", models.TokenMetadata),
    ("addresses", "$[*].address_details", models.AddressDetails),
)
"""Objects whose required fields are never null in an answer of the contract: table, JSON path and model."""
_ONLY: Final = {
    "map_nodes": ("kind", "top_holder"),
    "grouped_transfers": ("rel_type", "GROUPED_TRANSFER"),
    "subgraph_transfers": ("rel_type", "GROUPED_TRANSFER"),
}
"""Column and value of the rows that have these columns, by table."""
_INDEX: Final = re.compile(r"\[\d+\]")


def missing_blocks(answer: Any) -> Iterator[Unreadable]:
    """Yield the blocks that a map (a struct) lacks, and an empty list of holders.

    A map of a token without holders does not exist: it has the error ``no_holders``.
    """
    for name in ("nodes", "relationships", "clusters"):
        if getattr(answer, name) is None:
            yield Unreadable(MISSING_CONTENT, f"$.{name}", f"{name} were requested, and the answer has none")
    if answer.nodes is not None and not answer.nodes.top_holders:
        yield Unreadable(MISSING_CONTENT, "$.nodes.top_holders", "the map has no holders")


def missing_holders(answer: Sequence[Any]) -> Iterator[Unreadable]:
    """Yield the lack of an empty list of holders: a token without holders has the error ``no_holders``."""
    if not answer:
        yield Unreadable(MISSING_CONTENT, "$", "the list of holders is empty")


def missing_fields(tables: Mapping[str, pa.Table], tokens: Sequence[str] = ()) -> Iterator[Unreadable]:
    """Yield the fields that rows lack, one ``Unreadable`` for each parent of fields in each answer.

    ``tokens[i]`` is the token of the i-th answer; without tokens all rows are of one answer.
    """
    for table, parent, model in _PARENTS:
        rows = tables.get(table)
        if rows is None or not rows.num_rows:
            continue
        lacking = {name: _is_null(rows, name) for name in _required_columns(model) if rows[name].null_count}
        if table in _ONLY and lacking:
            column, value = _ONLY[table]
            has_fields = pc.fill_null(pc.equal(rows[column], value), False)
            lacking = {name: pc.and_(nulls, has_fields) for name, nulls in lacking.items()}
        lacking = {name: nulls for name, nulls in lacking.items() if pc.any(nulls).as_py()}
        if not lacking:
            continue
        for place, token in enumerate(tokens or (None,)):
            is_of_token = None if token is None else pc.equal(rows["token_address"], normalise_address(token))
            counts = {
                name: pc.sum(nulls if is_of_token is None else pc.and_(nulls, is_of_token)).as_py()
                for name, nulls in lacking.items()
            }
            total = rows.num_rows if is_of_token is None else pc.sum(is_of_token).as_py()
            text = ", ".join(f"{name} ({count:,})" for name, count in counts.items() if count)
            if text:
                yield Unreadable(MISSING_CONTENT, parent, f"rows of {total:,} that lack a field: {text}", place)


def unnamed(missing: Sequence[Unreadable], unreadable: Sequence[Unreadable]) -> list[Unreadable]:
    """Return those of ``missing`` that are not explained by an unreadable value of the same answer."""
    explained = {(note.answer, _INDEX.sub("[*]", note.path)) for note in unreadable}
    return [
        note
        for note in missing
        if not any(
            answer == note.answer and (path.startswith(note.path) or note.path.startswith(path))
            for answer, path in explained
        )
    ]


@cache
def _required_columns(model: type[BaseModel]) -> tuple[str, ...]:
    fields = (field for field in stored_fields(model) if field.is_required and not field.is_essential)
    return tuple(field.column for field in fields if field.kind not in ("list", "object"))


def _is_null(rows: pa.Table, name: str) -> pa.ChunkedArray:
    nulls = pc.is_null(rows[name])
    exact = f"{name}_exact"
    return pc.and_(nulls, pc.is_null(rows[exact])) if exact in rows.column_names else nulls
