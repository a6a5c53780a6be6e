"""How the files of a family's partition appear together in the lake, whatever is killed and when.

A commit goes in three steps, under the chain's lock:

1. each new file is written under a temporary name in its own folder, and synced;
2. the new manifest is put beside the old one as ``<family>.next``, by one rename. This is the commit;
3. the temporary files take their names, then ``<family>.next`` takes the manifest's.

Killed before 2, the old manifest holds, and the next commit sweeps the temporary files away. Killed after it, whoever
comes next, reader or writer, finishes 3. Files are synced, folders are not, for each sync costs milliseconds: where a
power cut takes a rename back, the file does not match its manifest, and the partition is written again.

Which rows belong in the files is the lake's matter.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePath
from typing import Any, Final

import msgspec

from holderlake.contract.tables import FAMILY_TABLES
from holderlake.contract.times import parse_partition
from holderlake.storage import locks
from holderlake.storage.atomic_files import set_aside
from holderlake.storage.names import BadName, chain_name, commit_name, digest_name, family_name, timestamp_name

FAILURES: Final = "failures"
REVISIONS: Final = "revisions"
SIDE_TABLES: Final = (FAILURES, REVISIONS)
"""Tables that tell of a family's requests rather than hold their rows: each family has files of its own."""
QUARANTINE: Final = "_quarantine"
"""The folder of a lake that damaged files are moved to."""
_MANIFESTS: Final = "_manifests"
_STALE: Final = re.compile(r".+\.[0-9a-f]{32}\.tmp")
_log = logging.getLogger(__name__)


class LakeError(Exception):
    """The lake can't take or give what was asked; the message says why and what to do."""


class DamagedManifest(LakeError):
    """A manifest cannot be read, or names what it may not; the message says where and what."""


@dataclass(frozen=True)
class TableFile:
    """A table's file in a partition: its rows, its bytes and their SHA-256. A side table without rows has no file."""

    rows: int
    bytes: int
    sha256: str


NO_FILE: Final = TableFile(0, 0, "")


@dataclass(frozen=True)
class Manifest:
    """What a family's partition holds. ``timestamp`` is the partition's text, ``written_at`` UTC.

    ``covered`` are the subjects (tokens, address sets, …) that were answered, those without rows too. ``options`` are
    those of the requests that all of them were answered for; None where they are not known.
    """

    family: str
    chain: str
    timestamp: str
    provider: str
    written_at: datetime
    commit: str
    tables: dict[str, TableFile]
    covered: frozenset[str]
    options: dict[str, Any] | None = None

    @property
    def as_of(self) -> datetime:
        """The partition's instant."""
        return parse_partition(self.timestamp)

    @property
    def answered(self) -> frozenset[str]:
        """The covered subjects; none where the commit precedes the partition's instant, whose truth it cannot hold."""
        return frozenset() if self.written_at < self.as_of else self.covered

    @property
    def rows(self) -> int:
        """How many rows the family's own tables have."""
        return sum(file.rows for table, file in self.tables.items() if table not in SIDE_TABLES)

    @property
    def failures(self) -> int:
        """How many requests did not end in rows."""
        return self.tables[FAILURES].rows

    @property
    def revisions(self) -> int:
        """How many times a table's rows of a subject were told otherwise than before."""
        return self.tables.get(REVISIONS, NO_FILE).rows


def manifest_path(root: Path, family: str, chain: str, timestamp: str) -> Path:
    """Where a family's manifest is, or would be."""
    return root / _MANIFESTS / f"chain={chain}" / f"timestamp={timestamp}" / f"{family}.json"


def table_path(root: Path, table: str, chain: str, timestamp: str, family: str | None) -> Path:
    """Where a table's file is, or would be. Each family has files of the side tables of its own."""
    return Path(_table_path(root, table, chain, timestamp, family))


def _table_path(root: Path, table: str, chain: str, timestamp: str, family: str | None) -> str:
    """As text, which is much quicker to make where tens of thousands of files are looked at."""
    name = f"part-{family}.parquet" if table in SIDE_TABLES else "part-0.parquet"
    return f"{root}/{table}/chain={chain}/timestamp={timestamp}/{name}"


def read_manifest(path: Path) -> Manifest | None:
    """Return a manifest; None where there is none, or it is damaged."""
    try:
        return parsed_manifest(path.read_bytes(), path)
    except (FileNotFoundError, DamagedManifest):
        return None


def parsed_manifest(data: bytes, path: PurePath) -> Manifest:
    """Decode a manifest and check every name in it against its own path and the contract's tables.

    Paths are made from these names, and files at them are replaced and deleted. Raises ``DamagedManifest``.
    """
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
        _check_names(manifest, path)
    except (msgspec.DecodeError, BadName, UnicodeDecodeError) as error:
        raise DamagedManifest(f"{path} is not a valid manifest: {error}") from error
    return manifest


def _check_names(manifest: Manifest, path: PurePath) -> None:
    """Raise ``BadName`` where a name in a manifest is not the one of its path, or not one of the contract."""
    named = (f"chain={chain_name(manifest.chain)}", f"timestamp={timestamp_name(manifest.timestamp)}")
    if (*named, family_name(manifest.family)) != (*path.parts[-3:-1], path.stem):
        raise BadName(f"it names {manifest.family} of {manifest.chain} at {manifest.timestamp}, another partition")
    commit_name(manifest.commit)
    known = FAMILY_TABLES.get(manifest.family, frozenset())
    for name, file in manifest.tables.items():
        if name not in known and name not in SIDE_TABLES:
            raise BadName(f"it names the table {name!r}, which the family {manifest.family} does not have")
        if file == NO_FILE and name in SIDE_TABLES:
            continue
        digest_name(file.sha256)
        if file.rows < 0 or file.bytes < 0:
            raise BadName(f"its file of {name} has {file.rows} rows and {file.bytes} bytes")


def settled_manifest_path(root: Path, family: str, chain: str, timestamp: str) -> Path:
    """The manifest's path, after an interrupted commit was finished."""
    path = manifest_path(root, family, chain, timestamp)
    if _journal(path).exists():
        with locked(root, chain):
            finish(root, path)
    return path


def manifest_paths(root: Path, chain: str | None = None, timestamp: str | None = None) -> Iterator[Path]:
    """All manifests, by chain, timestamp and family; interrupted commits are finished on the way."""
    for chain_folder in _folders(root / _MANIFESTS, "chain=", chain):
        for folder in _folders(chain_folder, "timestamp=", timestamp):
            yield from _paths_in(root, chain_folder.name.removeprefix("chain="), folder)


def whole_manifests(root: Path, chain: str, timestamps: Collection[str]) -> Iterator[Manifest]:
    """The manifests of a chain at the timestamps whose files are all there, as ``has_its_files`` sees it."""
    for folder in _folders(root / _MANIFESTS / f"chain={chain}", "timestamp=", None):
        if folder.name.removeprefix("timestamp=") in timestamps:
            found = map(read_manifest, _paths_in(root, chain, folder))
            yield from (manifest for manifest in found if manifest and has_its_files(root, manifest))


def _paths_in(root: Path, chain: str, folder: Path) -> Iterator[Path]:
    """The manifests of one timestamp, by family."""
    names = {Path(entry.name) for entry in os.scandir(folder)}
    for name in names:
        if name.suffix == ".next":
            with locked(root, chain):
                finish(root, folder / name.with_suffix(".json"))
    families = {name.stem for name in names if name.suffix in (".json", ".next")}
    yield from (folder / f"{family}.json" for family in sorted(families))


def file_of(root: Path, manifest: Manifest, table: str) -> Path:
    """A table's file of a manifest's partition."""
    return table_path(root, table, manifest.chain, manifest.timestamp, manifest.family)


def files_of(root: Path, manifest: Manifest) -> list[Path]:
    """Return all files of a partition: its manifest's and its tables'."""
    path = manifest_path(root, manifest.family, manifest.chain, manifest.timestamp)
    return [path, *(file_of(root, manifest, name) for name, file in manifest.tables.items() if file != NO_FILE)]


def has_its_files(root: Path, manifest: Manifest) -> bool:
    """Whether each file is there with the size that the manifest tells: a quick look, without reading them."""
    return all(
        _size(_table_path(root, table, manifest.chain, manifest.timestamp, manifest.family)) == file.bytes
        for table, file in manifest.tables.items()
        if file != NO_FILE
    )


def is_intact(data: bytes, file: TableFile) -> bool:
    """Whether the bytes are those that the manifest tells of."""
    return len(data) == file.bytes and hashlib.sha256(data).hexdigest() == file.sha256


def table_file(rows: int, data: bytes) -> TableFile:
    """What a manifest tells of a file with these bytes."""
    return TableFile(rows, len(data), hashlib.sha256(data).hexdigest())


def commit(root: Path, manifest: Manifest, files: Mapping[str, bytes]) -> None:
    """Makes the files and the manifest appear together. The caller holds the chain's lock."""
    path = manifest_path(root, manifest.family, manifest.chain, manifest.timestamp)
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(root, manifest)
    _write_synced({_temporary(file_of(root, manifest, table), manifest): data for table, data in files.items()})
    staged = _temporary(path, manifest)
    _write_synced({staged: msgspec.json.encode(manifest, order="sorted")})
    os.replace(staged, _journal(path))  # noqa: PTH105 - tests stop a commit at its renames
    finish(root, path)


def finish(root: Path, path: Path) -> None:
    """Does what is left of a commit, or nothing. The caller holds the chain's lock."""
    journal = _journal(path)
    manifest = read_manifest(journal)
    if manifest is None:
        if journal.exists():
            _log.warning("%s is damaged; it is now in %s", journal, set_aside(journal, root, QUARANTINE))
        return
    for table, file in manifest.tables.items():
        final = file_of(root, manifest, table)
        if file == NO_FILE:
            final.unlink(missing_ok=True)
            continue
        with suppress(FileNotFoundError):  # it took its name before the commit was interrupted
            os.replace(_temporary(final, manifest), final)  # noqa: PTH105
    os.replace(journal, path)  # noqa: PTH105


def place_of(path: Path) -> tuple[str, str, str]:
    """Return family, chain and timestamp of a manifest's path."""
    return path.stem, path.parent.parent.name.partition("=")[2], path.parent.name.partition("=")[2]


def set_partition_aside(root: Path, path: Path) -> list[Path]:
    """Move a damaged partition's files to the quarantine: its manifest ``path``, and all files that it may list.

    The caller holds the chain's lock.
    """
    family, chain, timestamp = place_of(path)
    tables = (*FAMILY_TABLES.get(family, ()), *SIDE_TABLES)
    files = [path, *(table_path(root, table, chain, timestamp, family) for table in tables)]
    return [set_aside(file, root, QUARANTINE) for file in files if file.exists()]


@contextmanager
def locked(root: Path, chain: str | None) -> Iterator[None]:
    """Holds the lock of a chain's commits, or with None that of the lake itself; others wait for it."""
    with locks.locked(root / _MANIFESTS / (f"chain={chain}" if chain else "") / ".lock"):
        yield


def _journal(path: Path) -> Path:
    return path.with_suffix(".next")


def _temporary(final: Path, manifest: Manifest) -> Path:
    return final.with_name(f"{final.name}.{manifest.commit}.tmp")


def _sweep(root: Path, manifest: Manifest) -> None:
    """Removes what killed commits left behind; under the chain's lock nobody else is writing it."""
    folders = {file_of(root, manifest, table).parent for table in manifest.tables}
    for folder in folders | {manifest_path(root, manifest.family, manifest.chain, manifest.timestamp).parent}:
        for stale in folder.glob("*.tmp"):
            if _STALE.fullmatch(stale.name):
                stale.unlink()


def _write_synced(files: Mapping[Path, bytes]) -> None:
    """All are written before the first is synced: what one sync brings to disk, the next need not."""
    with ExitStack() as stack:
        opened = []
        for path, data in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            opened.append(stack.enter_context(path.open("wb")))
            opened[-1].write(data)
            opened[-1].flush()
        for file in opened:
            os.fsync(file.fileno())


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116 - see _table_path
    except FileNotFoundError:
        return -1


def _folders(parent: Path, prefix: str, value: str | None) -> list[Path]:
    if value is not None:
        only = parent / f"{prefix}{value}"
        return [only] if only.is_dir() else []
    try:
        names = sorted(entry.name for entry in os.scandir(parent) if entry.name.startswith(prefix))
    except FileNotFoundError:
        return []
    return [parent / name for name in names]
