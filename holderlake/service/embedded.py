"""The provider in this process: a service on the loopback interface over the sample world or the user's own store.

The pipeline uses the service's ``Endpoint`` like any other provider. Unless the settings forbid it, the pipeline gets
the ``StoreEngine`` over the same store too, which computes many answers without HTTP.
"""

from __future__ import annotations

import atexit
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import SecretStr

from holderlake.core.contract.prices import CREDIT
from holderlake.core.settings import Settings, SettingsError
from holderlake.core.workspace import Endpoint, LocalSource, OwnStore
from holderlake.engine.settings import EngineSettings, store_folder
from holderlake.sources.sample_world import sample_store, with_sample_watchlist, world_version
from holderlake.sources.store import engine_rules, open_store, own_store_id, stored_transfers

if TYPE_CHECKING:
    from holderlake.core.contract.rules import Rules
    from holderlake.engine.direct import StoreEngine
    from holderlake.engine.store.store import Store
    from holderlake.engine.warehouse_files import StoredTransfers

_ALLOWANCE: Final = 10_000_000_000 * CREDIT
"""The monthly credits of the embedded service's account, in hundredths. They cost nothing, but the ledger counts them.

All processes spend from the same account, so its books agree with the ledger.
"""


@dataclass(frozen=True)
class LocalProvider:
    """A provider in this process: the folder of its store (``root``), its id, and the options to open the store.

    ``accounts`` is the SQLite file of its API keys and charges. ``rules`` and ``index`` (indexed tokens as pairs of
    chain and address) are None if those recorded in the store apply.
    """

    root: Path
    provider_id: str
    accounts: Path
    rules: Rules | None = None
    memory_limit: str = "2GB"
    index: tuple[tuple[str, str], ...] | None = None


def local_provider(settings: Settings) -> LocalProvider:
    """Return the provider in this process that the settings select: the sample world or the user's own store."""
    from holderlake.core.lake.lake import SAMPLE_PROVIDER

    if settings.provider.local == "sample":
        folder = settings.home / "sample-world"
        return LocalProvider(
            sample_store(settings.home), f"{SAMPLE_PROVIDER}{world_version()}", folder / "accounts.sqlite"
        )
    accounts = settings.home / "embedded" / "accounts.sqlite"
    return LocalProvider(
        store_folder(settings),
        own_store_id(settings),
        accounts,
        engine_rules(settings),
        settings.section(EngineSettings).memory_limit,
        settings.section(EngineSettings).index_keys,
    )


@cache
def opened_store(local: LocalProvider) -> Store:
    """Open a provider's store, once in each process. It is closed when the process ends.

    Raises ``SettingsError`` if the store is missing.
    """
    _check_exists(local)
    store = open_store(local.root, local.rules, local.memory_limit, local.index)
    atexit.register(store.close)
    return store


def _check_exists(local: LocalProvider) -> None:
    if not local.root.exists():
        raise SettingsError(
            f"provider.local is 'store', but {local.root} is missing; create it with 'holderlake import files' or "
            "'holderlake import node'"
        )


@cache
def serve_locally(local: LocalProvider) -> Endpoint:
    """Start the embedded service, once in each process, and return its endpoint.

    The service ends with the process, before its store is closed.
    """
    from holderlake.service.billing.keys import KeyStore
    from holderlake.service.run import BackgroundService

    store = opened_store(local)
    running = ExitStack()
    atexit.register(running.close)
    keys = running.enter_context(KeyStore(local.accounts))
    secret = keys.create("embedded", _ALLOWANCE, custom_plan=True, reuse_account=True)
    running.callback(keys.revoke, secret.split("_")[1])
    service = running.enter_context(BackgroundService(store, keys))
    return Endpoint(service.base_url, SecretStr(secret), local.provider_id)


def local_source(settings: Settings) -> LocalSource:
    """Return the provider in this process that the settings select, with the user's own store."""
    return LocalSource(
        watching=lambda: with_sample_watchlist(settings) if settings.provider.local == "sample" else settings,
        provider_id=lambda: _provider_id(settings),
        endpoint=lambda: serve_locally(local_provider(settings)),
        store=OwnStore(lambda: _engine(settings), lambda: _transfers(settings), lambda: _changes(settings)),
    )


def _provider_id(settings: Settings) -> str:
    """Return the id of the provider in this process. Raises ``SettingsError`` if the user's own store is missing."""
    local = local_provider(settings)
    if settings.provider.local == "store":
        _check_exists(local)
    return local.provider_id


def _engine(settings: Settings) -> StoreEngine | None:
    """Return the local engine of a provider in this process; None if the settings require HTTP."""
    if settings.provider.url or not settings.provider.direct:
        return None
    from holderlake.engine.direct import StoreEngine

    return StoreEngine(lambda: opened_store(local_provider(settings)), lambda: local_provider(settings).provider_id)


def _transfers(settings: Settings) -> StoredTransfers | None:
    """Return the transfers of the user's own store.

    If there is none, and the sample world is the provider, they are those of the sample world.
    """
    is_sample = settings.provider.url is None and settings.provider.local == "sample"
    if is_sample and not store_folder(settings).exists():
        built = (settings.home / "sample-world").glob("engine-*")
        newest = max(built, key=lambda folder: folder.stat().st_mtime, default=None)
        return stored_transfers(newest) if newest else None
    return stored_transfers(store_folder(settings))


def _changes(settings: Settings) -> Store | None:
    """Return the user's own store, opened with the rules of the settings, if it is the provider and exists."""
    is_provider = settings.provider.is_own_store and store_folder(settings).exists()
    return opened_store(local_provider(settings)) if is_provider else None
