"""The workspace of the settings: a provider elsewhere, or the one in this process with the engine over its store.

Unless the settings forbid it, the pipeline gets the ``StoreEngine`` over the store of a provider in this process, which
computes many answers without HTTP.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from holderlake.core.lake.lake import Lake
from holderlake.core.settings import Settings, SettingsError
from holderlake.core.workspace import DayReport, Endpoint, OwnStore, Workspace
from holderlake.service.embedded import local_provider, opened_store, serve_locally
from holderlake.sources.sample_world import with_sample_watchlist
from holderlake.sources.store import stored_transfers

if TYPE_CHECKING:
    from holderlake.core.ingest.engine import DirectEngine
    from holderlake.core.warehouse.transfers import StoredTransfers
    from holderlake.engine.store.store import Store


def make_workspace(settings: Settings, lake: Lake | None = None, warehouse: Path | None = None) -> Workspace:
    """Return the workspace of the settings. Its provider is the one at ``provider.url``; without a URL, one in this
    process.

    ``lake`` and the file ``warehouse`` replace those of the settings.
    """
    is_sample = settings.provider.url is None and settings.provider.local == "sample"
    return Workspace(
        with_sample_watchlist(settings) if is_sample else settings,
        lambda: _remote(settings) if settings.provider.url else serve_locally(local_provider(settings)),
        store=OwnStore(
            _engine(settings),
            lambda: _transfers(settings),
            lambda chain, day: _import_day(settings, chain, day),
            lambda: _changes(settings),
        ),
        lake=lake,
        warehouse=warehouse,
    )


def reading_workspace(settings: Settings) -> Workspace:
    """Return a workspace for commands that only read the home folder. Tokens of the sample world are not added to its
    watchlist."""
    return Workspace(
        settings,
        lambda: _remote(settings),
        store=OwnStore(_engine(settings), lambda: _transfers(settings), changes=lambda: _changes(settings)),
    )


def _remote(settings: Settings) -> Endpoint:
    url, key = settings.provider.url, settings.key()
    if url is None:
        raise SettingsError("provider.url is not set; set HOLDERLAKE_PROVIDER__URL, or provider.url in holderlake.toml")
    if key is None:
        raise SettingsError(
            "provider.url is set, but no API key; set HOLDERLAKE_API_KEY, or set HOLDERLAKE_API_KEY_FILE to the path "
            "of a file with the key"
        )
    return Endpoint(url, key, url.rstrip("/"))


def _engine(settings: Settings) -> DirectEngine | None:
    """Return the local engine of a provider in this process; None if the settings require HTTP."""
    from holderlake.engine.direct import StoreEngine

    if settings.provider.url or not settings.provider.direct:
        return None
    return StoreEngine(lambda: opened_store(local_provider(settings)), lambda: local_provider(settings).provider_id)


def _transfers(settings: Settings) -> StoredTransfers | None:
    """Return the transfers of the user's own store.

    If there is none, and the sample world is the provider, they are those of the sample world.
    """
    is_sample = settings.provider.url is None and settings.provider.local == "sample"
    if is_sample and not settings.engine_store.exists():
        built = (settings.home / "sample-world").glob("engine-*")
        newest = max(built, key=lambda folder: folder.stat().st_mtime, default=None)
        return stored_transfers(newest) if newest else None
    return stored_transfers(settings.engine_store)


def _changes(settings: Settings) -> Store | None:
    """Return the user's own store, opened with the rules of the settings, if it is the provider and exists."""
    is_provider = settings.provider.is_own_store and settings.engine_store.exists()
    return opened_store(local_provider(settings)) if is_provider else None


def _import_day(settings: Settings, chain: str, day: str) -> DayReport:
    from holderlake.sources.nodes.imports import import_day

    return import_day(settings, chain, day)
