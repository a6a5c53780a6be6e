"""The SQL of the cluster: written once in DuckDB's dialect in ``sql/``, transpiled for whoever runs it.

A statement is a SELECT over views by name; what it makes is a view under the statement's own name. ``$names`` are
bound, never pasted; ``{carried}`` stands for the steps of ``sql/carried.sql``, which several share.
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
"""The derived tables in the order in which they are made."""

ANSWERS: Final = (
    "hypernodes",
    "supernodes",
    "held",
    "holders",
    "top",
    "counted",
    "dealings",
    "magic",
    "on_map",
    "links",
    "exchange_transfers",
    "crowded",
    "windows",
    "window_links",
    "facts",
    "parts",
)
"""The statements of bulk answers in the order in which they build on each other."""

Values = Mapping[str, int | str]


@dataclass(frozen=True)
class Statement:
    """A statement: the name of what it makes, its SQL, and the names that have to be bound."""

    name: str
    sql: str
    binds: frozenset[str]

    def chosen(self, values: Values) -> dict[str, int | str]:
        """Those of the values that the statement binds. Raises ``KeyError`` where one is missing."""
        return {name: values[name] for name in self.binds}


@cache
def statement(name: str, dialect: str = "duckdb") -> Statement:
    """A statement by name, in the dialect of whoever runs it."""
    folder = files("holderlake.cluster").joinpath("sql")
    text = folder.joinpath("build" if name in BUILD else "answers", f"{name}.sql").read_text()
    (tree,) = sqlglot.parse(text.replace("{carried}", folder.joinpath("carried.sql").read_text()), read="duckdb")
    if tree is None:
        raise ValueError(f"the statement {name} is empty")
    binds = frozenset(parameter.name for parameter in tree.find_all(exp.Parameter, exp.Placeholder))
    return Statement(name, tree.sql(dialect=dialect, comments=False), binds)
