"""Write the reference pages of ``docs/`` from the code: ``python -m docs.reference.pages``.

``python -m docs.reference.pages data/warehouse.duckdb`` also writes the answers in ``questions.md`` and their plots.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Collection, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import typer.main
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from docs.reference.page_types import page_types
from docs.reference.plots import plots
from docs.reference.python_api import python_page
from docs.reference.sql_pages import SUBJECTS, sql_page, subject_page
from docs.reference.tables import ALL_TABLES, overview, table_page
from holderlake.cli.exit_codes import EXIT_CODES
from holderlake.cli.init import COMMON, duration_text
from holderlake.cli.main import app
from holderlake.core.contract.figures import FIGURES, UNITS
from holderlake.core.settings import Settings
from holderlake.core.settings.declared import (
    Setting,
    declared_settings,
    is_section,
    sections_below,
)
from holderlake.core.warehouse.warehouse import Warehouse
from holderlake.sources.files.mapping import FAILED, PRESETS, Preset

FOLDER: Final = Path(__file__).parents[1]

_TABLES_HEAD: Final = """\
# Tables

The lake (Parquet) and the warehouse (DuckDB) have the same tables and columns; the warehouse calls `as_of` `timestamp`.
Times are UTC, shares are parts of the total supply from 0 to 1. Rows have two time axes: `as_of` is the instant that
the row describes, `fetched_at` is when it was fetched. Endpoints without history mode (chains, tokens,
subgraph_transfers, addresses) return the state at `fetched_at`, also in a partition of an earlier instant.

An amount is exact: `amount` is a decimal of 18 places. An amount that is too large (10^20 and more) or has more
decimals is null there, and its exact text is in `amount_exact`, which is null otherwise. The same goes for
`total_value`.

The lake's files are `data/lake/<table>/chain=<chain>/timestamp=<as-of instant>/part-0.parquet`. Each table has a page:

"""

_FIGURES_HEAD: Final = """\
# Figures of a map

The explorer, its saved files, the pictures of the service, reports, the notebook, SQL and these pages use these names.
Shares are parts of the total supply. A group is a cluster, or a holder outside of clusters.

| figure | in little room | column | unit | definition |
|---|---|---|---|---|
"""

_SETTINGS_HEAD: Final = """\
# Settings

Settings are in one file, `holderlake.toml` in the current folder (or the file that `HOLDERLAKE_CONFIG` names).
Environment variables override it; two underscores separate section and name. A variable replaces the file's complete
value, also a list or a table. The API key and other secrets come from the environment only. `holderlake doctor` checks
everything.

A duration is a number and s, m, h, d or w, such as `30s`, `24h` or `7d`. A size is a number and MB, GB or TB.

None is required. Most people set some of these; all settings follow by what you decide with them.

"""

_COMMANDS_HEAD: Final = """\
# Commands

`holderlake COMMAND --help` prints the same. Times are ISO dates, date-times (UTC unless they name a zone) or unix
seconds.

All commands end with one of these exit codes:

| exit code | meaning |
|---:|---|
"""


_SETTINGS_COLUMNS: Final = "| setting | environment | default | meaning |\n|---|---|---|---|\n"
DECISIONS: Final = {
    "Folders and databases": ("home", "lake", "bucket", "state"),
    "Provider and key": ("api_key", "api_key_file", "provider"),
    "What to fetch": ("watchlist", "address_sets", "maps", "holders", "addresses"),
    "Schedule and budget": ("schedule", "budget", "healing"),
    "Retention": ("retention",),
    "Alerts and queries": ("alerts", "sql"),
    "Own transfers": ("engine", "sources", "cluster"),
    "Service and explorer": ("service", "explorer"),
}
"""Fields of ``Settings`` by what a user decides with them."""

_FORMATS_HEAD: Final = """\
# Formats of transfer files

`holderlake import files` recognises these exports by their columns, or reads them with `--format`. Names match in any
case and with any separators. Each sample is one row of such a file, as JSON; a CSV or Parquet file has the same names
as columns.
[Where transfers come from](sources.md#add-a-format) shows how to add a format, and the options for other files.

Rows of failed transactions are passed over, also in files with your own `--map`. These columns mark them:

| column | values of failed transactions |
|---|---|
"""


def tables_page() -> str:
    """Return the page of all tables."""
    return _TABLES_HEAD + overview()


def settings_page() -> str:
    """Return the page of all settings with their environment variables and defaults.

    The ones that most people set come first, then all of them by what a user decides.
    """
    declared = {setting.name: setting for setting in declared_settings()}
    page = _SETTINGS_HEAD + _SETTINGS_COLUMNS + "".join(_setting_row(declared[name]) for name in COMMON)
    for decision, names in DECISIONS.items():
        page += f"\n## {decision}\n" + "".join(_settings(Settings, (), names))
    return page


def commands_page() -> str:
    """Return the page of all commands with their arguments and options."""
    codes = "".join(f"| {code} | {sentence} |\n" for code, sentence in EXIT_CODES.items())
    return _COMMANDS_HEAD + codes + "".join(_commands(typer.main.get_command(app), "holderlake"))


def figures_page() -> str:
    """Return the page of the figures of maps."""
    row = "| {0.title} | {0.short} | `{1}` | {2} | {0.explanation}; {0.definition} |\n"
    return _FIGURES_HEAD + "".join(row.format(figure, column, UNITS[figure.unit]) for column, figure in FIGURES.items())


def formats_page() -> str:
    """Return the page of the presets of transfer files, each with its columns and its sample."""
    lines = [f"| `{name}` | {', '.join(f'`{value}`' for value in values)} |\n" for name, values in FAILED.items()]
    return _FORMATS_HEAD + "".join([*lines, *map(_preset, PRESETS)])


def _preset(preset: Preset) -> str:
    rows = [(ours, names, "") for ours, names in preset.columns.items()]
    rows += [(ours, names, "may be missing") for ours, names in preset.optional.items()]
    lines = [f"| `{ours}` | {', '.join(f'`{name}`' for name in names)} | {remark} |" for ours, names, remark in rows]
    lines += [f"| `{ours}` | always `{value}` | |" for ours, value in preset.constants.items()]
    rules = [
        f"Only rows whose `{name}` is {' or '.join(map(repr, values))} are read."
        for name, values in preset.only.items()
    ]
    rules += [f"The file has no column `{name}`." for name in preset.lacks]
    rules += [f"The file also has a column `{name}`." for name in preset.known_by]
    sample = json.dumps(dict(preset.sample), indent=2, ensure_ascii=False)
    paragraphs = [
        f"\n## {preset.title}",
        f"`--format {preset.format}`",
        "\n".join(["| our column | columns of the file | |", "|---|---|---|", *lines]),
        *([" ".join(rules)] if rules else []),
        f"```json\n{sample}\n```\n",
    ]
    return "\n\n".join(paragraphs)


def with_answers(page: str, query: Callable[[str], pa.Table]) -> str:
    """Return a page with the rows of each query below it, in place of older ones."""
    bare = re.sub(r"(?<=```\n)\n(?:\|.*\n)+", "", page)
    return re.sub(
        r"```sql\n(.*?)```\n", lambda match: match.group() + _markdown(query(match[1])), bare, flags=re.DOTALL
    )


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
    **{f"sql/{subject.name}.md": partial(subject_page, subject) for subject in SUBJECTS},
    "formats.md": formats_page,
    "figures.md": figures_page,
    "python.md": python_page,
    **{f"tables/{name}.md": partial(table_page, table) for name, table in ALL_TABLES.items()},
    "../web/src/columns.ts": page_types,
}


def _settings(model: type[BaseModel], path: tuple[str, ...], names: Collection[str] | None = None) -> Iterator[str]:
    """Yield the text of a section and of the sections in it; ``names`` selects fields of the section."""
    fields = {name: field for name, field in model.model_fields.items() if names is None or name in names}
    plain = [Setting((*path, name), field) for name, field in fields.items() if not is_section(field.annotation)]
    if plain:
        about = " ".join((model.__doc__ or "").split()) if path else ""
        yield (f"\n### `[{'.'.join(path)}]`\n" if path else "") + (f"\n{about}\n" if about else "")
        yield "\n" + _SETTINGS_COLUMNS
        yield from map(_setting_row, plain)
    for name in fields:
        for inner, below in sections_below(model, (*path, name)):
            yield from _settings(inner, below)


def _setting_row(setting: Setting) -> str:
    field = setting.field
    return f"| `{setting.name}` | `{setting.variable}` | {_default(field.default)} | {field.description} |\n"


def _default(value: Any) -> str:
    if value is PydanticUndefined:
        return "required"
    if value is None or value in ({}, [], frozenset()):
        return "none"
    if isinstance(value, timedelta):
        return f"`{duration_text(value)}`"
    if isinstance(value, list):
        return ", ".join(map(_default, value))
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _commands(command: Any, name: str) -> Iterator[str]:
    inner = getattr(command, "commands", None)
    if inner:
        for child, below in inner.items():
            yield from _commands(below, f"{name} {child}")
        return
    about, *examples = (" ".join(part.split()) for part in command.help.split("Example: "))
    yield "\n".join([f"\n## {name}\n", about, "\n```sh", *examples, "```\n"])
    rows = [_parameter(one) for one in command.params if getattr(one, "name", "") != "help"]
    if rows:
        yield "\n| argument or option | meaning |\n|---|---|\n" + "".join(rows)


def _parameter(one: Any) -> str:
    shown = ", ".join(one.opts) if one.param_type_name == "option" else one.name.upper()
    default = f" Default: {one.default}." if one.default not in (None, False, True, []) else ""
    return f"| `{shown}` | {one.help}{default} |\n"


if __name__ == "__main__":
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page())
    for path in sys.argv[1:]:
        questions, query = FOLDER / "questions.md", Warehouse(Path(path)).query
        questions.write_text(with_answers(questions.read_text(), query))
        for name, picture in plots(questions.read_text(), query):
            (FOLDER / name).write_text(picture)
