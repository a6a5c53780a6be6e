"""A SQL script of views over the lake's Parquet files, for any DuckDB without the warehouse.

The script creates the warehouse's tables as views, and all its views and macros. So a query returns the same rows as in
the warehouse. DuckDB finds the committed partitions when it reads the script; read it again to see later partitions.

DuckDB refuses a query over Parquet files if one of them is damaged. So the script compares each partition with its
manifest, and leaves out damaged partitions. If some files of a table are damaged, a DuckDB variable lists the intact
ones. Variables belong to a session: read the script in each session that queries a damaged lake.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

from holderlake.core.contract.tables import TABLES, Table
from holderlake.core.contract.text import printable
from holderlake.core.lake.damage import Damage
from holderlake.core.lake.lake import SIDE_TABLES, Lake
from holderlake.core.storage import layout
from holderlake.core.warehouse import schema, spending
from holderlake.core.warehouse.connections import UTC_SESSION
from holderlake.core.warehouse.schema import column_name, quoted
from holderlake.engine import warehouse_files

_HEAD: Final = """\
-- The lake's Parquet files as the warehouse's tables, views and macros. Read it into any DuckDB (1.5 or later):
--     duckdb -init lake.sql        or        connection.execute(open("lake.sql").read())
-- It shows the partitions that are committed when it is read; read it again to see later ones. It leaves out
-- partitions with damaged files; 'holderlake home rebuild --damaged' repairs them at no cost. All times are UTC, and so
-- is the session that reads it.
"""

_MANIFESTS: Final = """
CREATE SCHEMA IF NOT EXISTS _internal;
CREATE OR REPLACE TEMP TABLE _files AS
WITH found AS (
    SELECT filename, size, string_split(filename, '/') AS parts
    FROM read_blob({globs})
)
SELECT
    filename,
    size,
    parts[-4] AS table_name,
    split_part(parts[-3], '=', 2) AS chain,
    split_part(parts[-2], '=', 2) AS timestamp,
    if(table_name IN ({sides}), parts[-1][6:-9], {families}[table_name]) AS family
FROM found
ORDER BY filename; -- without an order, DuckDB writes each file's row as a batch of its own, in four times the time

CREATE OR REPLACE TABLE _internal.manifests AS
WITH read AS (
    SELECT
        string_split(filename, '/') AS parts,
        sha256(content) AS sha256,
        TRY_CAST(
            TRY_CAST(try(decode(content)) AS JSON) AS STRUCT(
                family VARCHAR, chain VARCHAR, timestamp VARCHAR, provider VARCHAR, written_at TIMESTAMP,
                tables MAP(VARCHAR, STRUCT("rows" BIGINT, bytes BIGINT)), covered VARCHAR[],
                answers MAP(VARCHAR, TIMESTAMP[]), unanswered VARCHAR[], store_change BIGINT
            )
        ) AS manifest
    FROM read_blob({manifests})
),
readable AS (
    SELECT unnest(manifest)
    FROM read
    WHERE manifest.family || '.json' = parts[-1]
        AND manifest.chain = split_part(parts[-3], '=', 2)
        AND manifest.timestamp = split_part(parts[-2], '=', 2)
        AND try_strptime(manifest.timestamp, '%Y%m%dT%H%M%SZ') IS NOT NULL
        AND manifest.provider IS NOT NULL
        AND manifest.written_at IS NOT NULL
        AND manifest.tables IS NOT NULL
        AND manifest.covered IS NOT NULL
        AND NOT list_contains(CAST({damaged} AS VARCHAR[]), sha256)
),
listed AS (
    SELECT family, chain, timestamp, file.key AS table_name, file.value."rows" AS row_count, file.value.bytes AS size
    FROM (SELECT family, chain, timestamp, unnest(map_entries(tables)) AS file FROM readable)
),
not_intact AS (
    SELECT family, chain, timestamp
    FROM listed
    ANTI JOIN _files USING (family, chain, timestamp, table_name, size)
    WHERE NOT coalesce(table_name IN ({sides}) AND row_count = 0 AND size = 0, false)
    UNION ALL
    FROM (SELECT family, chain, timestamp FROM listed WHERE coalesce(row_count, -1) < 0)
)
SELECT * REPLACE (strptime(timestamp, '%Y%m%dT%H%M%SZ') AS timestamp)
FROM readable
ANTI JOIN not_intact USING (family, chain, timestamp);
"""
_INTACT: Final = """
SET VARIABLE {name}_files = (
    SELECT if(bool_and(is_intact), NULL, coalesce(list(filename) FILTER (is_intact), []))
    FROM (
        SELECT filename, coalesce(committed.tables['{name}'].bytes = size, false) AS is_intact
        FROM _files
        LEFT JOIN _internal.manifests AS committed
            ON committed.family = _files.family
            AND committed.chain = _files.chain
            AND committed.timestamp = strptime(_files.timestamp, '%Y%m%dT%H%M%SZ')
        WHERE table_name = '{name}'
    )
);
"""
_OWN_VIEWS: Final = """
CREATE OR REPLACE VIEW partitions AS
SELECT
    chain,
    timestamp,
    family,
    provider,
    written_at,
    CAST(
        list_sum([file.value."rows" FOR file IN map_entries(tables) IF file.key NOT IN ({sides})]) AS BIGINT
    ) AS row_count,
    tables['failures']."rows" AS failures,
    store_change
FROM _internal.manifests;

CREATE OR REPLACE VIEW coverage AS
SELECT chain, timestamp, family, subject, list_min(answers[subject]) AS known_since
FROM (SELECT chain, timestamp, family, answers, unnest(covered) AS subject FROM _internal.manifests);

CREATE OR REPLACE VIEW unanswered AS
SELECT chain, timestamp, family, unnest(unanswered) AS subject
FROM _internal.manifests;
"""
_TABLE: Final = """
CREATE OR REPLACE VIEW {name} AS
SELECT {columns}
FROM (
    FROM {files}
    UNION ALL BY NAME SELECT {nulls} WHERE false
) AS files
SEMI JOIN (FROM _internal.manifests WHERE tables['{name}']."rows" > 0) AS committed
    ON committed.chain = files.chain AND committed.timestamp = files.as_of;
"""
_SIDE_TABLE: Final = """
CREATE OR REPLACE VIEW {name} AS
SELECT {columns}
FROM (
    FROM {files}
    UNION ALL BY NAME SELECT {nulls} WHERE false
) AS files
SEMI JOIN (FROM _internal.manifests WHERE tables['{name}']."rows" > 0) AS committed
    ON committed.chain = files.chain
    AND committed.timestamp = files.as_of
    AND committed.family = regexp_extract(files.filename, 'part-(\\w+)\\.parquet$', 1);
"""
_ALL_OR_INTACT: Final = """\
FROM read_parquet(
    coalesce(getvariable('{name}_files'), [{paths}]),
    hive_partitioning = true, hive_types_autocast = false, union_by_name = true, filename = true
)"""
_NO_FILES: Final = "SELECT CAST(NULL AS VARCHAR) AS filename WHERE false"
_EMPTY: Final = """
CREATE OR REPLACE VIEW {name} AS
SELECT {columns}
WHERE false;
"""


def script(
    lake: Lake,
    damaged: Iterable[Damage] = (),
    own_folder: Path | None = None,
    as_of_warning: timedelta = timedelta(days=1),
) -> str:
    """Return the SQL script, with absolute paths. ``own_folder`` is the folder of the user's own transfers, if any.

    Answers older than requested by ``as_of_warning`` are outdated.

    DuckDB finds missing, truncated and unreadable files itself, each time it reads the script. ``damaged`` are files
    whose damage only a comparison of every byte finds. Their partitions are left out until they are written again.
    """
    statements = _statements(lake.root.resolve(), list(damaged), own_folder)
    return "".join(statements) + schema.as_of_warning(as_of_warning)


def _statements(root: Path, damaged: Sequence[Damage], own_folder: Path | None) -> Iterator[str]:
    sides = ", ".join(map(quoted, SIDE_TABLES))
    manifests = f"{root}/{layout.manifest_name('*', '*', '*')}"
    tables = [table for table in TABLES.values() if next(root.glob(_pattern(table)), None) is not None]
    globs = [f"{root}/{_pattern(table)}" for table in tables] or [manifests]
    families = (f"{quoted(table.name)}: {quoted(table.family)}" for table in TABLES.values() if table.family)
    yield _HEAD
    yield f"{UTC_SESSION}\n"
    yield from (f"-- Left out, because it is damaged: {printable(str(damage))}\n" for damage in damaged)
    yield _MANIFESTS.format(
        manifests=quoted(manifests),
        globs=_list(globs),
        sides=sides,
        families="MAP {" + ", ".join(families) + "}",
        damaged=_list(_manifest_digests(root, damaged)),
    )
    yield from (_INTACT.format(name=table.name) for table in tables)
    yield "\nDROP TABLE _files;\n"
    yield _OWN_VIEWS.format(sides=sides)
    # DuckDB reads the columns of all files for each table that a view names. So the views are created over empty
    # tables of the same columns, and these are replaced afterwards.
    yield from (
        _view(root, table, is_empty=True)
        for table in (*TABLES.values(), spending.TABLE, *(part.TABLE for part in schema.OWN_TABLE.parts()))
    )
    yield warehouse_files.views(own_folder)
    yield from (f"\n{statement}" for statement in schema.view_statements())
    yield from (_view(root, table, is_empty=False) for table in tables)
    yield from (f"\n{statement}" for statement in schema.comment_statements("VIEW"))


def _manifest_digests(root: Path, damaged: Iterable[Damage]) -> Iterator[str]:
    """Yield the SHA-256 of each damaged partition's manifest. It changes when the partition is written again."""
    for place in sorted({damage.place for damage in damaged if damage.place}):
        with suppress(OSError):
            yield hashlib.sha256(layout.manifest_path(root, *place).read_bytes()).hexdigest()


def _view(root: Path, table: Table, *, is_empty: bool) -> str:
    if is_empty:
        return _EMPTY.format(name=table.name, columns=_nulls(table, column_name))
    columns = ", ".join("as_of AS timestamp" if name == "as_of" else name for name in table.schema.names)
    read = _ALL_OR_INTACT.format(name=table.name, paths=quoted(f"{root}/{_pattern(table)}"))
    files = f"query(if(len(getvariable('{table.name}_files')) = 0, {quoted(_NO_FILES)}, {quoted(read)}))"
    view = _SIDE_TABLE if table.name in SIDE_TABLES else _TABLE
    return view.format(name=table.name, columns=columns, files=files, nulls=_nulls(table))


def _pattern(table: Table) -> str:
    """Return the glob of a table's files, relative to the lake's folder."""
    return layout.table_name(table.name, "*", "*", "*")


def _list(texts: Iterable[str]) -> str:
    """Return texts as an SQL list."""
    return "[" + ", ".join(map(quoted, texts)) + "]"


def _nulls(table: Table, rename: Callable[[str], str] = str) -> str:
    """Return SQL with a typed null for each column, because files of an older version may lack columns.

    ``rename`` maps the lake's name of a column to the name in the view.
    """
    return ", ".join(f"CAST(NULL AS {schema.sql_type(field)}) AS {rename(field.name)}" for field in table.schema)
