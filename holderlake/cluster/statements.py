"""SQL statements for DuckDB and Spark, and the cluster's statements from ``sql/``.

A statement is a SELECT over named views, written for DuckDB; ``spark_engine`` translates it. Its result is a view with
the name of the statement. ``$name`` is a parameter. ``hashed(text)`` is a number of 60 bits. In ``sql/``, ``{carried}``
is replaced by the common table expressions in ``sql/carried.sql``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

BUILD: Final = ("transfers", "balance_intervals", "daily_edges", "acquaintances", "addresses")
"""The names of the statements that make derived tables. A statement comes after all statements that it uses."""

ANSWERS: Final = (
    "hypernodes",
    "supernodes",
    "balances",
    "holders",
    "top",
    "edges",
    "shown_transfers",
    "magic_nodes",
    "map_wallets",
    "links",
    "exchange_transfers",
    "crowded_windows",
    "windows",
    "window_links",
    "address_facts",
    "map_parts",
)
"""The names of the statements of ``answers``. A statement comes after all statements that it uses."""

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


@cache
def statement(name: str) -> Statement:
    """Return the cluster's statement ``name``, from ``sql/build/NAME.sql`` or ``sql/answers/NAME.sql``."""
    folder = files("holderlake.cluster").joinpath("sql")
    text = folder.joinpath("build" if name in BUILD else "answers", f"{name}.sql").read_text("utf-8")
    return Statement(name, text.replace("{carried}", folder.joinpath("carried.sql").read_text("utf-8")))


def _literal(value: Value) -> str:
    if value is None:
        return "NULL"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)
