"""Copy a home's lake and archive to the bucket of the settings. The local files stay, but are not used any more."""

from __future__ import annotations

from dataclasses import dataclass, field

from holderlake.core.archive import provenance
from holderlake.core.archive.archive import AnswerArchive
from holderlake.core.lake.lake import Lake, LakeError
from holderlake.core.lake.manifests import content
from holderlake.core.workspace import Workspace


@dataclass
class MovedHome:
    """Result of a move: numbers of copied archive segments and partitions; messages about partitions not copied."""

    segments: int = 0
    partitions: int = 0
    refused: list[str] = field(default_factory=list)


def move_home(workspace: Workspace) -> MovedHome:
    """Copy the archive, then the partitions with their commit records, to the bucket of the settings.

    A partition that the bucket has with other rows is not copied. A move that was killed can be started again. Raises
    ``LakeError`` if the settings have no bucket.
    """
    lake, settings = workspace.lake, workspace.settings
    if lake.is_local:
        raise LakeError("the lake is not in a bucket: set lake.url first, for example to s3://bucket/lake")
    local_lake, archive = Lake(settings.lake_folder), AnswerArchive(settings.archive)
    report = MovedHome(segments=workspace.archive.copy_from(archive) if archive.root.exists() else 0)
    for manifest in local_lake.manifests():
        latest = lake.storage.latest(manifest.place)
        if latest.manifest is not None:
            if content(latest.manifest) != content(manifest):
                report.refused.append(f"{'/'.join(manifest.place)} has other rows in the bucket")
            continue
        lake.claim(manifest.provider)
        records = [path.read_bytes() for path in provenance.records(archive, manifest.place)]
        if lake.storage.commit(manifest, local_lake.files(manifest), latest, records):
            report.partitions += 1
    if not report.refused:
        workspace.note_moved()
    return report
