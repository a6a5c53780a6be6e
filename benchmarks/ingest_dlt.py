"""The ways of ``benchmarks.ingest`` that use dlt, tuned: threads, processes, Parquet for its load."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import dlt
from dlt.sources.helpers import requests
from dlt.sources.rest_api import rest_api_source

from benchmarks.ingest_floor import SCORES, SUPPLY
from holderlake.core.contract.tables import TABLES, with_fetched_at
from holderlake.core.contract.times import to_unix
from holderlake.core.decoding.answers import map_tables

if TYPE_CHECKING:
    from benchmarks.ingest import Work

_AMOUNT: Final = {"data_type": "decimal", "precision": 38, "scale": 18}
_DOUBLE: Final = {"data_type": "double"}


def rest_api(work: Work, exact: bool = False) -> None:
    """Load maps by dlt's declarative REST source, with one request per item of a parent resource.

    dlt reads numbers as doubles, which lose the last digits of long amounts. With ``exact``, it reads decimals, and the
    column types are given.
    """
    _tune(work)
    source = _source(work, *([_read_decimals] if exact else []))
    if exact:
        source.maps.apply_hints(**_hints())
    _pipeline(work).run(source.with_resources("wanted", "maps"), loader_file_format="parquet")


def with_our_arrow(work: Work) -> None:
    """Load maps that dlt's threads request and our decoder turns into Arrow tables, so that dlt only loads."""
    _tune(work)

    @dlt.resource(name="days")
    def days() -> Iterator[Any]:
        yield from work.days

    @dlt.transformer(data_from=days, name="maps", parallelized=True)
    def maps(day: datetime) -> Any:
        query = {"timestamp": to_unix(day)}
        found = [requests.get(f"{work.url}/v0/tokens/map/eth/{token}", params=query).content for token in work.tokens]
        for name, rows in map_tables(found, "eth", work.tokens, day).tables.items():
            yield dlt.mark.with_table_name(with_fetched_at(TABLES[name], rows, day), name)

    _pipeline(work).run(days | maps, loader_file_format="parquet")


def _source(work: Work, *actions: Callable[..., Any]) -> Any:
    wanted = [{"token": token, "at": int(day.timestamp())} for day in work.days for token in work.tokens]
    return rest_api_source(
        {
            "client": {"base_url": f"{work.url}/v0/"},
            "resources": [
                dlt.resource([wanted], name="wanted"),
                {
                    "name": "maps",
                    "parallelized": True,
                    "include_from_parent": ["token", "at"],
                    "endpoint": {
                        "path": "tokens/map/eth/{resources.wanted.token}",
                        "params": {"timestamp": "{resources.wanted.at}"},
                        "paginator": "single_page",
                        "data_selector": "$",
                        "response_actions": [*actions],
                    },
                },
            ],
        }
    )


def _read_decimals(response: Any, *_: Any, **__: Any) -> Any:
    response.json = lambda **_: json.loads(response.content, parse_float=Decimal)
    return response


def _hints() -> dict[str, Any]:
    """Return dlt's column hints for all decimal numbers, by table. dlt's own guess keeps nine decimal places."""
    held = _columns(["holder_data__amount"], ["holder_data__share"])
    moved = _columns(["data__total_value"], [])
    figures = [f"metrics__supply_stats__{name}" for name in SUPPLY]
    figures += [f"metrics__scores__{name}" for name in SCORES if name != "nakamoto_coefficient"]
    return _columns([], figures) | {
        "nested_hints": {
            ("relationships",): moved,
            ("nodes",): {},
            ("nodes", "top_holders"): held,
            ("nodes", "magic_nodes"): held,
            ("nodes", "time_nodes"): {},
            ("nodes", "time_nodes", "relationships"): moved,
            ("clusters",): _columns(["amount"], ["share"]),
        }
    }


def _columns(amounts: Sequence[str], doubles: Sequence[str]) -> dict[str, Any]:
    types = [(name, _AMOUNT) for name in amounts] + [(name, _DOUBLE) for name in doubles]
    return {"columns": {name: {"name": name} | hint for name, hint in types}}


def _tune(work: Work) -> None:
    for name, value in {
        "EXTRACT__WORKERS": str(work.concurrency),
        "EXTRACT__MAX_PARALLEL_ITEMS": str(work.concurrency),
        "NORMALIZE__WORKERS": "2",
        "NORMALIZE__DATA_WRITER__FILE_MAX_ITEMS": "100000",
        "LOAD__WORKERS": "2",
        "RUNTIME__DLTHUB_TELEMETRY": "false",
        "RUNTIME__LOG_LEVEL": "CRITICAL",
        "DLT_DATA_DIR": str(work.home / "dlt"),
    }.items():
        os.environ[name] = value


def _pipeline(work: Work) -> Any:
    destination = dlt.destinations.duckdb(str(work.home / "warehouse.duckdb"))
    return dlt.pipeline("maps", destination=destination, dataset_name="maps", pipelines_dir=str(work.home / "dlt"))
