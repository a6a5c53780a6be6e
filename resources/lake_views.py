"""The lake without the warehouse: a script of views over its Parquet files, for those who bring a DuckDB of their own.

The script makes the warehouse's tables as views, and all its views and macros over them, so a query gives the same
answer on either. It counts what the manifests tell when it is run; run it again to see what was committed since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from contract.tables import TABLES, Table
from resources import layout
from resources.lake import SIDE_TABLES, Lake
from resources.layout import column_name, quoted

_HEAD: Final = """\
-- The lake's Parquet files as the warehouse's tables, views and macros. Read it into any DuckDB (2.0 or later):
--     duckdb -init lake.sql        or        connection.execute(open("lake.sql").read())
-- It counts the partitions that are committed when it is read; read it again to see later ones.
"""

_MANIFESTS: Final = """
CREATE OR REPLACE TABLE _manifests AS
SELECT family, chain, strptime("timestamp", '%Y%m%dT%H%M%SZ') AS timestamp, provider, written_at, tables, covered
FROM read_json(
    {paths},
    hive_partitioning = false,
    columns = {{
        family: 'VARCHAR', chain: 'VARCHAR', timestamp: 'VARCHAR', provider: 'VARCHAR', written_at: 'TIMESTAMP',
        tables: 'MAP(VARCHAR, STRUCT("rows" BIGINT))', covered: 'VARCHAR[]'
    }}
);
"""
_OWN: Final = """
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
    tables['failures']."rows" AS failures
FROM _manifests;

CREATE OR REPLACE VIEW coverage AS
SELECT chain, timestamp, family, unnest(covered) AS subject
FROM _manifests;
"""
_TABLE: Final = """
CREATE OR REPLACE VIEW {name} AS
SELECT {columns}
FROM (
    FROM read_parquet({paths}, hive_partitioning = false, union_by_name = true)
    UNION ALL BY NAME SELECT {nulls} WHERE false
) AS files
SEMI JOIN (FROM _manifests WHERE tables['{name}']."rows" > 0) AS committed
    ON committed.chain = files.chain AND committed.timestamp = files.as_of;
"""
_SIDE_TABLE: Final = """
CREATE OR REPLACE VIEW {name} AS
SELECT {columns}
FROM (
    FROM read_parquet({paths}, hive_partitioning = false, union_by_name = true, filename = true)
    UNION ALL BY NAME SELECT {nulls} WHERE false
) AS files
SEMI JOIN (FROM _manifests WHERE tables['{name}']."rows" > 0) AS committed
    ON committed.chain = files.chain
    AND committed.timestamp = files.as_of
    AND committed.family = regexp_extract(files.filename, 'part-(\\w+)\\.parquet$', 1);
"""
_EMPTY: Final = """
CREATE OR REPLACE VIEW {name} AS
SELECT {columns}
WHERE false;
"""


def script(lake: Lake) -> str:
    """The SQL. Files are named by their whole paths."""
    return "".join(_statements(lake.root.resolve()))


def _statements(root: Path) -> Iterator[str]:
    sides = ", ".join(map(quoted, SIDE_TABLES))
    yield _HEAD
    yield _MANIFESTS.format(paths=quoted(f"{root}/_manifests/chain=*/timestamp=*/*.json"))
    yield _OWN.format(sides=sides)
    yield from (_view(root, table) for table in TABLES.values())
    yield from (f"\n{statement}" for statement in layout.asking("VIEW"))


def _view(root: Path, table: Table) -> str:
    if next(root.glob(f"{table.name}/chain=*/timestamp=*/part-*.parquet"), None) is None:
        return _EMPTY.format(name=table.name, columns=_nulls(table, column_name))
    columns = ", ".join("as_of AS timestamp" if name == "as_of" else name for name in table.schema.names)
    side = table.name in SIDE_TABLES
    paths = quoted(f"{root}/{table.name}/chain=*/timestamp=*/{'part-*' if side else 'part-0'}.parquet")
    view = _SIDE_TABLE if side else _TABLE
    return view.format(name=table.name, columns=columns, paths=paths, nulls=_nulls(table))


def _nulls(table: Table, named: Callable[[str], str] = str) -> str:
    """Return a typed null for each column: files of an older version may lack some of them."""
    return ", ".join(f"CAST(NULL AS {layout.sql_type(field)}) AS {named(field.name)}" for field in table.schema)
