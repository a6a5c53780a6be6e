"""The work of ``holderlake cluster``: build derived tables, and fill the lake with maps and holders from a cluster.

The cluster reads raw transfers and returns partitions to this process, which writes them into the lake. Tokens, labels
and rules come from the engine's store in this home.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from holderlake import console
from holderlake.cluster.answers import BulkRequest, Engine, Partition, answers, build, digest_of, latest_build
from holderlake.cluster.statements import BUILD
from holderlake.contract import tables
from holderlake.contract.requests import HoldersRequest, MapOptions, MapRequest
from holderlake.contract.tables import TABLES, with_fetched_at
from holderlake.contract.times import check_passed, utc_now
from holderlake.engine.catalog.rules import rules_in_force
from holderlake.engine.store.store import Store
from holderlake.errors import RunFailed
from holderlake.ingest.options import options_of
from holderlake.ingest.partition import with_option_columns
from holderlake.local.store import open_own_store, own_store_id
from holderlake.provider.fetcher import rules_text
from holderlake.settings import Settings, SettingsError
from holderlake.units import counted
from holderlake.workspace import Workspace

_FAMILIES: Final = {
    "maps": ("maps", "map_nodes", "grouped_transfers", "clusters", "cluster_members"),
    "holders": ("holders",),
}
_ENDPOINTS: Final = {"maps": MapRequest.endpoint, "holders": HoldersRequest.endpoint}
_NO_HOLDERS: Final = "no_holders"


@contextmanager
def opened_engine(settings: Settings) -> Iterator[Engine]:
    """Open an engine on the cluster in the settings. If the settings name none, open DuckDB in this process."""
    with ExitStack() as stack:
        if settings.cluster.master is None:
            from holderlake.cluster.duckdb_engine import DuckDbEngine

            yield stack.enter_context(DuckDbEngine(settings.engine.memory_limit))
            return
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        from holderlake.cluster.spark_engine import SparkEngine, session

        try:
            opened = stack.enter_context(session(settings.cluster.master, settings.cluster.options))
            yield stack.enter_context(SparkEngine(opened, settings.cluster_folder))
        except ConnectionError as error:
            raise RunFailed(str(error)) from error
        except (Py4JError, PySparkException) as error:
            lines = [line for line in str(error).splitlines() if line.strip() and "error occurred while" not in line]
            reason = lines[0].strip(" :") if lines else type(error).__name__
            place = f"the cluster {settings.cluster.master} (cluster.master)"
            raise RunFailed(f"{place} failed ({reason}); see the cluster's log") from error


def build_on_cluster(settings: Settings, files: Sequence[str], as_json: bool) -> None:
    """Build the derived tables from the Parquet ``files``. Without files, use the transfers in the engine's store."""
    began = time.monotonic()
    with open_own_store(settings) as store:
        raw = list(files) or raw_files(store)
        digest = "" if files else digest_of(raw)
    with opened_engine(settings) as engine, console.progress("building tables", len(BUILD)) as bar:

        def on_table(name: str) -> None:
            bar.update(bar.task_ids[0], advance=1, note=name)

        built = build(engine, raw, settings.cluster_folder, digest, on_table)
    seconds = round(time.monotonic() - began, 1)
    if as_json:
        console.as_json({"location": built.location, "files": built.files, "seconds": seconds})
    else:
        console.out.print(
            f"Built {', '.join(BUILD)} of {counted(built.files, 'file')} in {seconds:.1f} s: {built.location}"
        )


def raw_files(store: Store) -> list[str]:
    """Return the Parquet files of all transfers, opening balances and corrections of a store."""
    manifest = store.view().manifest
    openings = (part.file for parts in manifest.parts.values() for part in parts if not part.has_transfers)
    return [*store.files(), *(f"{store.root}/openings/{name}.parquet" for name in sorted(openings))]


@dataclass
class _FillReport:
    """The result of a fill: written partitions, skipped ones that were complete (``already``), and seconds."""

    partitions: int = 0
    already: int = 0
    seconds: float = 0.0


def fill_on_cluster(
    workspace: Workspace, tokens: Sequence[tuple[str, str]], instants: Sequence[datetime], as_json: bool
) -> None:
    """Write maps and holders of the tokens at the instants into lake and warehouse. Complete partitions are skipped.

    ``tokens`` are pairs (chain, address). Raises ``SettingsError`` if there is no build, or if the store's transfers
    have changed since the build.
    """
    began, settings, done = time.monotonic(), workspace.settings, _FillReport()
    check_passed(instants, workspace.now())
    workspace.lake.check_provider(own_store_id(settings))
    by_chain: dict[str, list[str]] = {}
    for chain, address in tokens:
        by_chain.setdefault(chain, []).append(address)
    incomplete = [
        (chain, as_of)
        for as_of in sorted(instants, reverse=True)
        for chain in sorted(by_chain)
        if not _is_filled(workspace, chain, as_of, by_chain[chain])
    ]
    done.already = len(instants) * len(by_chain) - len(incomplete)
    if incomplete:
        with (
            open_own_store(settings) as store,
            opened_engine(settings) as engine,
            console.progress("filling partitions", len(incomplete)) as bar,
        ):
            location = _checked_build(engine, store, settings)
            rules = rules_text(rules_in_force(store.rules))

            def note(name: str) -> None:
                bar.update(bar.task_ids[0], note=name)

            for request in _requests(settings, by_chain, incomplete):
                missing = {(chain, as_of) for chain, as_of in incomplete if as_of in request.instants}
                for partition in answers(engine, store, location, request, on_statement=note):
                    if (partition.chain, partition.as_of) in missing:
                        _commit(workspace, partition, by_chain[partition.chain], rules)
                        missing.discard((partition.chain, partition.as_of))
                        done.partitions += 1
                        bar.advance(bar.task_ids[0])
                for chain, as_of in sorted(missing):  # none of the tokens has holders
                    _commit(workspace, Partition(chain, as_of, {}), by_chain[chain], rules)
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


def _requests(
    settings: Settings, by_chain: dict[str, list[str]], incomplete: Sequence[tuple[str, datetime]]
) -> Iterator[BulkRequest]:
    """Yield requests of at most ``cluster.instants`` instants each, for the chains that have incomplete partitions."""
    instants = sorted({as_of for _, as_of in incomplete}, reverse=True)
    maps, holders = settings.maps, settings.holders
    options = MapOptions(limit=maps.limit, use_magic_nodes=maps.use_magic_nodes, use_time_nodes=maps.use_time_nodes)
    for start in range(0, len(instants), settings.cluster.instants):
        request_instants = instants[start : start + settings.cluster.instants]
        chains = sorted({chain for chain, as_of in incomplete if as_of in request_instants})
        tokens = [(chain, address) for chain in chains for address in by_chain[chain]]
        yield BulkRequest(tokens, request_instants, options, holders.limit, holders.with_metadata)


def _is_filled(workspace: Workspace, chain: str, as_of: datetime, tokens: Sequence[str]) -> bool:
    manifests = [workspace.lake.manifest(family, chain, as_of) for family in _FAMILIES]
    return all(manifest is not None and manifest.answered >= set(tokens) for manifest in manifests)


def _checked_build(engine: Engine, store: Store, settings: Settings) -> str:
    built = latest_build(engine, settings.cluster_folder)
    if built is None:
        raise SettingsError(f"{settings.cluster_folder} has no build; run 'holderlake cluster build' first")
    if built.digest and built.digest != digest_of(raw_files(store)):
        raise SettingsError(
            "the store's transfers have changed since the last build; run 'holderlake cluster build' again"
        )
    return built.location


def _commit(workspace: Workspace, partition: Partition, tokens: Sequence[str], rules: str) -> None:
    """Write the tables of a partition into the lake.

    ``tokens`` are the requested token addresses, ``rules`` the engine's rules as text. A token without holders becomes
    a failure, as in a partition that was fetched from a provider.
    """
    at = utc_now()
    for family, names in _FAMILIES.items():
        options = options_of(family, workspace.settings)
        rows = {name: _with_fetched_at(name, partition.tables.get(name), at) for name in names}
        token_addresses = set(rows[names[0]]["token_address"].to_pylist())
        failures: list[dict[str, Any]] = [
            {
                "chain": partition.chain,
                "as_of": partition.as_of,
                "endpoint": _ENDPOINTS[family],
                "subject": token,
                "code": _NO_HOLDERS,
                "reason": f"{token} on {partition.chain} has no holders at {partition.as_of.isoformat()}Z",
            }
            for token in tokens
            if token not in token_addresses
        ]
        workspace.lake.write(
            family,
            partition.chain,
            partition.as_of,
            with_option_columns(rows, options, rules),
            provider=own_store_id(workspace.settings),
            by="token",
            requested=set(tokens),
            covered=dict.fromkeys(tokens, at),
            failures=tables.build(TABLES["failures"], failures, at),
            final=True,
            options=options,
        )


def _with_fetched_at(name: str, rows: pa.Table | None, at: datetime) -> pa.Table:
    return TABLES[name].schema.empty_table() if rows is None else with_fetched_at(TABLES[name], rows, at)
