"""SQL statements for DuckDB and Spark, and the interface of the engines that run them.

A statement is a SELECT over named views, written for DuckDB; ``spark_engine`` translates it. Its result is a view with
the name of the statement. ``$name`` is a parameter. ``hashed(text)`` is a number of 60 bits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

Value = int | float | str | None
Values = Mapping[str, Value]
"""Values of parameters by name."""
_PARAMETER: Final = re.compile(r"\$(\w+)")


@dataclass(frozen=True)
class Statement:
    """A statement with its name. ``text`` is its SQL for DuckDB."""

    name: str
    text: str

    def sql(self, values: Values) -> str:
        """Return the SQL for DuckDB, with the values of its parameters. Raises ``KeyError`` if one is missing."""
        return _PARAMETER.sub(lambda parameter: _literal(values[parameter[1]]), self.text)


def _literal(value: Value) -> str:
    if value is None:
        return "NULL"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


class SqlEngine(Protocol):
    """A database that runs the statements: ``duckdb_engine.DuckDbEngine`` or ``spark_engine.SparkEngine``."""

    def read(self, name: str, locations: Sequence[str]) -> None: ...

    def register(self, name: str, rows: pa.Table) -> None: ...

    def run(self, query: Statement, values: Values, keep: bool = False) -> None: ...

    def rows(self, query: Statement, values: Values) -> Iterator[pa.RecordBatch]: ...

    def table(self, name: str) -> pa.Table: ...
