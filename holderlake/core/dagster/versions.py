"""Code and data versions of assets, by which Dagster shows partitions as stale after a change of the settings.

The code version of a table is the request options of its stream, such as ``limit 80``. The asset ``watchlist`` has a
partition for each watched chain; its data version is a hash of the chain's tokens. A table's partition is stale if one
of these two versions has changed since its last run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from dagster import (
    AssetKey,
    AssetObservation,
    AssetRecordsFilter,
    AssetSpec,
    DagsterInstance,
    DynamicPartitionsDefinition,
)

from holderlake.core.contract.chains import normalise_address
from holderlake.core.dagster.partitions import CHAIN
from holderlake.core.ingest.stream import Options, Stream
from holderlake.core.settings import Settings

WATCHLIST: Final = "watchlist"
_DATA_VERSION: Final = "dagster/data_version"
_CODE_VERSION: Final = "dagster/code_version"
_INPUT: Final = "dagster/input_data_version/"
_POINTER: Final = "dagster/input_event_pointer/"


def watchlist_asset() -> AssetSpec:
    """Return the asset of the settings' watchlist: one partition for each chain."""
    return AssetSpec(
        WATCHLIST,
        description="The tokens to fetch, by chain, from the settings. Its data version changes with the tokens.",
        group_name="settings",
        partitions_def=DynamicPartitionsDefinition(name=CHAIN),
    )


def code_version(options: Options) -> str:
    """Return the code version, a text, of tables that were fetched with ``options``."""
    return ", ".join(f"{name} {value}" for name, value in sorted(options.items())) or "1"


def chosen_version(stream: Stream, settings: Settings) -> str:
    """Return the code version of a stream's tables under the settings."""
    return code_version(stream.options_in(settings))


def watch(instance: DagsterInstance, watchlist: Mapping[str, Sequence[str]], chains: Iterable[str]) -> list[str]:
    """Add a Dagster partition for each of ``chains``, and log an observation of each chain whose tokens changed.

    ``watchlist`` has the token addresses by chain; the asset ``watchlist`` is observed. Returns the chains whose tokens
    changed. Call it before a run, so that the run's events refer to the current tokens.
    """
    run_chains = sorted(chains)
    instance.add_dynamic_partitions(CHAIN, run_chains)
    changed = []
    for chain in run_chains:
        version, key = _version(watchlist.get(chain, ())), AssetKey(WATCHLIST)
        observations = instance.fetch_observations(AssetRecordsFilter(key, asset_partitions=[chain]), limit=1).records
        if not observations or _tags(observations[0]).get(_DATA_VERSION) != version:
            tags = {_DATA_VERSION: version}
            instance.report_runless_asset_event(AssetObservation(key, partition=chain, tags=tags))
            changed.append(chain)
    return changed


def provenance(version: str, inputs: Mapping[str, str], *, has_all_tokens: bool = True) -> dict[str, str]:
    """Return the tags of a materialisation: its code and data version, and those of ``input_tags``.

    Without ``has_all_tokens`` the asset ``watchlist`` is left out: Dagster then shows the partition as stale.
    """
    left_out = set() if has_all_tokens else {_INPUT + WATCHLIST, _POINTER + WATCHLIST}
    tags = {_CODE_VERSION: version, _DATA_VERSION: hashlib.sha256(version.encode()).hexdigest()[:12]}
    return tags | {name: value for name, value in inputs.items() if name not in left_out}


def is_logged(instance: DagsterInstance, asset: AssetKey, partition: str, versions: Mapping[str, str]) -> bool:
    """Return whether the newest materialisation of a partition has these versions, which are tags of ``provenance``."""
    newest = instance.fetch_materializations(AssetRecordsFilter(asset, asset_partitions=[partition]), limit=1).records
    return bool(newest) and _without_pointers(_tags(newest[0])) == _without_pointers(versions)


def input_tags(instance: DagsterInstance, inputs: Iterable[AssetKey]) -> dict[str, str]:
    """Return the tags with the data version and the newest event of each asset that a materialisation depends on.

    It costs a query for each input, so call it once for many partitions.
    """
    tags = {}
    for key in inputs:
        name = key.to_user_string()
        fetch = instance.fetch_observations if name == WATCHLIST else instance.fetch_materializations
        newest = next(iter(fetch(key, limit=1).records), None)
        tags[_INPUT + name] = (_tags(newest).get(_DATA_VERSION) if newest else None) or "INITIAL"
        tags[_POINTER + name] = str(newest.storage_id) if newest else "NULL"
    return tags


def _without_pointers(tags: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in tags.items() if not name.startswith(_POINTER)}


def _version(tokens: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(map(normalise_address, tokens))).encode()).hexdigest()[:12]


def _tags(record: Any) -> Mapping[str, str]:
    return record.event_log_entry.tags or {}
