"""Repair of damaged partitions from the archive, without requests. The rest of the lake does not change.

The commits of a partition are replayed into a temporary lake, as in ``rebuild``. Then the damaged files move to the
lake's quarantine, and the new files take their place.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from holderlake.core.archive import provenance
from holderlake.core.contract.times import parse_when, partition_text
from holderlake.core.lake.damage import Damage, damaged_files, damages, unlisted
from holderlake.core.lake.lake import Lake, LakeError
from holderlake.core.storage.atomic_files import set_aside
from holderlake.core.storage.layout import Place
from holderlake.core.warehouse.derived import damaged, remedy
from holderlake.core.workspace import Workspace
from holderlake.operations.maintenance.rebuild_lake import Rebuild, RebuildReport
from holderlake.operations.maintenance.replace_lake import only_rebuild, remove_folder

_log = logging.getLogger(__name__)


@dataclass
class Repaired:
    """Result of a repair. ``found`` is the damage, ``repaired`` has the names of the repaired partitions."""

    found: list[Damage] = field(default_factory=list)
    repaired: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """The reason why a partition was not repaired, by the partition's name."""
    incomplete: list[str] = field(default_factory=list)
    """Messages about repaired partitions that lack rows, because their answers are not in the archive."""
    warehouse: list[str] = field(default_factory=list)
    """Messages about damaged files of the warehouse, which were moved away and made again."""
    still_damaged: list[str] = field(default_factory=list)
    """Messages about files of the warehouse that are damaged still, because the store's own files are."""

    @property
    def is_complete(self) -> bool:
        """True if all damage was repaired, with all rows."""
        return not self.failed and not self.incomplete and not self.still_damaged


def parse_place(text: str) -> Place:
    """Parse the name of a partition, ``FAMILY/CHAIN/INSTANT``, into family, chain and timestamp (20261120T000000Z).

    Raises ``ValueError`` for an invalid name.
    """
    parts = text.split("/")
    if len(parts) != 3:
        raise ValueError(f"invalid partition {text!r}: use FAMILY/CHAIN/INSTANT, as in holders/eth/20261120T000000Z")
    family, chain, instant = parts
    return family, chain, partition_text(parse_when(instant))


def repair_home(workspace: Workspace, partitions: Sequence[str]) -> Repaired:
    """Repair the named partitions, or all damaged ones if none is named; load the warehouse."""
    report = repair(workspace, map(parse_place, partitions)) if partitions else repair_damaged(workspace)
    messages = workspace.warehouse.set_damaged_aside()
    workspace.warehouse.load(workspace.lake)
    path = workspace.warehouse.path
    left = {file.name: f"{file} {fault}; {remedy(path, file)}" for file, fault in damaged(path).items()}
    report.warehouse = [message for file, message in messages.items() if file.name not in left]
    report.still_damaged = list(left.values())
    return report


def find_damage(lake: Lake) -> list[Damage]:
    """Read all files of the lake, and return the damaged ones and those that no manifest lists."""
    return [*damages(lake, every_byte=True), *unlisted(lake)]


def repair_damaged(workspace: Workspace) -> Repaired:
    """Repair the partitions of all damaged files, and the file that names the lake's provider."""
    lake = workspace.lake
    all_damage = find_damage(lake)
    provider = next((manifest.provider for manifest in lake.manifests()), None)
    noted = lake.provider_damage is not None and provider is not None
    if noted and provider is not None:
        lake.claim(provider)
    workspace.archive.set_damaged_aside()
    if workspace.archive.is_local:
        for record in [path for path in provenance.records(workspace.archive) if provenance.read(path) is None]:
            _log.warning("%s is damaged; it is now %s", record, set_aside(record, workspace.archive.root, "damaged"))
    report = repair(workspace, [damage.place for damage in all_damage if damage.place], only_damaged=True)
    report.found = all_damage
    if noted:
        report.repaired.append(lake.provider_path.name)
    return report


def repair_before_run(
    workspace: Workspace, chains: Collection[str], timestamps: Collection[str], *, every_byte: bool
) -> None:
    """Repair the damaged partitions of some chains and timestamps (20261120T000000Z), and log each repair.

    A run calls this before it writes to them. With ``every_byte`` damage is found by checksums, else by file sizes.
    """
    all_damage = list(damages(workspace.lake, every_byte=every_byte, chains=chains, timestamps=timestamps))
    if not all_damage:
        return
    for damage in all_damage:
        _log.warning("%s", damage)
    try:
        report = repair(workspace, [damage.place for damage in all_damage if damage.place], only_damaged=True)
    except LakeError as error:  # another process repairs it
        _log.warning("%s", error)
        return
    for name in report.repaired:
        _log.warning("the partition %s was repaired from the archive, at no cost", name)


def repair(workspace: Workspace, places: Iterable[Place], *, only_damaged: bool = False) -> Repaired:
    """Rebuild partitions from the archive and replace them in the lake.

    With ``only_damaged`` a partition that another process has repaired meanwhile is skipped.
    """
    report = Repaired()
    chosen_places = [place for place in sorted(set(places)) if not (only_damaged and _is_intact(workspace.lake, place))]
    if not chosen_places:
        return report
    provider = workspace.lake.provider
    with only_rebuild(workspace):
        folder = workspace.settings.lake_folder.with_name("lake.repairing")
        remove_folder(folder)
        try:
            for place in chosen_places:
                _repair_one(workspace, folder / "/".join(place), place, provider, report)
        finally:
            remove_folder(folder)
    return report


def _is_intact(lake: Lake, place: Place) -> bool:
    with lake.storage.locked(place[1]):
        manifest = lake.storage.latest(place).manifest
        return manifest is not None and not any(damaged_files(lake, manifest, every_byte=True))


def _repair_one(workspace: Workspace, folder: Path, place: Place, provider: str | None, report: Repaired) -> None:
    name = "/".join(place)
    paths = [path for path in provenance.records(workspace.archive, place)]
    owners = {commit.provider for commit in map(provenance.read, paths) if commit}
    if not owners or (provider is not None and provider not in owners):
        report.failed[name] = "the archive has no commit record of it; 'holderlake backfill' fetches it again"
        return
    rebuilt = RebuildReport()
    fresh = Lake(folder)
    try:
        Rebuild(workspace, fresh, (), provider or min(owners), rebuilt).replay(paths)
    except LakeError as error:
        report.failed[name] = str(error)
        return
    manifest = next(fresh.manifests(), None)
    if manifest is None:
        report.failed[name] = "its answers are not in the archive any more; 'holderlake backfill' fetches it again"
        return
    workspace.lake.replace(manifest, fresh.files(manifest), quarantine=True)
    report.repaired.append(name)
    report.incomplete += [f"{name}: {answer.endpoint} answer {answer.digest}" for answer in rebuilt.missing]
    report.incomplete += [f"{name}: {path}" for path in rebuilt.damaged]
