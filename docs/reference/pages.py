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
from docs.reference.tables import ALL_TABLES, overview, table_page
from docs.reference.view_columns import view_columns
from holderlake.cli.exit_codes import EXIT_CODES
from holderlake.cli.main import app
from holderlake.engine.sources.files.mapping import FAILED, PRESETS, Preset
from holderlake.settings import Settings
from holderlake.settings.declared import COMMON, Setting, declared_settings, is_section, sections_below
from holderlake.warehouse.schema import Query, queries
from holderlake.warehouse.warehouse import Warehouse

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

_SETTINGS_HEAD: Final = """\
# Settings

Settings are in one file, `holderlake.toml` in the current folder (or the file that `HOLDERLAKE_CONFIG` names).
Environment variables override it; two underscores separate section and name. A variable replaces the file's complete
value, also a list or a table. The API key and other secrets come from the environment only. `holderlake doctor` checks
everything.

A duration is a number and s, m, h, d or w, such as `30s`, `24h` or `7d`. A size is a number and MB, GB or TB.

None is required. Most people set some of these; all settings follow by what you decide with them.

"""

_SQL_HEAD: Final = """\
# SQL: views and macros

`holderlake sql` queries the warehouse read-only. Any DuckDB client from 1.5 on can open `warehouse.duckdb`
([connect your tools](connect.md)). [Questions](questions.md) has twenty examples with their answers and plots.

**Names.** In addition to the [tables](tables.md) there are, for each of `tokens`, `holders`, `maps`, `map_nodes`,
`grouped_transfers`, `clusters` and `cluster_members`:

| name | rows |
|---|---|
| `latest_holders` | each token's newest partition |
| `holders_as_of(t)` | each token's newest partition at or before `t` |
| `holders_known_at(t, known)` | the same rows that were known at the time `known`: two axes of time |

**Times** are dates, date-times (UTC unless they name a zone), unix seconds, or a text of one of these. All sessions are
in UTC on every machine; [other clients](connect.md) set it first. A date alone names the complete day:
as of a date means as of its end; a period begins with its first day and, in `holder_changes`, ends with its last.
`until` of `flows` is the first day that no longer counts. Macros as of a time answer with the newest data at or before
it: `requested` and `days_earlier` show the distance, and `is_outdated` is true if it is more than `sql.as_of_warning`
of the [settings](settings.md). `holderlake sql` and the assistants' tools say so too.

**Lists have an end.** `holder_lists` says of each list of holders whether it is complete (`is_complete`), how many
holders the token has then (`holders_total`), and else the most that an address outside of it can have
(`unlisted_at_most`). `holder_changes`, `holder_overlap` and `holding_periods` are null, or show a bound, where a full
list does not know. Maps with other request options are other series: `series` in `concentration_history` and
`map_series`.

**All holders** of a token of your store are in `balances_at`, with exact balances at the end of any second. See
[all holders without lists](#all-holders-without-lists).

**Addresses** in hexadecimal may be in any case; for other addresses the case matters. A token without holders in its
newest answer has no rows, and neither has a token that was not fetched yet at `t`. **Amounts** have two columns:
`sum(amount)` is right for most tokens, `exact_total(amount, amount_exact)` for all; `ORDER BY exact_number(amount,
amount_exact)` orders amounts of any size. Columns of address details (`is_cex`, `label`, …) are null in `holders` if
details were not requested; `special_addresses` collects them from all tables.

**Readers never wait, and never see half a load.** A load writes a copy of the file and renames it: a reader that has
the old file open continues with it, and the next reader sees everything that was loaded. A killed load changes nothing.
Loads are idempotent: a partition that was written again replaces its rows. Rows are ordered by month, chain, token and
instant, so the file is small, and a query about a token or a time is fast. Each table's comment names its key; each
load counts rows that share one.

## From Python

```python
import holderlake

holderlake.open_warehouse().pandas("FROM latest_holders WHERE chain = 'eth'")
holderlake.open_warehouse().polars("FROM holder_changes('2025-01-01', '2026-01-01')")
holderlake.open_warehouse().arrow("FROM address_history(?)", ["0x6ba6f2207e343923ba692e5cae646fb0f566db8d"])
holderlake.open_lake().pandas("FROM concentration_history")
```

Run it in the folder of `holderlake.toml`, or name the file: `open_warehouse("data/warehouse.duckdb")`. Amounts are
exact, and whole numbers stay whole.

## All holders without lists

For tokens of your store, the balances of all addresses at the end of any second need no list and no credits. Macros
take a token's address or symbol.

```sql
-- the largest holders at a second
FROM balances_at('FERN', '2025-12-31T12:00:00Z') ORDER BY amount DESC LIMIT 10;
-- everyone who entered, left or changed between two instants
SELECT address, earlier.amount AS before, later.amount AS after
FROM balances_at('FERN', '2025-06-01') AS earlier
FULL JOIN balances_at('FERN', '2025-12-31') AS later USING (chain, token_address, address)
WHERE later.raw_amount IS DISTINCT FROM earlier.raw_amount;
-- holders of both tokens
SELECT count(*)
FROM balances_at('FERN', '2025-12-31') SEMI JOIN balances_at('KELP', '2025-12-31') USING (chain, address);
-- how many holders there were, and what one address did
FROM holder_counts('FERN') ORDER BY day;
FROM balance_history('0x77107a2772361564a9c0a5461bce8fac01d211a8', 'FERN') ORDER BY block_time;
-- who holds an item of an NFT
FROM item_owner_at('GMOTH', 1, '2025-12-31');
```

An address without a row holds nothing then: no figure is cut off by a limit. The macros read the store's transfers,
opening balances and corrections as of the last load, of the one token only. A load writes the balances of new transfers
as Parquet files in the folder `warehouse.duckdb.transfers`: about 24 bytes for each change of a balance. Any DuckDB
that opens the warehouse, and `holderlake lake views`, read them. Missing transfers make balances wrong or negative: see
[are my transfers complete](sources.md#are-my-transfers-complete), and `verified` for tokens that change balances
without transfers.

## Without the warehouse

`holderlake lake views > lake.sql` writes a script that creates the same tables, views and macros over the lake's
Parquet files, for any DuckDB: `duckdb -init lake.sql`. It sets the session's time zone to UTC. It shows the partitions
that are committed when it is read; read it again to see later ones. While a partition is written, a query may see only
a part of it; the warehouse never does.

A damaged file blocks no query. Each time the script is read, it leaves out partitions with a manifest that cannot be
read, or with a file that is missing or has another size. The command itself reads every byte of the lake once, names
the damaged files on standard error, and leaves their partitions out too. `holderlake home rebuild --damaged` repairs
them at no cost. While files are damaged, the list of intact files belongs to one session of DuckDB: read the script
in each session and each cursor.

Other programs open a table's folder: see [connect your tools](connect.md#parquet-files).
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
    "Provider and key": ("api_key", "api_key_file", "http_transport", "provider"),
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


def sql_page() -> str:
    """Return the page of all views and macros with their columns."""
    return _SQL_HEAD + "".join(_query(query) for query in queries())


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
    "formats.md": formats_page,
    "python.md": python_page,
    **{f"tables/{name}.md": partial(table_page, table) for name, table in ALL_TABLES.items()},
    "../web/src/columns.ts": page_types,
}


def _query(query: Query) -> str:
    about, example = (" ".join(part.split()) for part in query.comment.split("Example:"))
    return f"\n## {query.signature}\n\n{about}\n\n```sql\n{example}\n```\n{_columns(query)}"


def _columns(query: Query) -> str:
    if query.kind == "MACRO":
        return ""
    if query.snapshot_of:
        more = ", and `known_until`" if query.name.startswith("replaced_") else ""
        if query.kind == "MACRO TABLE":
            more = ", and `requested`, `days_earlier` and `is_outdated` of [answered_as_of](#answered_as_ofof_family-t)"
        return f"\nColumns: those of [{query.snapshot_of}](tables/{query.snapshot_of}.md){more}.\n"
    rows = (f"| `{one.name}` | {one.type} | {one.meaning} |\n" for one in view_columns()[query.name])
    return "\n| column | type | meaning |\n|---|---|---|\n" + "".join(rows)


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
