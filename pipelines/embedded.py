"""The embedded default: the service over the sample world, in the background on loopback.

This is the only place where the two halves meet. The pipeline is handed an ``Endpoint`` and knows it, like any other
provider, by the contract alone.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import uuid
from contextlib import ExitStack
from dataclasses import asdict
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import SecretStr

from contract.prices import CREDIT
from resources.settings import AddressSet, Settings, SettingsError
from resources.sources import DayReport
from resources.workspace import Endpoint, Workspace

if TYPE_CHECKING:
    from engine.sources.sample import World

_ALLOWANCE: Final = 10_000_000 * CREDIT
"""Nobody pays for the sample world, but its credits are counted all the same."""


def make_workspace(settings: Settings) -> Workspace:
    """The workspace of the settings: with the provider that they name, or with the embedded default."""
    if settings.provider.url:
        workspace = Workspace(settings, lambda: _remote(settings))
    else:
        workspace = Workspace(with_sample_watchlist(settings), lambda: _embedded(settings.home))
    workspace.import_day = lambda chain, day: _import_day(settings, chain, day)
    return workspace


def reading_workspace(settings: Settings) -> Workspace:
    """The workspace for reading what is there. It asks nobody, so it needs no watchlist."""
    return Workspace(settings, lambda: _remote(settings))


def with_sample_watchlist(settings: Settings) -> Settings:
    """The settings with the sample world's tokens and address sets, where they name none."""
    world = _world()
    watchlist: dict[str, list[str]] = {}
    for token in world.tokens:
        if token.chain == "eth" or not token.is_indexed:  # each chain has the same coin and stable token
            watchlist.setdefault(token.chain, []).append(token.address)
    sets = {name: AddressSet(addresses=addresses) for name, addresses in world.address_sets.items()}
    return settings.model_copy(
        update={"watchlist": settings.watchlist or watchlist, "address_sets": settings.address_sets or sets}
    )


@cache
def _world() -> World:
    """The sample world; making it takes a second or two, so it is made once."""
    from engine.sources.sample import sample_world  # only the embedded default needs the engine

    return sample_world()


def sample_period() -> tuple[datetime, datetime]:
    """The first and the last instant of the sample world."""
    world = _world()
    return world.start, world.end


def sample_store(home: Path) -> Path:
    """The folder of the engine's store of the sample world, built when it is not there; whole or not at all."""
    from engine.store import Store

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
    """Tells worlds of different versions of the generator apart."""
    world = _world()
    rows = zip(*(column.to_pylist() for column in world.transfers.columns), strict=True)
    rules = {**asdict(world.rules), "time_allowed": sorted(world.rules.time_allowed)}
    text = repr((world.tokens, world.labels, rules, list(rows)))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _import_day(settings: Settings, chain: str, day: str) -> DayReport:
    from pipelines.nodes import import_day

    return import_day(settings, chain, day)


def _remote(settings: Settings) -> Endpoint:
    url, key = settings.provider.url, settings.key()
    if url is None or key is None:
        raise SettingsError(
            "a provider is configured but no API key; set HOLDERLAKE_API_KEY, or HOLDERLAKE_API_KEY_FILE to a file "
            "that holds it"
        )
    return Endpoint(url, key, url.rstrip("/"))


@cache
def _embedded(home: Path) -> Endpoint:
    """Starts the service once a process; it ends with the process."""
    from engine.store import Store
    from service.keys import KeyStore
    from service.run import BackgroundService

    running = ExitStack()
    atexit.register(running.close)
    store = running.enter_context(Store(sample_store(home)))
    keys = running.enter_context(KeyStore(home / "sample-world" / "accounts.sqlite"))
    secret = keys.create(f"embedded, process {os.getpid()}", _ALLOWANCE, custom_plan=True)
    running.callback(keys.revoke, secret.split("_")[1])
    service = running.enter_context(BackgroundService(store, keys))
    return Endpoint(service.base_url, SecretStr(secret), f"sample world {_world_version()}")
