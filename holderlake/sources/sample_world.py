"""The sample world: its tokens as a watchlist, its rules, and its store in the home folder."""

from __future__ import annotations

import hashlib
import shutil
import uuid
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from holderlake.core.settings import AddressSet, Settings

if TYPE_CHECKING:
    from holderlake.core.contract.rules import Rules
    from holderlake.sources.sample.world import World


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

    final = home / "sample-world" / f"engine-{world_version()}"
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
def world_version() -> str:
    """Return a digest of the sample world. It changes when the code that makes the world changes."""
    world = _world()
    rows = zip(*(column.to_pylist() for column in world.transfers.columns), strict=True)
    text = repr((world.tokens, world.labels, world.rules.model_dump(), list(rows)))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@cache
def _world() -> World:
    """Return the sample world. It is made once in a process, because that takes a second or two."""
    from holderlake.sources.sample.world import sample_world  # few commands need it

    return sample_world()
