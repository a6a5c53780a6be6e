"""Answers of other tools from the raw Parquet file: a token's largest holders, and the transfers among them.

Each way is written with care and knowledge of the tool: only the columns needed, filters pushed down, amounts
as exact as the tool has them. Times are milliseconds of CPU, all threads together, of a process that
has loaded the tool; the way itself begins from the file.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb

TOP: Final = 80

Way = Callable[[Path, str, int], Any]
"""A function of a Parquet file, a token's address and unix seconds. It computes the token's answer as of that second.
"""


@dataclass(frozen=True)
class Tool:
    """The ways of one tool for holder lists and maps; None if the tool has none. ``modules`` must be installed."""

    modules: tuple[str, ...]
    holders: Way | None
    map: Way | None


def _duckdb(sql: str) -> Way:
    def ask(file: Path, token: str, at: int) -> Any:
        with duckdb.connect(config={"threads": 1}) as connection:
            connection.execute("SET enable_progress_bar = false")
            bound = {name: value for name, value in _bound(file, token, at).items() if f"${name}" in sql}
            return connection.sql(sql, params=bound).fetchall()

    return ask


def _bound(file: Path, token: str, at: int) -> dict[str, Any]:
    return {"file": str(file), "token": token, "at": at, "top": TOP}


_DECODED: Final = """
SELECT max(from_address), max(to_address), max(value), max(token_address)
FROM read_parquet($file) WHERE block_time <= $at
"""

_HOLDERS: Final = """
WITH moved AS (
    SELECT from_address, to_address, value::DECIMAL(38, 0) AS value
    FROM read_parquet($file) WHERE token_address = $token AND block_time <= $at
),
changes AS (
    SELECT to_address AS address, value FROM moved UNION ALL SELECT from_address, -value FROM moved
)
SELECT address, sum(value) AS balance FROM changes GROUP BY address ORDER BY balance DESC, address LIMIT 80
"""

_MAP: Final = f"""
WITH top AS MATERIALIZED ({_HOLDERS})
SELECT
    from_address, to_address, token_address,
    count(*) AS transfers, sum(value::DECIMAL(38, 0)) AS total, min(block_time) AS began, max(block_time) AS ended
FROM read_parquet($file)
WHERE
    block_time <= $at
    AND from_address IN (SELECT address FROM top)
    AND to_address IN (SELECT address FROM top)
GROUP BY from_address, to_address, token_address
"""


def _pandas_holders(file: Path, token: str, at: int) -> Any:
    import pandas as pd

    columns = ["from_address", "to_address", "value"]
    own = pd.read_parquet(file, columns=columns, filters=[("token_address", "==", token), ("block_time", "<=", at)])
    values = own.value.map(int).astype(object)  # Python's own integers: exact, and slow
    gained, lost = values.groupby(own.to_address).sum(), values.groupby(own.from_address).sum()
    return gained.sub(lost, fill_value=0).sort_values(ascending=False).head(TOP)


def _pandas_map(file: Path, token: str, at: int) -> Any:
    import networkx as nx
    import pandas as pd

    top = list(_pandas_holders(file, token, at).index)
    among = [("block_time", "<=", at), ("from_address", "in", top), ("to_address", "in", top)]
    columns = ["from_address", "to_address", "token_address", "value", "block_time"]
    inside = pd.read_parquet(file, columns=columns, filters=among)
    inside["value"] = inside.value.map(int).astype(object)
    pairs = inside.groupby(["from_address", "to_address", "token_address"])
    links = pairs.agg({"value": ["size", "sum"], "block_time": ["min", "max"]}).reset_index()
    graph = nx.from_edgelist(zip(links["from_address"], links["to_address"], strict=True))
    return links, list(nx.connected_components(graph))


def _polars_rows(file: Path, at: int) -> Any:
    import polars as pl

    # 128 bits are what polars has; it runs past them without a word
    return pl.scan_parquet(file).filter(pl.col("block_time") <= at).with_columns(pl.col("value").cast(pl.Int128))


def _polars_holders(file: Path, token: str, at: int) -> Any:
    import polars as pl

    own = _polars_rows(file, at).filter(pl.col("token_address") == token)
    changes = pl.concat(
        [own.select(address="to_address", value="value"), own.select(address="from_address", value=0 - pl.col("value"))]
    )
    return changes.group_by("address").agg(pl.col("value").sum()).top_k(TOP, by="value").collect()


def _polars_map(file: Path, token: str, at: int) -> Any:
    import polars as pl

    top = _polars_holders(file, token, at)["address"].to_list()
    inside = _polars_rows(file, at).filter(pl.col("from_address").is_in(top), pl.col("to_address").is_in(top))
    times = pl.col("block_time")
    sums = [pl.len(), pl.col("value").sum(), times.min().alias("began"), times.max().alias("ended")]
    return inside.group_by("from_address", "to_address", "token_address").agg(sums).collect()


_CHDB_HOLDERS: Final = """
SELECT change.1 AS address, sum(change.2) AS balance
FROM (
    SELECT arrayJoin([(to_address, toInt256(value)), (from_address, -toInt256(value))]) AS change
    FROM file('{file}', Parquet) WHERE token_address = '{token}' AND block_time <= {at}
)
GROUP BY address ORDER BY balance DESC, address LIMIT 80
"""

_CHDB_MAP: Final = f"""
WITH top AS (SELECT address FROM ({_CHDB_HOLDERS}))
SELECT
    from_address, to_address, token_address,
    count() AS transfers, sum(toInt256(value)) AS total, min(block_time) AS began, max(block_time) AS ended
FROM file('{{file}}', Parquet)
WHERE block_time <= {{at}} AND from_address IN (SELECT address FROM top) AND to_address IN (SELECT address FROM top)
GROUP BY from_address, to_address, token_address
"""


def _chdb(sql: str) -> Way:
    def ask(file: Path, token: str, at: int) -> Any:
        import chdb

        return chdb.query(sql.format(file=file, token=token, at=at), "ArrowTable")

    return ask


TOOLS: Final[dict[str, Tool]] = {
    "(a) DuckDB, decoding alone": Tool(("duckdb",), _duckdb(_DECODED), _duckdb(_DECODED)),
    "(a) DuckDB": Tool(("duckdb",), _duckdb(_HOLDERS), _duckdb(_MAP)),
    "(b) pandas and networkx": Tool(("pandas", "networkx"), _pandas_holders, _pandas_map),
    "(c) polars": Tool(("polars",), _polars_holders, _polars_map),
    "(d) chdb": Tool(("chdb",), _chdb(_CHDB_HOLDERS), _chdb(_CHDB_MAP)),
}
"""The tools by name. The first one only decodes the needed columns, which no scan can do in less time."""


def measured(name: str, kind: str, file: Path, token: str, at: int) -> float | None:
    """Return the CPU milliseconds of a tool's answer (``holders`` or ``map``); None if the tool is not installed."""
    tool = TOOLS[name]
    if not all(map(importlib.util.find_spec, tool.modules)):
        return None
    way = tool.holders if kind == "holders" else tool.map
    if way is None:
        return None
    for module in tool.modules:  # imports are not counted
        importlib.import_module(module)
    began = time.process_time()
    way(file, token, at)
    return 1_000 * (time.process_time() - began)
