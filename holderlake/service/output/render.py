"""Renders the engine's Arrow tables as the JSON objects of the contract's models, with exact amounts.

These are pure functions. Parts of an answer that were not requested are null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Context, Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel

from holderlake.core.contract.exact_json import json_number
from holderlake.core.contract.fields import AnswerField, fields_of
from holderlake.core.contract.models import (
    Cluster,
    GroupedTransfer,
    Holder,
    HolderNode,
    Map,
    Metrics,
    Node,
    TimeNode,
    Token,
)
from holderlake.core.contract.requests import MapOptions
from holderlake.core.contract.times import to_unix

Plain = dict[str, Any]
Values = Mapping[str, Sequence[Any]]
Columns = Mapping[str, pa.ChunkedArray]

_EXACT = Context(prec=400)
"""Name of ``service_score`` before version 0.3.0 of the API. It was a field of the map itself."""


@dataclass(frozen=True)
class RawUnits:
    """Numbers of decimals of tokens, by which amounts are converted to raw integers.

    ``decimals`` is the number of the map's token. ``of_token`` has the number of each token in the map's transfers, by
    (chain, address).
    """

    decimals: int
    of_token: Mapping[tuple[str, str], int]


def objects(model: type[BaseModel], table: pa.Table, values: Values | None = None) -> list[Plain]:
    """Return the rows of a table as JSON objects of a model.

    ``values`` has the values of fields that are not made from a column of their name, one for each row. A field without
    a column and without values is left out.
    """
    columns = dict(zip(table.column_names, table.columns, strict=True))
    return _objects(model, columns, table.num_rows, values or {})


def _objects(model: type[BaseModel], columns: Columns, count: int, values: Values) -> list[Plain]:
    fields = {}
    for field in fields_of(model):
        field_values = _field_values(field, columns, count, values)
        if field_values is not None:
            fields[field.name] = field_values
    names = tuple(fields)
    return [dict(zip(names, row, strict=True)) for row in zip(*fields.values(), strict=True)]


def _field_values(field: AnswerField, columns: Columns, count: int, values: Values) -> Sequence[Any] | None:
    if field.name in values:
        return values[field.name]
    if field.kind in _READERS:
        return _READERS[field.kind](columns, field.column)
    if field.kind == "constant":
        return [field.default] * count
    if field.kind == "link token":
        pairs = zip(*(columns[name].to_pylist() for name in ("transfer_chain", "transfer_token")), strict=True)
        return [{"chain": chain, "address": address} for chain, address in pairs]
    if field.model is not None and field.kind != "list":
        return _objects(field.model, columns, count, values)
    column = columns.get(field.column)
    return None if column is None else column.to_pylist()


def _exact_amounts(columns: Columns, name: str) -> list[Decimal | None]:
    amounts: list[Decimal | None] = columns[name].to_pylist()
    exact = columns[f"{name}_exact"]
    if exact.null_count == len(exact):
        return amounts
    pairs = zip(amounts, exact.to_pylist(), strict=True)
    return [amount if text is None else Decimal(text) for amount, text in pairs]


def _amounts(columns: Columns, name: str) -> list[Decimal | None]:
    return [None if amount is None else json_number(amount) for amount in _exact_amounts(columns, name)]


def _date_times(columns: Columns, name: str) -> list[str | None]:
    return [None if instant is None else f"{instant.isoformat()}Z" for instant in columns[name].to_pylist()]


def _seconds(columns: Columns, name: str) -> list[int]:
    seconds: list[int] = (
        pc.floor_temporal(columns[name], unit="second").cast(pa.timestamp("s")).cast(pa.int64()).to_pylist()
    )
    return seconds


_READERS: Final[dict[str, Callable[[Columns, str], list[Any]]]] = {
    "amount": _amounts,
    "instant": _date_times,
    "unix seconds": _seconds,
}
"""Functions (columns by name, name) that return the JSON values of a column, by kind of field; others are plain."""


def _raw_amounts(table: pa.Table, column: str, decimals: Sequence[int]) -> Values:
    """Return the values of the field ``<column>_raw``: amounts in raw integer units, as text."""
    columns = {name: table[name] for name in (column, f"{column}_exact")}
    pairs = zip(_exact_amounts(columns, column), decimals, strict=True)
    return {
        f"{column}_raw": [
            None if amount is None else format(_EXACT.scaleb(amount, places), ".0f") for amount, places in pairs
        ]
    }


def _raw_holdings(table: pa.Table, raw: RawUnits | None) -> Values:
    return {} if raw is None else _raw_amounts(table, "amount", [raw.decimals] * table.num_rows)


def tokens(table: pa.Table, stats: bool) -> list[Plain]:
    """Return tokens as the contract's ``Token[]``, with their statistics if ``stats`` is true."""
    return objects(Token, table, {} if stats else {"stats": [None] * table.num_rows})


def holders(table: pa.Table, details: bool, raw: RawUnits | None = None) -> list[Plain]:
    """Return holders as the contract's ``Holder[]``, ordered by rank.

    ``details`` adds the address details. ``raw`` adds raw amounts, None leaves them out.
    """
    hidden = {} if details else {"address_details": [None] * table.num_rows}
    return objects(Holder, table, {**_raw_holdings(table, raw), **hidden})


def token_map(tables: Mapping[str, pa.Table], options: MapOptions, raw: RawUnits | None = None) -> Plain:
    """Return the tables of a map as the contract's ``Map``. ``raw`` adds raw amounts, None leaves them out."""
    links = _relationships(tables["grouped_transfers"], raw)
    parts: Values = {
        "ts_update": [to_unix(datetime.fromisoformat(dt_update(tables)))],
        "nodes": [_nodes(tables["map_nodes"], links, options, raw) if options.return_nodes else None],
        "relationships": [links.get(None, []) if options.return_relationships else None],
        "clusters": [_clusters(tables, raw) if options.return_clusters else None],
    }
    (answer,) = objects(Map, tables["maps"], parts)
    return answer


def metrics(tables: Mapping[str, pa.Table]) -> Plain:
    """Return the field ``metrics`` of the contract's ``Map``."""
    (answer,) = objects(Metrics, tables["maps"])
    return answer


def dt_update(tables: Mapping[str, pa.Table]) -> str:
    """Return the time of a map's computation as text, for its metadata and the header ``X-Dt-Update``."""
    return str(tables["maps"]["dt_update"][0])


def _relationships(table: pa.Table, raw: RawUnits | None) -> dict[int | None, list[Plain]]:
    """Return grouped transfers as the contract's ``GroupedTransfer[]``, by number of their time node."""
    values: Values = {}
    if raw is not None:
        keys = zip(*(table[name].to_pylist() for name in ("transfer_chain", "transfer_token")), strict=True)
        values = _raw_amounts(table, "total_value", [raw.of_token[key] for key in keys])
    links: dict[int | None, list[Plain]] = {}
    for time_node, link in zip(table["time_node"].to_pylist(), objects(GroupedTransfer, table, values), strict=True):
        links.setdefault(time_node, []).append(link)
    return links


def _nodes(
    table: pa.Table, links: Mapping[int | None, list[Plain]], options: MapOptions, raw: RawUnits | None
) -> Plain:
    kinds = table["kind"].to_pylist()
    top_count, magic_count = kinds.count("top_holder"), kinds.count("magic")
    top, magic, time = (
        table.slice(0, top_count),
        table.slice(top_count, magic_count),
        table.slice(top_count + magic_count),
    )
    of_time_nodes = {"relationships": [links.get(number, []) for number in time["time_node"].to_pylist()]}
    return {
        "top_holders": objects(HolderNode, top, _raw_holdings(top, raw)),
        "magic_nodes": objects(Node, magic) if options.use_magic_nodes else None,
        "time_nodes": objects(TimeNode, time, of_time_nodes) if options.use_time_nodes else None,
    }


def _clusters(tables: Mapping[str, pa.Table], raw: RawUnits | None) -> list[Plain]:
    members: dict[tuple[int, str], list[str]] = {}
    for member in tables["cluster_members"].to_pylist():
        members.setdefault((member["cluster_id"], member["kind"]), []).append(member["address"])
    table = tables["clusters"]
    numbers = table["cluster_id"].to_pylist()
    of_clusters = {
        "holders": [members.get((number, "holder"), []) for number in numbers],
        "magic_nodes": [members.get((number, "magic"), []) for number in numbers],
    }
    return objects(Cluster, table, {**_raw_holdings(table, raw), **of_clusters})
