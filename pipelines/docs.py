"""Writes the reference pages of ``docs/`` from the code: ``python -m pipelines.docs``. A test holds the pages to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, get_args

import typer.main
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from contract.tables import TABLES, Table
from pipelines.cli import app
from resources.layout import Query, queries
from resources.settings import Settings

FOLDER: Final = Path(__file__).parents[1] / "docs"

_TABLES_HEAD: Final = """\
# Tables

The lake (Parquet) and the warehouse (DuckDB) have the same tables and columns; the warehouse calls `as_of` `timestamp`.
Times are UTC, shares are parts of the total supply from 0 to 1. Rows have two time axes: `as_of` is the instant that
a row is true as of, `fetched_at` when it was learnt. Endpoints without history mode (chains, tokens,
subgraph_transfers, addresses) tell what is known at `fetched_at`, whatever past the partition is for.

An amount is exact: `amount` is a decimal of 18 places, and where that can't hold the number (10^20 and more, or further
decimals) the exact text stands in `amount_exact`, which is null otherwise. The same goes for `total_value`.
"""

_SETTINGS_HEAD: Final = """\
# Settings

One file, `holderlake.toml` in the current folder (or the file that `HOLDERLAKE_CONFIG` names), and environment
variables over it. Two underscores stand between section and name. The API key is taken from the environment only.
`holderlake doctor` says whether all is in order.
"""

_SQL_HEAD: Final = """\
# Views and macros

`holderlake sql` asks the warehouse read-only; any DuckDB client may open `warehouse.duckdb`. A load never blocks a
reader: it replaces the file as a whole. Besides the [tables](tables.md) there are these.
"""

_COMMANDS_HEAD: Final = """\
# Commands

`holderlake COMMAND --help` says the same. Times are ISO dates, date-times (UTC unless they name a zone) or unix
seconds.
"""


def tables_page() -> str:
    """Every table and column."""
    return _TABLES_HEAD + "".join(_table(table) for table in TABLES.values())


def settings_page() -> str:
    """Every setting with its environment variable and default."""
    return _SETTINGS_HEAD + "".join(_settings(Settings, ()))


def commands_page() -> str:
    """Every command with its arguments and options."""
    return _COMMANDS_HEAD + "".join(_commands(typer.main.get_command(app), "holderlake"))


def sql_page() -> str:
    """Every view and macro of the warehouse, by the comment above it."""
    return _SQL_HEAD + "".join(_query(query) for query in queries())


PAGES: Final[dict[str, Callable[[], str]]] = {
    "tables.md": tables_page,
    "settings.md": settings_page,
    "commands.md": commands_page,
    "sql.md": sql_page,
}


def _table(table: Table) -> str:
    lines = [f"\n## {table.name}\n", f"A row is {table.row}. Key: {', '.join(f'`{name}`' for name in table.key)}.\n"]
    lines.append("| column | type | what it holds |\n|---|---|---|")
    for field in table.schema:
        null = "" if field.nullable else ", never null"
        lines.append(f"| `{field.name}` | {field.type}{null} | {field.metadata[b'comment'].decode()} |")
    return "\n".join(lines) + "\n"


def _query(query: Query) -> str:
    about = query.comment.partition("Example:")[0]
    return f"\n## {query.signature}\n\n{' '.join(about.split())}\n\n```sql\n{' '.join(query.example.split())}\n```\n"


def _settings(model: type[BaseModel], path: tuple[str, ...]) -> Iterator[str]:
    title = f"[{'.'.join(path)}]" if path else "Top level"
    about = " ".join((model.__doc__ or "").split()) if path else ""
    plain = {name: field for name, field in model.model_fields.items() if not _is_section(field.annotation)}
    if plain:
        yield f"\n## {title}\n\n" + (f"{about}\n\n" if about else "")
        yield "| setting | environment | default | what it is |\n|---|---|---|---|\n"
        for name, field in plain.items():
            variable = "HOLDERLAKE_" + "__".join((*path, name)).upper()
            yield f"| `{name}` | `{variable}` | {_default(field.default)} | {field.description} |\n"
    for name, field in model.model_fields.items():
        if _is_section(field.annotation) and isinstance(field.annotation, type):
            yield from _settings(field.annotation, (*path, name))
        for named in filter(_is_section, get_args(field.annotation)):  # sections under names of the user's own
            yield from _settings(named, (*path, name, "<name>"))


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _default(value: Any) -> str:
    if value is PydanticUndefined:
        return "required"
    if value is None or value in ({}, []):
        return "none"
    if isinstance(value, timedelta):
        return f"`{value.days}d`"
    if isinstance(value, list):
        return ", ".join(f"`{item}`" for item in value)
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _commands(command: Any, name: str) -> Iterator[str]:
    inner = getattr(command, "commands", None)
    if inner:
        for child, below in inner.items():
            yield from _commands(below, f"{name} {child}")
        return
    yield f"\n## {name}\n\n{' '.join((command.help or '').split())}\n"
    rows = [_parameter(one) for one in command.params if getattr(one, "name", "") != "help"]
    if rows:
        yield "\n| argument or option | what it is |\n|---|---|\n" + "".join(rows)


def _parameter(one: Any) -> str:
    shown = ", ".join(one.opts) if one.param_type_name == "option" else one.name.upper()
    default = f" Default: {one.default}." if one.default not in (None, False, True, []) else ""
    return f"| `{shown}` | {one.help}{default} |\n"


if __name__ == "__main__":
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page())
