"""The work of ``holderlake cluster``: import files of transfers, and fill the lake with maps and holders, on a cluster.

The workers read and write the store on shared storage. This process writes the partitions into the lake.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from rich.progress import Progress

from holderlake.assets.holders import HOLDERS
from holderlake.assets.maps import MAPS
from holderlake.core.contract import tables
from holderlake.core.contract.requests import MapOptions
from holderlake.core.contract.tables import TABLES, with_fetched_at
from holderlake.core.contract.times import check_passed, utc_now
from holderlake.core.ingest.partition import with_option_columns
from holderlake.core.lake.lake import PartitionUpdate
from holderlake.core.provider.fetcher import rules_text
from holderlake.core.settings import Settings, SettingsError
from holderlake.core.units import counted, parse_memory_limit
from holderlake.core.workspace import Workspace
from holderlake.engine.catalog.rules import rules_in_force
from holderlake.engine.settings import EngineSettings
from holderlake.errors import RunFailed
from holderlake.presentation import console
from holderlake.scale.settings import ClusterSettings, cluster_folder
from holderlake.scale.spark.answers import BulkRequest, ComputedPartition, answers
from holderlake.scale.spark.build import build
from holderlake.scale.spark.tasks import Workers
from holderlake.sources.store import open_own_store, own_store_id

if TYPE_CHECKING:
    from holderlake.analysis.entities.statements import SqlEngine
    from holderlake.engine.store.store import Store

_STREAMS: Final = (MAPS, HOLDERS)
_INSTANTS: Final = 32
"""Instants computed together. Their partitions are written when all are computed."""
_NO_HOLDERS: Final = "no_holders"


@contextmanager
def opened_session(settings: Settings) -> Iterator[Any]:
    """Open a Spark session on the cluster in the settings; None if the settings name none.

    Raises ``RunFailed`` if the cluster can't be used, or fails.
    """
    section = settings.section(ClusterSettings)
    if section.master is None:
        yield None
        return
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from holderlake.scale.spark.spark import UnusableCluster, session

    try:
        with session(section.master, section.options) as opened:
            yield opened
    except UnusableCluster as error:
        raise RunFailed(str(error)) from error
    except (Py4JError, PySparkException) as error:
        lines = [line for line in str(error).splitlines() if line.strip() and "error occurred while" not in line]
        reason = lines[0].strip(" :") if lines else type(error).__name__
        place = f"the cluster {section.master} (cluster.master)"
        raise RunFailed(f"{place} failed ({reason}); see the cluster's log") from error


@contextmanager
def opened_engine(settings: Settings) -> Iterator[SqlEngine]:
    """Open an engine for the SQL of entities on the cluster in the settings; on DuckDB if the settings name none."""
    from holderlake.analysis.entities.duckdb_engine import DuckDbEngine

    master = settings.section(ClusterSettings).master
    if master is None:
        with DuckDbEngine(settings.section(EngineSettings).memory_limit) as engine:
            yield engine
        return
    if master.startswith("sc://"):
        raise RunFailed(
            f"'store entities --cluster' can't use Spark Connect ({master}), which has no access to the cluster's file "
            "system; set cluster.master to the address of the master, such as spark://host:7077"
        )
    from holderlake.analysis.entities.spark_engine import SparkEngine

    with opened_session(settings) as opened, SparkEngine(opened, cluster_folder(settings)) as spark:
        yield spark


def build_on_cluster(settings: Settings, files: Sequence[str], as_json: bool) -> None:
    """Import the Parquet ``files`` into the engine's store, which has no transfers yet."""
    began = time.monotonic()
    memory = parse_memory_limit(settings.section(EngineSettings).memory_limit)
    with open_own_store(settings) as store, opened_session(settings) as opened, _progress("building") as on_task:
        report = build(Workers(opened), store, files, memory, on_task)
    seconds = round(time.monotonic() - began, 1)
    if as_json:
        console.as_json({**vars(report), "tokens": len(report.tokens), "seconds": seconds})
    else:
        console.out.print(
            f"Imported {report.added:,} transfers of {counted(len(report.tokens), 'token')} from {report.source} in "
            f"{seconds:.1f} s; {report.duplicates:,} rows are duplicates, {report.conflicts:,} conflicts."
        )


@contextmanager
def _progress(text: str) -> Iterator[Callable[[str, int], None]]:
    """Show a progress bar. Yield a function to call with a step and its number of tasks, as ``build`` does."""
    with console.progress(text, None) as bar:
        steps: list[str] = []

        def on_task(step: str, tasks: int) -> None:
            if step in steps:
                bar.advance(bar.task_ids[0])
            else:
                steps.append(step)
                bar.reset(bar.task_ids[0], total=tasks, note=step)

        yield on_task


@dataclass
class _FillReport:
    """The result of a fill: written partitions, skipped ones that were complete (``already``), and seconds."""

    partitions: int = 0
    already: int = 0
    seconds: float = 0.0


def fill_on_cluster(
    workspace: Workspace,
    chains: Sequence[str] | None,
    tokens: Sequence[str] | None,
    instants: Sequence[datetime],
    as_json: bool,
) -> None:
    """Write maps and holders of tokens at the instants into lake and warehouse. Complete partitions are skipped.

    Without ``tokens`` (addresses), the watched tokens of the ``chains`` are computed; of chains without any, all tokens
    of the store that can have a map. ``chains`` is None for those of the watchlist, or else all chains of the store.
    """
    began, settings, done = time.monotonic(), _with_details(workspace.settings), _FillReport()
    check_passed(instants, workspace.now())
    workspace.lake.check_provider(own_store_id(settings))
    if "://" in cluster_folder(settings):
        raise SettingsError(f"cluster.folder is {cluster_folder(settings)}; set it to a folder that all machines share")
    with open_own_store(settings) as store:
        change = store.generation()
        by_chain = _tokens_by_chain(store, settings, chains, tokens)
        incomplete = {
            (chain, as_of)
            for as_of in instants
            for chain in by_chain
            if not _is_filled(workspace, chain, as_of, by_chain[chain])
        }
        done.already = len(set(instants)) * len(by_chain) - len(incomplete)
        if incomplete:
            with opened_session(settings) as opened, console.progress("filling partitions", len(incomplete)) as bar:
                for partition, rules in _computed(
                    store, Workers(opened), settings, by_chain, instants, incomplete, bar
                ):
                    _commit(workspace, settings, partition, by_chain[partition.chain], rules, change)
                    done.partitions += 1
                    bar.advance(bar.task_ids[0])
    workspace.warehouse.load(workspace.lake)
    done.seconds = round(time.monotonic() - began, 1)
    if as_json:
        console.as_json(vars(done))
    else:
        console.out.print(
            f"Filled {counted(done.partitions, 'partition')} in {done.seconds:.1f} s; "
            f"{done.already:,} were complete already."
        )


def _with_details(settings: Settings) -> Settings:
    """Return the settings, with the details of holders unless they are switched off, because here they cost nothing."""
    if "with_metadata" in settings.holders.model_fields_set:
        return settings
    return settings.model_copy(update={"holders": settings.holders.model_copy(update={"with_metadata": True})})


def _tokens_by_chain(
    store: Store, settings: Settings, chains: Sequence[str] | None, tokens: Sequence[str] | None
) -> dict[str, list[str]]:
    """Return the addresses of the tokens to compute, by chain."""
    watched = settings.watchlist
    with_transfers = [(history.chain, history.token_address) for history in store.histories()]
    stored_tokens = [key for key, token in store.tokens(with_transfers).items() if token.unsupported is None]
    by_chain: dict[str, list[str]] = {}
    for chain in chains or sorted(watched) or sorted({chain for chain, _ in stored_tokens}):
        addresses = tokens or watched.get(chain) or [address for of, address in sorted(stored_tokens) if of == chain]
        if not addresses:
            raise RunFailed(
                f"the store {store.root} has no transfers of chain {chain}; import some, or choose another --chain"
            )
        by_chain[chain] = list(addresses)
    if not by_chain:
        raise RunFailed(
            f"the store {store.root} has no transfers; see 'holderlake import' and 'holderlake cluster build'"
        )
    return by_chain


def _computed(
    store: Store,
    workers: Workers,
    settings: Settings,
    by_chain: dict[str, list[str]],
    instants: Sequence[datetime],
    incomplete: set[tuple[str, datetime]],
    bar: Progress,
) -> Iterator[tuple[ComputedPartition, str]]:
    """Yield the incomplete partitions with the rules of their maps."""
    maps, holders = settings.maps, settings.holders
    ordered = sorted(set(instants), reverse=True)
    spans = [ordered[start : start + _INSTANTS] for start in range(0, len(ordered), _INSTANTS)]
    missing = {as_of for _, as_of in incomplete}
    request = BulkRequest(
        [(chain, address) for chain, addresses in by_chain.items() for address in addresses],
        [as_of for span in spans if missing & {*span} for as_of in span],  # whole spans, which a killed fill left
        MapOptions(limit=maps.limit, use_magic_nodes=maps.use_magic_nodes, use_time_nodes=maps.use_time_nodes),
        holders.limit,
        holders.with_metadata,
    )
    rules, ended = rules_text(rules_in_force(store.rules)), -1

    def on_task(tasks: int) -> None:
        nonlocal ended
        ended += 1
        bar.update(bar.task_ids[0], note=f"{ended} of {tasks} tasks")

    for partition in answers(workers, store, Path(cluster_folder(settings)), request, _INSTANTS, on_task=on_task):
        if (partition.chain, partition.as_of) in incomplete:
            yield partition, rules


def _is_filled(workspace: Workspace, chain: str, as_of: datetime, tokens: Sequence[str]) -> bool:
    manifests = [workspace.lake.manifest(stream.name, chain, as_of) for stream in _STREAMS]
    return all(manifest is not None and manifest.answered >= set(tokens) for manifest in manifests)


def _commit(
    workspace: Workspace,
    settings: Settings,
    partition: ComputedPartition,
    tokens: Sequence[str],
    rules: str,
    change: int,
) -> None:
    """Write the tables of a partition into the lake.

    ``tokens`` are the requested token addresses, ``rules`` the engine's rules as text, and ``change`` is the number of
    the store's latest change. A token without holders becomes a failure, as in a partition that was fetched.
    """
    at = utc_now()
    for stream in _STREAMS:
        options = stream.options_in(settings)
        rows = {name: _with_fetched_at(name, partition.tables.get(name), at) for name in stream.tables}
        token_addresses = set(rows[stream.tables[0]]["token_address"].to_pylist())
        failures: list[dict[str, Any]] = [
            {
                "chain": partition.chain,
                "as_of": partition.as_of,
                "endpoint": stream.endpoint,
                "subject": token,
                "code": _NO_HOLDERS,
                "reason": f"{token} on {partition.chain} has no holders at {partition.as_of.isoformat()}Z",
            }
            for token in tokens
            if token not in token_addresses
        ]
        workspace.lake.write(
            PartitionUpdate(
                stream.name,
                partition.chain,
                partition.as_of,
                with_option_columns(rows, options, rules),
                provider=own_store_id(settings),
                by=stream.by,
                requested=set(tokens),
                covered=dict.fromkeys(tokens, at),
                failures=tables.build(TABLES["failures"], failures, at),
                final=stream.historic,
                options=options,
                store_change=change,
            )
        )


def _with_fetched_at(name: str, rows: pa.Table | None, at: datetime) -> pa.Table:
    return TABLES[name].schema.empty_table() if rows is None else with_fetched_at(TABLES[name], rows, at)
