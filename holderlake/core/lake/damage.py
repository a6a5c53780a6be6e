"""Find damaged files of a lake: manifests, Parquet files, and the file that names the lake's provider.

These functions change no file. A damaged file is moved to the lake's quarantine when its partition is written again
(``Lake.write``) or repaired from the archive (``holderlake.operations.maintenance.repair_partitions``). It is never
deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain, product
from pathlib import PurePath

from holderlake.core.contract.tables import TABLES
from holderlake.core.lake.lake import Lake
from holderlake.core.lake.manifests import (
    NO_FILE,
    DamagedManifest,
    Manifest,
    file_of,
    parsed_manifest,
)
from holderlake.core.lake.storage import PROVIDER
from holderlake.core.storage.layout import ANY_PARTITION, Place, family_of, manifest_path, partition_of, place_of
from holderlake.core.storage.names import BadName, chain_name, timestamp_name


@dataclass(frozen=True)
class Damage:
    """A damaged file and its fault. ``place`` is its partition; None for the file that names the lake's provider."""

    path: PurePath | str
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
    """Yield the damaged files of some chains and timestamps, or of all (None).

    ``every_byte`` reads each file and compares its SHA-256; otherwise only sizes are compared.
    """
    if lake.provider_damage:
        yield Damage(f"{lake.storage.name}/{PROVIDER}", lake.provider_damage, None)
    for path, text in _texts(lake, chains, timestamps):
        try:
            manifest = parsed_manifest(text, path)
        except DamagedManifest as error:
            yield Damage(path, str(error).removeprefix(f"{path} "), place_of(path))
            continue
        yield from damaged_files(lake, manifest, every_byte=every_byte)


def _texts(
    lake: Lake, chains: Collection[str] | None, timestamps: Collection[str] | None
) -> Iterator[tuple[PurePath, bytes]]:
    """Yield path and bytes of the manifests of some chains and timestamps, or of all (None)."""
    chain_names = [None] if chains is None else chains
    if timestamps is None or not lake.is_local:  # a bucket lists a chain faster than each timestamp
        texts = chain.from_iterable(lake.storage.texts(name) for name in chain_names)
        yield from ((path, text) for path, text in texts if timestamps is None or place_of(path)[2] in timestamps)
        return
    for name, timestamp in product(chain_names, timestamps):
        yield from lake.storage.texts(name, timestamp)


def damaged_files(lake: Lake, manifest: Manifest, *, every_byte: bool) -> Iterator[Damage]:
    """Yield the files of one partition that do not match its manifest.

    ``every_byte`` reads each file, compares its SHA-256, and decodes it; otherwise only sizes are compared.
    """
    for name, file in manifest.tables.items():
        if file == NO_FILE:
            continue
        reason = lake.storage.fault(manifest, name, every_byte=every_byte)
        if reason is None and every_byte:
            reason = lake.content_fault(manifest, name)
        if reason:
            yield Damage(lake.storage.location(manifest, name), reason, manifest.place)


def unlisted(lake: Lake) -> Iterator[Damage]:
    """Yield the Parquet files of a local lake that no manifest lists, because their manifest is missing."""
    if not lake.is_local:
        return
    listed = {file_of(lake.root, manifest, name) for manifest in lake.manifests() for name in manifest.tables}
    folders = {path.parent for path in lake.manifest_paths()}
    for name in TABLES:
        for path in sorted((lake.root / name).glob(f"{ANY_PARTITION}/part-*.parquet")):
            family, partition = family_of(path), partition_of(path)
            if path in listed or family is None:
                continue
            try:
                place = family, chain_name(partition[0]), timestamp_name(partition[1])
            except BadName:
                continue
            manifest = manifest_path(lake.root, *place)
            if manifest.parent not in folders or not manifest.exists():
                yield Damage(path, "is in no manifest", place)
