"""Writes the reference pages of ``docs/`` from the code: ``python -m docs.reference.pages``..

``python -m docs.reference.pages data/warehouse.duckdb`` also renews the answers in ``questions.md``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, get_args, get_origin

import pyarrow as pa
import typer.main
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from docs.reference.tables import ALL_TABLES, overview, table_page
from holderlake.settings import Settings
from holderlake.warehouse.schema import Query, queries
from holderlake.warehouse.warehouse import Warehouse
from pipelines.cli.exit_codes import EXIT_CODES
from pipelines.cli.main import app

FOLDER: Final = Path(__file__).parents[1]

_TABLES_HEAD: Final = """\
# Tables

The lake (Parquet) and the warehouse (DuckDB) have the same tables and columns; the warehouse calls `as_of` `timestamp`.
Times are UTC, shares are parts of the total supply from 0 to 1. Rows have two time axes: `as_of` is the instant that
a row is true as of, `fetched_at` when it was learnt. Endpoints without history mode (chains, tokens,
subgraph_transfers, addresses) tell what is known at `fetched_at`, whatever past the partition is for.

An amount is exact: `amount` is a decimal of 18 places, and where that can't hold the number (10^20 and more, or further
decimals) the exact text stands in `amount_exact`, which is null otherwise. The same goes for `total_value`.

The lake's files are `data/lake/<table>/chain=<chain>/timestamp=<as-of instant>/part-0.parquet`. Each table has a page
of its own:

"""

_SETTINGS_HEAD: Final = """\
# Settings

One file, `holderlake.toml` in the current folder (or the file that `HOLDERLAKE_CONFIG` names), and environment
variables over it. Two underscores stand between section and name. The API key is taken from the environment only.
`holderlake doctor` says whether all is in order.
"""

_SQL_HEAD: Final = """\
# Views and macros

`holderlake sql` asks the warehouse read-only; any DuckDB client from 1.5 on may open `warehouse.duckdb`
([connect your tools](connect.md)). Ten questions with their queries and answers are in [questions](questions.md).

**Names.** Besides the [tables](tables.md) there is for each of `tokens`, `holders`, `maps`, `map_nodes`,
`grouped_transfers`, `clusters` and `cluster_members`:

| name | rows |
|---|---|
| `latest_holders` | each token's newest partition |
| `holders_as_of(t)` | each token's newest partition at or before `t`: what was true at `t` |
| `holders_known_at(t, known)` | the same, of what we knew at `known`: two axes of time |

**Times** are dates, date-times (UTC unless they name a zone), unix seconds, or text that reads as one. **Addresses**
may be written in any case where they are hexadecimal; elsewhere case counts. A token whose newest answer was "nobody
holds it" has no rows; a token that was never asked about, or not yet at `t`, has none either. **Amounts** have two
columns: `sum(amount)` is right for most tokens, `exact_total(amount, amount_exact)` for all. Columns of address details
(`is_cex`, `label`, …) are null in `holders` where details were not asked for; `special_addresses` knows them from
everywhere.

**Readers never wait, and never see half a load.** A load works on a copy of the file and puts it in place by one
rename: whoever has the old one open goes on reading it, whoever opens it afterwards sees all that was loaded. A load
that is killed changes nothing. Loading is idempotent: a partition that was written anew replaces its rows, a
backfilled one slots in. Rows lie by month, chain, token and instant, which makes the file small and questions about a
token or a time quick. Each table's comment states its key; rows that share one are counted at each load.

## From Python

```python
from holderlake.warehouse.dataframes import lake, warehouse

warehouse().pandas("FROM latest_holders WHERE chain = 'eth'")
warehouse().polars("FROM holder_changes('2025-01-01', '2026-01-01')")
warehouse().arrow("FROM address_history(?)", ["0x6ba6f2207e343923ba692e5cae646fb0f566db8d"])
lake().pandas("FROM concentration_history")
```

Run it from the checkout, or name the file: `warehouse("data/warehouse.duckdb")`. Amounts stay exact, whole numbers
whole.

## Without the warehouse

`holderlake lake-views > lake.sql` writes a script that makes the same tables, views and macros over the lake's Parquet
files, for any DuckDB: `duckdb -init lake.sql`. It counts the partitions that are committed when it is read; read it
again to see later ones. While a partition is written again, a query may see only a part of it; the warehouse never
shows that.

A damaged file blocks no query. Each time the script is read, it leaves out partitions with a manifest that cannot be
read, or with a file that is missing or has another size. The command itself reads every byte of the lake once, names
the damaged files on standard error, and leaves their partitions out too. `holderlake rebuild --damaged` repairs them
at no cost. While files are damaged, the list of intact files belongs to one session of DuckDB: read the script in
each session and each cursor.

Other engines read the files by themselves (`data/lake/holders/chain=*/timestamp=*/part-0.parquet`).
"""

_COMMANDS_HEAD: Final = """\
# Commands

`holderlake COMMAND --help` says the same. Times are ISO dates, date-times (UTC unless they name a zone) or unix
seconds.

All commands end with one of these exit codes:

| exit code | meaning |
|---:|---|
"""


def tables_page() -> str:
    """What holds for all tables, and the list of them."""
    return _TABLES_HEAD + overview()


def settings_page() -> str:
    """Every setting with its environment variable and default."""
    return _SETTINGS_HEAD + "".join(_settings(Settings, ()))


def commands_page() -> str:
    """Every command with its arguments and options."""
    codes = "".join(f"| {code} | {sentence} |\n" for code, sentence in EXIT_CODES.items())
    return _COMMANDS_HEAD + codes + "".join(_commands(typer.main.get_command(app), "holderlake"))


def sql_page() -> str:
    """Every view and macro of the warehouse, by the comment above it."""
    return _SQL_HEAD + "".join(_query(query) for query in queries())


def answered(page: str, ask: Callable[[str], pa.Table]) -> str:
    """A page with the answer below each query, in place of the one that stood there."""
    bare = re.sub(r"(?<=```\n)\n(?:\|.*\n)+", "", page)
    return re.sub(r"```sql\n(.*?)```\n", lambda found: found.group() + _markdown(ask(found[1])), bare, flags=re.DOTALL)


def _markdown(answer: pa.Table) -> str:
    rows = [list(row.values()) for row in answer.to_pylist()]
    lines = [answer.column_names, ["---"] * answer.num_columns, *(list(map(_shown, row)) for row in rows)]
    return "\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4f}".rstrip("0").rstrip(".")
    return "" if value is None else str(value)


PAGES: Final[dict[str, Callable[[], str]]] = {
    "tables.md": tables_page,
    "settings.md": settings_page,
    "commands.md": commands_page,
    "sql.md": sql_page,
    **{f"tables/{name}.md": partial(table_page, table) for name, table in ALL_TABLES.items()},
}


def _query(query: Query) -> str:
    about = query.comment.partition("Example:")[0]
    return f"\n## {query.signature}\n\n{' '.join(about.split())}\n\n```sql\n{' '.join(query.example.split())}\n```\n"


def _settings(model: type[BaseModel], path: tuple[str, ...]) -> Iterator[str]:
    title = f"`[{'.'.join(path)}]`" if path else "Top level"
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
        for inner in filter(_is_section, get_args(field.annotation)):  # optional, or under names of the user's own
            named = ("<name>",) if get_origin(field.annotation) is dict else ()
            yield from _settings(inner, (*path, name, *named))


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
    for path in sys.argv[1:]:
        questions = FOLDER / "questions.md"
        questions.write_text(answered(questions.read_text(), Warehouse(Path(path)).query))
