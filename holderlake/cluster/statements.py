"""Load the cluster's SQL from ``sql/``, in the dialect of the database that runs it. The files are written for DuckDB.

A statement is a SELECT over named views, and its result is a view with the name of the statement. ``$name`` is a
parameter. ``{carried}`` is replaced by the common table expressions in ``sql/carried.sql``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

import sqlglot
from sqlglot import exp

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

Values = Mapping[str, int | str]
"""Values of parameters by name."""


@dataclass(frozen=True)
class Statement:
    """The SQL of a statement, and the names of its parameters."""

    sql: str
    parameters: frozenset[str]

    def chosen(self, values: Values) -> dict[str, int | str]:
        """Return those of ``values`` that are parameters of the statement. Raises ``KeyError`` if one is missing."""
        return {name: values[name] for name in self.parameters}


@cache
def statement(name: str, dialect: str = "duckdb") -> Statement:
    """Return the statement ``name`` in the SQL dialect ``duckdb`` or ``spark``.

    Its file is ``sql/build/NAME.sql`` or ``sql/answers/NAME.sql``.
    """
    folder = files("holderlake.cluster").joinpath("sql")
    text = folder.joinpath("build" if name in BUILD else "answers", f"{name}.sql").read_text()
    (tree,) = sqlglot.parse(text.replace("{carried}", folder.joinpath("carried.sql").read_text()), read="duckdb")
    if tree is None:
        path = folder.joinpath("build" if name in BUILD else "answers", f"{name}.sql")
        raise ValueError(f"{path} has no SQL statement; write one SELECT into it")
    parameters = frozenset(parameter.name for parameter in tree.find_all(exp.Parameter, exp.Placeholder))
    return Statement(tree.sql(dialect=dialect, comments=False), parameters)
