"""The sample world: its tokens as a watchlist, its rules, and its store in the home folder."""

from __future__ import annotations

import hashlib
import shutil
import uuid
from contextlib import suppress
from datetime import datetime
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holderlake.core.settings import AddressSet, Settings
from holderlake.core.storage.atomic_files import write_whole

if TYPE_CHECKING:
    from holderlake.core.contract.rules import Rules
    from holderlake.sources.sample.world import World


_SUMMARY: Final = Path("sample-world", "world.json")


class _Summary(msgspec.Struct, frozen=True):
    """What most commands need of the world, so that they do not make it. ``code`` is a digest of the code."""

    code: str
    version: str
    watchlist: dict[str, list[str]]
    address_sets: dict[str, list[str]]
    rules: dict[str, Any]


def with_sample_watchlist(settings: Settings) -> Settings:
    """Return settings with the sample world's tokens and address sets, unless the settings have their own."""
    summary = _summary(settings.home)
    sets = {name: AddressSet(addresses=addresses) for name, addresses in summary.address_sets.items()}
    return settings.model_copy(
        update={"watchlist": settings.watchlist or summary.watchlist, "address_sets": settings.address_sets or sets}
    )


def sample_period() -> tuple[datetime, datetime]:
    """Return the first and the last instant of the sample world (UTC, without time zone)."""
    world = _world()
    return world.start, world.end


def sample_rules(home: Path) -> Rules:
    """Return the rules of the sample world. Their thresholds fit its small number of addresses."""
    from holderlake.core.contract.rules import Rules

    return Rules.model_validate(_summary(home).rules)


def sample_store(home: Path) -> Path:
    """Return the folder of the sample world's store. If it is missing, it is built.

    The folder is built under another name and renamed at the end, so it is either complete or missing.
    """
    summary = _summary(home)
    final = home / "sample-world" / f"engine-{summary.version}"
    if not final.exists():
        _build_store(final)
    if _stored_summary(home) is None:
        with suppress(OSError):  # it only saves time
            write_whole(home / _SUMMARY, msgspec.json.encode((summary, _digest(summary))))
    return final


def _build_store(final: Path) -> None:
    from holderlake.engine.store.store import Store

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


def world_version(home: Path) -> str:
    """Return a digest of the sample world. It changes when the code that makes the world changes."""
    return _summary(home).version


@cache
def _summary(home: Path) -> _Summary:
    """Return the summary in the home that has the sample store, or make the world, which takes a second."""
    if stored := _stored_summary(home):
        return stored
    world = _world()
    watchlist: dict[str, list[str]] = {}
    for token in world.tokens:
        if token.chain == "eth" or not token.is_indexed:  # all chains have similar native and stable tokens
            watchlist.setdefault(token.chain, []).append(token.address)
    rows = zip(*(column.to_pylist() for column in world.transfers.columns), strict=True)
    text = repr((world.tokens, world.labels, world.rules.model_dump(), list(rows)))
    rules = world.rules.model_dump(mode="json")
    return _Summary(_code(), hashlib.sha256(text.encode()).hexdigest()[:12], watchlist, world.address_sets, rules)


def _stored_summary(home: Path) -> _Summary | None:
    """Return the summary in the home; None if it is missing, damaged, or of another version of the code."""
    with suppress(OSError, ValueError):
        stored, digest = msgspec.json.decode((home / _SUMMARY).read_bytes(), type=tuple[_Summary, str])
        if stored.code == _code() and _digest(stored) == digest:
            return stored
    return None


def _code() -> str:
    """Return a digest of the code that makes the world."""
    folder = files("holderlake.sources.sample")
    sources = sorted((file.name, file.read_bytes()) for file in folder.iterdir() if file.name.endswith(".py"))
    return hashlib.sha256(repr((version("holderlake"), sources)).encode()).hexdigest()


def _digest(summary: _Summary) -> str:
    return hashlib.sha256(msgspec.json.encode(summary)).hexdigest()


@cache
def _world() -> World:
    """Return the sample world. It is made once in a process, because that takes a second or two."""
    from holderlake.sources.sample.world import sample_world  # few commands need it

    return sample_world()
