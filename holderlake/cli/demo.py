"""``holderlake demo``: run the main job on the sample world, and two analyst queries on the result.

All requests go over HTTP, although the engine runs in this process: the demo shows calls, credits and the archive.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any, Final

import pyarrow as pa

from holderlake.cli.launch import fill
from holderlake.core.contract.prices import credits_text
from holderlake.core.contract.tables import TABLES
from holderlake.core.units import counted
from holderlake.core.workspace import Workspace
from holderlake.operations.history.instance import dagster_instance
from holderlake.presentation import console
from holderlake.presentation.settings import ExplorerSettings
from holderlake.sources.sample_world import sample_period

_INSTANTS: Final = 9

_CONCENTRATION: Final = """
SELECT
    tokens.symbol,
    min_by(maps.service_score, maps.timestamp) AS score_first,
    max_by(maps.service_score, maps.timestamp) AS score_last,
    max_by(maps.bundles, maps.timestamp) AS clusters,
    max_by(maps.cexs, maps.timestamp) AS exchanges,
    max_by(maps.dexs, maps.timestamp) AS pools
FROM maps
JOIN tokens USING (chain, timestamp, token_address)
GROUP BY tokens.symbol
HAVING count(maps.service_score) > 1
ORDER BY abs(score_last - score_first) DESC
LIMIT 6
"""

_CLUSTERS: Final = """
SELECT tokens.symbol, clusters.timestamp, clusters.holder_count, clusters.magic_node_count, clusters.share
FROM clusters
JOIN tokens USING (chain, timestamp, token_address)
WHERE clusters.cluster_id = 1
ORDER BY clusters.share DESC, tokens.symbol, clusters.timestamp
LIMIT 5
"""

_STORY: Final = """
SELECT chain, token_address AS token, strftime(max_by(timestamp, bundles), '%Y%m%dT%H%M%SZ') AS at, '1' AS cluster
FROM maps
GROUP BY ALL
HAVING max(bundles) < 0.9
ORDER BY max(bundles) - min(bundles) DESC
LIMIT 1
"""
"""The token whose clusters grew most, at the instant when they held most."""

_QUESTIONS: Final = (
    ("Which token's concentration changed most over two years?", _CONCENTRATION),
    ("Which clusters held most of a token, and when?", _CLUSTERS),
)


def run_demo(workspace: Workspace, as_json: bool) -> None:
    """Fill the lake at nine instants over the sample world's two years, check it, and run two queries."""
    began = time.monotonic()
    start, end = sample_period()
    instants = [(start + (end - start) / (_INSTANTS - 1) * n).replace(microsecond=0) for n in range(_INSTANTS)]
    chains = sorted(workspace.settings.watchlist)
    calls_before, spent_before = _spent(workspace)
    with dagster_instance(workspace.settings.dagster_home) as instance:
        fill(workspace, instance, chains, instants)
    calls, spent = _spent(workspace)
    seconds = time.monotonic() - began
    tables = _table_sizes(workspace)
    answers = [(question, sql, workspace.warehouse.query(sql)) for question, sql in _QUESTIONS]
    if as_json:
        console.as_json(_as_json(tables, calls - calls_before, spent - spent_before, seconds, answers))
        return
    _print(tables, answers)
    console.out.print(
        f"{counted(calls - calls_before, 'call')}, {credits_text(spent - spent_before)} credits, {seconds:.1f} s. "
        "Run it again: no request is sent or paid twice.\n"
    )
    _where_next(workspace)


def show_story(workspace: Workspace) -> None:
    """Serve the explorer until it is stopped, and open it on the token whose clusters grew most."""
    from holderlake.presentation.explorer.app import PageOptions, serve

    (view,) = workspace.warehouse.query(_STORY).to_pylist()
    say = partial(console.err.print, soft_wrap=True)
    page = workspace.settings.section(ExplorerSettings)
    serve(workspace.warehouse, "127.0.0.1", 0, True, say, PageOptions(page.links, page.embed_in), view)


def _spent(workspace: Workspace) -> tuple[int, int]:
    calls = sum(line.calls for line in workspace.ledger.report("endpoint"))
    return calls, workspace.ledger.totals().spent


def _table_sizes(workspace: Workspace) -> list[dict[str, Any]]:
    counts = " UNION ALL ".join(
        f"SELECT '{name}' AS name, count(*) AS rows, count(DISTINCT chain) AS chains, "
        f"count(DISTINCT timestamp) AS instants FROM {name}"
        for name in TABLES
    )
    sizes = {row.pop("name"): row for row in workspace.warehouse.query(counts).to_pylist()}
    return [{"table": name, **sizes[name], "a row is": TABLES[name].row} for name in TABLES]


def _as_json(
    tables: list[dict[str, Any]], calls: int, spent: int, seconds: float, answers: list[tuple[str, str, pa.Table]]
) -> dict[str, Any]:
    return {
        "tables": tables,
        "calls": calls,
        "credits_hundredths": spent,
        "seconds": round(seconds, 1),
        "answers": [{"question": question, "sql": sql, "rows": rows.to_pylist()} for question, sql, rows in answers],
    }


def _print(tables: list[dict[str, Any]], answers: list[tuple[str, str, pa.Table]]) -> None:
    columns = ("table", "rows", "instants", "a row is")
    console.rows("Rows in the warehouse", columns, ([line[name] for name in columns] for line in tables))
    console.out.print()
    for question, sql, rows in answers:
        console.out.print(question, style="bold")
        console.out.print(sql.strip("\n"), style="dim")
        console.arrow("", rows)
        console.out.print()


def _where_next(workspace: Workspace) -> None:
    console.rows(
        "Where to look next",
        ("", ""),
        [
            ("holderlake ui", "Dagster's web UI: every asset with its columns, costs, plots and checks"),
            ("holderlake explore --open", "the warehouse as a page: maps that play through time, holders, clusters"),
            ("holderlake tables", "tables, views and macros of the warehouse"),
            (
                "holderlake sql \"FROM holder_changes('2025-01-01', '2026-01-01') LIMIT 5\"",
                "holders who entered and left",
            ),
            ("holderlake serve --sample", "the /v0 API itself, with its docs page"),
            (workspace.lake.storage.name, "the Parquet lake, for any reader"),
            (str(workspace.warehouse.path), "the DuckDB warehouse"),
        ],
    )
