"""The provider in this process: a service on the loopback interface over the sample world or the user's own store.

The pipeline uses the service's ``Endpoint`` like any other provider. Unless the settings forbid it, the pipeline also
gets the ``StoreEngine`` over the same store, which computes many answers without HTTP.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import uuid
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import SecretStr

from holderlake.contract.prices import CREDIT
from holderlake.lake.lake import SAMPLE_PROVIDER, Lake
from holderlake.local.store import engine_rules, open_store, own_store_id, stored_transfers
from holderlake.settings import AddressSet, Settings, SettingsError
from holderlake.workspace import DayReport, Endpoint, OwnStore, Workspace

if TYPE_CHECKING:
    from holderlake.contract.rules import Rules
    from holderlake.engine.sources.sample.world import World
    from holderlake.engine.store.store import Store
    from holderlake.provider.direct_engine import DirectEngine
    from holderlake.warehouse.transfers import StoredTransfers

_ALLOWANCE: Final = 10_000_000_000 * CREDIT
"""The monthly credits of the embedded service's account, in hundredths. They cost nothing, but the ledger counts them.

All processes spend from the same account, so its books agree with the ledger.
"""


@dataclass(frozen=True)
class _Local:
    """A provider in this process: the folder of its store (``root``), its id, and the options for opening the store.

    ``accounts`` is the SQLite file of its API keys and charges. ``rules`` and ``index`` (indexed tokens as pairs of
    chain and address) are None if those recorded in the store apply.
    """

    root: Path
    provider_id: str
    accounts: Path
    rules: Rules | None = None
    memory_limit: str = "2GB"
    index: tuple[tuple[str, str], ...] | None = None


def make_workspace(settings: Settings, lake: Lake | None = None, warehouse: Path | None = None) -> Workspace:
    """Return the workspace of the settings. Its provider is the one at ``provider.url``; without a URL, one in this
    process.

    ``lake`` and the file ``warehouse`` replace those of the settings.
    """
    is_sample = settings.provider.url is None and settings.provider.local == "sample"
    return Workspace(
        with_sample_watchlist(settings) if is_sample else settings,
        lambda: _remote(settings) if settings.provider.url else _served(_local(settings)),
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


def with_sample_watchlist(settings: Settings) -> Settings:
    """Return settings with the sample world's tokens and address sets, unless the settings have their own."""
    world = _world()
    watchlist: dict[str, list[str]] = {}
    for token in world.tokens:
        if token.chain == "eth" or not token.is_indexed:  # all chains have similar native and stable tokens
            watchlist.setdefault(token.chain, []).append(token.address)
    sets = {name: AddressSet(addresses=addresses) for name, addresses in world.address_sets.items()}
    return settings.model_copy(
        update={"watchlist": settings.watchlist or watchlist, "address_sets": settings.address_sets or sets}
    )


@cache
def _world() -> World:
    """Return the sample world. It is made once in a process, because that takes a second or two."""
    from holderlake.engine.sources.sample.world import sample_world  # few commands need it

    return sample_world()


def sample_period() -> tuple[datetime, datetime]:
    """Return the first and the last instant of the sample world (UTC, without time zone)."""
    world = _world()
    return world.start, world.end


def sample_rules() -> Rules:
    """Return the rules of the sample world. Their thresholds fit its small number of addresses."""
    return _world().rules


def sample_store(home: Path) -> Path:
    """Return the folder of the sample world's store. If it is missing, it is built.

    The folder is built under another name and renamed at the end, so it is either complete or missing.
    """
    from holderlake.engine.store.store import Store

    final = home / "sample-world" / f"engine-{_world_version()}"
    if final.exists():
        return final
    world = _world()
    building = final.with_name(f".{final.name}.{uuid.uuid4().hex}")
    with Store(building, world.rules) as store:
        store.add_tokens(world.tokens)
        store.add_labels(world.labels)
        store.add_transfers(world.transfers, "sample world")
    try:
        building.rename(final)
    except OSError:  # another process built it meanwhile
        shutil.rmtree(building)
    return final


@cache
def _world_version() -> str:
    """Return a digest of the sample world. It changes when the code that makes the world changes."""
    world = _world()
    rows = zip(*(column.to_pylist() for column in world.transfers.columns), strict=True)
    text = repr((world.tokens, world.labels, world.rules.model_dump(), list(rows)))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _import_day(settings: Settings, chain: str, day: str) -> DayReport:
    from holderlake.local.nodes.imports import import_day

    return import_day(settings, chain, day)


def _remote(settings: Settings) -> Endpoint:
    url, key = settings.provider.url, settings.key()
    if url is None or key is None:
        raise SettingsError(
            "provider.url is set, but no API key; set HOLDERLAKE_API_KEY, or set HOLDERLAKE_API_KEY_FILE to the path "
            "of a file with the key"
        )
    return Endpoint(url, key, url.rstrip("/"))


def _engine(settings: Settings) -> DirectEngine | None:
    """Return the local engine of a provider in this process; None if the settings require HTTP."""
    from holderlake.local.store_engine import StoreEngine

    if settings.provider.url or not settings.provider.direct:
        return None
    return StoreEngine(lambda: _store(_local(settings)), lambda: _local(settings).provider_id)


def _local(settings: Settings) -> _Local:
    """Return the provider in this process that the settings select: the sample world's or that of the user's own
    store."""
    if settings.provider.local == "sample":
        folder = settings.home / "sample-world"
        return _Local(sample_store(settings.home), f"{SAMPLE_PROVIDER}{_world_version()}", folder / "accounts.sqlite")
    accounts = settings.home / "embedded" / "accounts.sqlite"
    return _Local(
        settings.engine_store,
        own_store_id(settings),
        accounts,
        engine_rules(settings),
        settings.engine.memory_limit,
        settings.engine.index_keys,
    )


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
    return _store(_local(settings)) if is_provider else None


@cache
def _store(local: _Local) -> Store:
    """Open a provider's store, once in each process. It is closed when the process ends.

    Raises ``SettingsError`` if the store is missing.
    """
    if not local.root.exists():
        raise SettingsError(
            f"provider.local is 'store', but {local.root} is missing; create it with 'holderlake import files' or "
            "'holderlake import node'"
        )
    store = open_store(local.root, local.rules, local.memory_limit, local.index)
    atexit.register(store.close)
    return store


@cache
def _served(local: _Local) -> Endpoint:
    """Start the embedded service, once in each process, and return its endpoint.

    The service ends with the process, before its store is closed.
    """
    from holderlake.service.billing.keys import KeyStore
    from holderlake.service.run import BackgroundService

    store = _store(local)
    running = ExitStack()
    atexit.register(running.close)
    keys = running.enter_context(KeyStore(local.accounts))
    secret = keys.create("embedded", _ALLOWANCE, custom_plan=True, reuse_account=True)
    running.callback(keys.revoke, secret.split("_")[1])
    service = running.enter_context(BackgroundService(store, keys))
    return Endpoint(service.base_url, SecretStr(secret), local.provider_id)
