"""Finds damaged files of a lake: manifests, Parquet files, and the note of its provider.

Finding changes nothing. A damaged file is moved to the lake's quarantine when its partition is written again
(``Lake.write``) or repaired from the archive (``holderlake.maintenance.repair``); it is never deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path
from typing import Final

from holderlake.contract.tables import FAMILY_TABLES
from holderlake.lake import commits
from holderlake.lake.commits import NO_FILE, SIDE_TABLES, DamagedManifest, Manifest
from holderlake.lake.lake import Lake
from holderlake.storage.names import BadName, chain_name, timestamp_name

Place = tuple[str, str, str]
"""A partition: its family, chain and timestamp."""

_FAMILY_OF: Final = {f"{name}/part-0.parquet": family for family, names in FAMILY_TABLES.items() for name in names} | {
    f"{name}/part-{family}.parquet": family for name in SIDE_TABLES for family in FAMILY_TABLES
}


@dataclass(frozen=True)
class Damage:
    """A damaged file, what is wrong with it, and the partition that it belongs to; None for the provider's note."""

    path: Path
    reason: str
    place: Place | None

    def __str__(self) -> str:
        return f"{self.path} {self.reason}"


def damages(
    lake: Lake,
    *,
    every_byte: bool,
    chains: Collection[str] | None = None,
    timestamps: Collection[str] | None = None,
) -> Iterator[Damage]:
    """Find what is damaged in the partitions of some chains and timestamps, or in all of them.

    ``every_byte`` reads each file and compares its SHA-256; otherwise files are compared by their sizes.
    """
    if lake.provider_damage:
        yield Damage(lake.provider_path, lake.provider_damage, None)
    wanted = product([None] if chains is None else chains, [None] if timestamps is None else timestamps)
    for path in chain.from_iterable(commits.manifest_paths(lake.root, *one) for one in wanted):
        place = commits.place_of(path)
        try:
            manifest = commits.parsed_manifest(path.read_bytes(), path)
        except FileNotFoundError:  # another process is finishing its commit
            continue
        except DamagedManifest as error:
            yield Damage(path, str(error).removeprefix(f"{path} "), place)
            continue
        yield from damaged_files(lake, manifest, every_byte=every_byte)


def damaged_files(lake: Lake, manifest: Manifest, *, every_byte: bool) -> Iterator[Damage]:
    """Find the files of one partition that do not match its manifest."""
    for name, file in manifest.tables.items():
        if file == NO_FILE:
            continue
        path = commits.file_of(lake.root, manifest, name)
        try:
            size = path.stat().st_size
            if size != file.bytes:
                reason = f"has {size:,} bytes, and its manifest says {file.bytes:,}"
            elif every_byte and not commits.is_intact(path.read_bytes(), file):
                reason = "has other bytes than its manifest says"
            else:
                continue
        except FileNotFoundError:
            reason = "is missing"
        except OSError as error:
            reason = f"cannot be read: {error.strerror}"
        yield Damage(path, reason, place_of(manifest))


def unlisted(lake: Lake) -> Iterator[Damage]:
    """Find Parquet files of partitions that no manifest lists: their manifest is gone."""
    listed = {commits.file_of(lake.root, manifest, name) for manifest in lake.manifests() for name in manifest.tables}
    kept = {path.parent for path in lake.manifest_paths()}
    for name in (*(name for names in FAMILY_TABLES.values() for name in names), *SIDE_TABLES):
        for path in sorted((lake.root / name).glob("chain=*/timestamp=*/part-*.parquet")):
            family = _FAMILY_OF.get(f"{name}/{path.name}")
            if path in listed or family is None:
                continue
            try:
                chain = chain_name(path.parent.parent.name.partition("=")[2])
                timestamp = timestamp_name(path.parent.name.partition("=")[2])
            except BadName:
                continue
            manifest = commits.manifest_path(lake.root, family, chain, timestamp)
            if manifest.parent not in kept or not manifest.exists():
                yield Damage(path, "is in no manifest", (family, chain, timestamp))


def place_of(manifest: Manifest) -> Place:
    """Return the partition of a manifest."""
    return (manifest.family, manifest.chain, manifest.timestamp)
