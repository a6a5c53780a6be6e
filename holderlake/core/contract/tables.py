"""The schemas of the tables in lake and warehouse. Writers, checks and docs are made from them.

A table of an answer's objects has the columns of the model in ``models``, and further columns that are declared here.

Every table begins with the columns ``chain`` and ``as_of``, followed by ``token_address`` in tables about tokens. The
last column is ``fetched_at``, the time at which the answer was fetched. Tables that the engine computes lack it.

An amount has two columns. ``amount`` (or ``total_value``) is DECIMAL(38, 18), which is exact for nearly every token. A
number that does not fit is rounded in this column (null from 10^20 on), and ``amount_exact`` (or ``total_value_exact``)
has its exact text. ``amount_exact`` is null if ``amount`` is exact. No amount is ever a float.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
from pydantic import BaseModel

from holderlake.core.contract.fields import fields_of
from holderlake.core.contract.models import (
    AddressMetadata,
    Chain,
    Cluster,
    GroupedTransfer,
    Holder,
    HolderNode,
    Map,
    Token,
)
from holderlake.core.units import counted

AMOUNT_TYPE: Final = pa.decimal128(38, 18)
INSTANT_TYPE: Final = pa.timestamp("us")
"""Type of instants: UTC without a time zone, in microseconds, like DuckDB's TIMESTAMP."""

_QUANTUM: Final = Decimal(1).scaleb(-18)
_AMOUNT_LIMIT: Final = Decimal(10) ** 20
_EXACT: Final = Context(prec=400)
_ROUNDING: Final = Context(prec=38, rounding=ROUND_HALF_EVEN)


@dataclass(frozen=True)
class Table:
    """A table of lake and warehouse. ``row`` is a text with the meaning of a row.

    ``key`` has the columns that identify a row. ``schema`` is the Arrow schema; each field has a ``comment`` in its
    metadata. ``family`` is the family of tables that one request fills together; empty for a table that no request
    fills. ``is_list`` is true if the rows of a subject are a list whose length changes little between two instants.
    """

    name: str
    row: str
    schema: pa.Schema
    key: tuple[str, ...]
    family: str = ""
    is_list: bool = False

    @cached_property
    def engine_schema(self) -> pa.Schema:
        """Return the schema without the column ``fetched_at``, as the engine computes the table."""
        return self.schema.remove(self.schema.get_field_index("fetched_at"))


def column(name: str, dtype: pa.DataType, comment: str, *, required: bool = True) -> pa.Field:
    """Return an Arrow field with a comment. The field is nullable if ``required`` is false."""
    return pa.field(name, dtype, nullable=not required, metadata={"comment": comment})


def _text(name: str, comment: str, *, required: bool = False) -> pa.Field:
    return column(name, pa.string(), comment, required=required)


def _int(name: str, comment: str, *, required: bool = False) -> pa.Field:
    return column(name, pa.int64(), comment, required=required)


def _flag(name: str, comment: str, *, required: bool = False) -> pa.Field:
    return column(name, pa.bool_(), comment, required=required)


def _instant(name: str, comment: str, *, required: bool = False) -> pa.Field:
    return column(name, INSTANT_TYPE, comment, required=required)


def _amount(name: str, comment: str) -> tuple[pa.Field, pa.Field]:
    return (
        column(name, AMOUNT_TYPE, f"{comment}, in token units; null from 10^20 on", required=False),
        _text(f"{name}_exact", f"The exact {name} where the decimal column can't hold it, else null"),
    )


_CHAIN = _text("chain", "Chain id", required=True)
_AS_OF = _instant("as_of", "Instant as of which the row is true, UTC", required=True)
_TOKEN = _text("token_address", "The token's contract address, or native", required=True)
_FETCHED_AT = _instant("fetched_at", "Time at which the answer with this row was fetched, UTC", required=True)

_COLUMN_TYPES: Final[Mapping[str, pa.DataType]] = {
    "text": pa.string(),
    "constant": pa.string(),
    "address": pa.string(),
    "link end": pa.string(),
    "integer": pa.int64(),
    "figure": pa.float64(),
    "flag": pa.bool_(),
    "instant": INSTANT_TYPE,
    "unix seconds": INSTANT_TYPE,
}
"""Arrow type of the column of a field, by its kind. An amount has two columns."""


def columns_of_model(model: type[BaseModel]) -> Iterator[pa.Field]:
    """Yield the columns of a model of an answer. The fields of an object are columns of its parent's row."""
    for field in fields_of(model):
        if field.kind == "amount":
            yield from _amount(field.column, field.comment)
        elif field.kind in _COLUMN_TYPES and field.column:
            required = field.is_essential or field.kind == "constant"
            yield column(field.column, _COLUMN_TYPES[field.kind], field.comment, required=required)
        elif field.model is not None and field.kind in ("object", "scores"):
            yield from columns_of_model(field.model)


_RELATIONSHIP: Final = (
    *columns_of_model(GroupedTransfer),
    _text("transfer_chain", "Chain of the token that was sent"),
    _text("transfer_token", "Address of the token that was sent, or native"),
    _text("unknown_data", "JSON of the data of a relationship type that is not known here"),
)

_HOLDER_LIMIT = _int("holder_limit", "Limit of holders in the request: 80, 250 or 500; null where unknown")
_TIME_NODE = _int("time_node", "Number of the time node within the map (1, 2, …); null outside time nodes")


def _table(
    name: str,
    row: str,
    key: tuple[str, ...],
    *columns: pa.Field,
    token: bool = True,
    family: str = "",
    is_list: bool = False,
) -> Table:
    common = (_CHAIN, _AS_OF, *((_TOKEN,) if token else ()))
    common_names = {field.name for field in common}
    own_columns = (field for field in columns if field.name not in common_names)
    schema = pa.schema([*common, *own_columns, _FETCHED_AT])
    return Table(name, row, schema, (*(field.name for field in common), *key), family, is_list)


_TABLES: Final = (
    _table(
        "chains",
        "a supported chain",
        (),
        *columns_of_model(Chain),
        token=False,
        family="chains",
        is_list=True,
    ),
    _table(
        "tokens",
        "a token",
        (),
        *columns_of_model(Token),
        family="tokens",
        is_list=True,
    ),
    _table(
        "holders",
        "a holder of a token",
        ("address",),
        *columns_of_model(Holder),
        _HOLDER_LIMIT,
        family="holders",
        is_list=True,
    ),
    _table(
        "maps",
        "a token's map",
        (),
        *columns_of_model(Map),
        _HOLDER_LIMIT,
        _flag("use_magic_nodes", "Whether magic nodes were requested; null where unknown"),
        _flag("use_time_nodes", "Whether time nodes were requested; null where unknown"),
        _text("rules", "JSON of the provider's rules in force when the map was fetched; null where unknown"),
        _text("other_scores", "JSON of further scores by name, where the provider gives more than one"),
        _text(
            "negative_balances",
            "JSON of the addresses whose balance is below zero: their count, and address and raw balance of the 100 "
            "lowest; null if there are none, or the provider does not report them",
        ),
        family="maps",
    ),
    _table(
        "map_nodes",
        "a node of a map",
        ("kind", "address", "time_node"),
        _text("kind", "top_holder, magic or time", required=True),
        _TIME_NODE,
        *columns_of_model(HolderNode),
        family="maps",
        is_list=True,
    ),
    _table(
        "grouped_transfers",
        "a relationship of a map",
        ("from_address", "to_address", "rel_type", "transfer_chain", "transfer_token", "time_node"),
        *_RELATIONSHIP,
        _TIME_NODE,
        family="maps",
    ),
    _table(
        "clusters",
        "a cluster of a map",
        ("cluster_id",),
        _int("cluster_id", "1 is the largest cluster of the map", required=True),
        *columns_of_model(Cluster),
        family="maps",
    ),
    _table(
        "cluster_members",
        "an address in a cluster",
        ("address",),
        _int("cluster_id", "The cluster", required=True),
        _text("address", "The member", required=True),
        _text("kind", "holder or magic", required=True),
        family="maps",
    ),
    _table(
        "subgraph_transfers",
        "a relationship among a named address set",
        ("address_set", "from_address", "to_address", "rel_type", "transfer_chain", "transfer_token"),
        _text("address_set", "Name of the address set in the settings", required=True),
        *_RELATIONSHIP,
        token=False,
        family="subgraphs",
    ),
    _table(
        "addresses",
        "an address's metadata",
        ("address",),
        *columns_of_model(AddressMetadata),
        token=False,
        family="addresses",
        is_list=True,
    ),
    _table(
        "failures",
        "a failed request, or a part of an answer that is missing or could not be read",
        ("endpoint", "subject", "place"),
        _text("endpoint", "Endpoint of the request", required=True),
        _text("subject", "Subject of the request: a token, an address set", required=True),
        _text(
            "code",
            "The contract's error code, malformed_answer, left_out, unreachable or broken_answer; invalid_address "
            "for an address that cannot be requested; unreadable_row, unreadable_value or missing_content if the rest "
            "of the answer was kept",
            required=True,
        ),
        _text("reason", "Description of the failure", required=True),
        _text("answer_hash", "SHA-256 of the archived answer; null without an answer"),
        _text("place", "JSON path of the row or value within the answer; null for a request"),
        token=False,
    ),
    _table(
        "revisions",
        "a table's rows of one subject that changed when the same partition was fetched again",
        ("family", "subject", "table_name", "fetched_at"),
        _text("family", "Family of tables that was fetched", required=True),
        _text("subject", "Subject of the request: a token", required=True),
        _text("table_name", "The table whose rows differ", required=True),
        _instant("known_since", "Time of the answer that first gave the rows before, UTC", required=True),
        _int("rows_before", "Rows of the subject before", required=True),
        _int("rows_after", "Rows of the subject now", required=True),
        _int("rows_gone", "Earlier rows that are missing now, or differ", required=True),
        _int("rows_new", "Present rows that were missing before, or differ", required=True),
        _text("gone", "JSON of the earlier rows that are missing now, or differ", required=True),
        token=False,
    ),
)

TABLES: Final[Mapping[str, Table]] = MappingProxyType({table.name: table for table in _TABLES})

MISSING_CONTENT: Final = "missing_content"
"""Code of a row of ``failures`` for content that a request asked for and its answer lacks."""
FAMILY_TABLES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        family: tuple(table.name for table in _TABLES if table.family == family)
        for family in dict.fromkeys(table.family for table in _TABLES if table.family)
    }
)
"""The tables of each family. One request fills the tables of a family together, and one manifest lists their files."""
MAP_TABLES: Final = FAMILY_TABLES["maps"]
SIDE_TABLES: Final = tuple(table.name for table in _TABLES if not table.family)
"""Tables about a family's requests: failures and revisions. Each family has its own file of each table."""


def amount_columns(name: str, value: Decimal | None) -> dict[str, Any]:
    """Return an amount's two columns by name. ``{name}`` is a decimal; ``{name}_exact`` is the exact text.

    The text is None if the decimal is exact. Both are None for an amount of None.
    """
    if value is None:
        return {name: None, f"{name}_exact": None}
    fits = value.copy_abs() < _AMOUNT_LIMIT - 1
    rounded = _ROUNDING.quantize(value, _QUANTUM) if fits else None
    exact = None if rounded == value else format(_EXACT.normalize(value), "f")
    return {name: rounded, f"{name}_exact": exact}


def build(table: Table, rows: Iterable[Mapping[str, Any]], fetched_at: datetime | None = None) -> pa.Table:
    """Build an Arrow table from rows (dictionaries). If ``fetched_at`` is None, the column ``fetched_at`` is left out.

    Columns that a row does not have are null. Raises ``KeyError`` for a column that the table does not have, and
    ``pa.ArrowInvalid`` for a value of a wrong type or a null in a required column.
    """
    schema = table.engine_schema if fetched_at is None else table.schema
    listed = list(rows)
    stray = {name for row in listed for name in row} - set(schema.names)
    if stray:
        raise KeyError(
            f"table {table.name} has no column {', '.join(sorted(stray))}; its columns are {', '.join(schema.names)}"
        )
    columns = {name: [row.get(name) for row in listed] for name in schema.names}
    if fetched_at is not None:
        columns["fetched_at"] = [fetched_at] * len(listed)
    return _checked(table, [pa.array(columns[field.name], type=field.type) for field in schema], schema)


def assemble(
    table: Table, count: int, common: Mapping[str, pa.Scalar], columns: Mapping[str, pa.Array | Sequence[Any]]
) -> pa.Table:
    """Build an Arrow table of ``count`` rows, without the column ``fetched_at``.

    ``columns`` has the values of columns by name. ``common`` has columns with one value for all rows. All other columns
    are null. Raises ``KeyError`` for a column that the table does not have, and ``pa.ArrowInvalid`` for a value of a
    wrong type or a null in a required column.
    """
    schema = table.engine_schema
    stray = (common.keys() | columns.keys()) - set(schema.names)
    if stray:
        raise KeyError(
            f"table {table.name} has no column {', '.join(sorted(stray))}; its columns are {', '.join(schema.names)}"
        )
    arrays = []
    for name, dtype in zip(schema.names, schema.types, strict=True):
        values = columns.get(name)
        if values is None:
            shared = common.get(name)
            values = pa.nulls(count, dtype) if shared is None else pa.repeat(shared, count)
        arrays.append(values if isinstance(values, pa.Array) else pa.array(values, dtype))
    return _checked(table, arrays, schema)


def _checked(table: Table, arrays: Sequence[pa.Array], schema: pa.Schema) -> pa.Table:
    for field, array in zip(schema, arrays, strict=True):
        if not field.nullable and array.null_count:
            raise pa.ArrowInvalid(
                f"table {table.name}: {field.name} may not be null, but "
                f"{counted(array.null_count, 'row', 'lacks')} a value; give "
                "each row one"
            )
    return pa.table(arrays, schema=schema)


def conform(table: Table, rows: pa.Table) -> pa.Table:
    """Return rows read from a file in the table's current schema. Columns that the file lacks are null.

    Raises ``pa.ArrowInvalid`` if a value does not fit its column, or the file lacks a required column.
    """
    if rows.schema.names != table.schema.names:
        for field in table.schema:
            if field.name not in rows.schema.names and field.nullable:
                rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
        rows = rows.select(table.schema.names)
    return rows.cast(table.schema)


def with_fetched_at(table: Table, rows: pa.Table, fetched_at: datetime | pa.Array) -> pa.Table:
    """Add the column ``fetched_at`` (UTC) to rows: one time for all rows, or an Arrow array with one time per row."""
    if isinstance(fetched_at, datetime):
        fetched_at = pa.repeat(pa.scalar(fetched_at, INSTANT_TYPE), rows.num_rows)
    stamped = rows.append_column(table.schema.field("fetched_at"), fetched_at)
    return stamped if stamped.schema.equals(table.schema, check_metadata=True) else stamped.cast(table.schema)
