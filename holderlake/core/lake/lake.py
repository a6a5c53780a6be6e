"""The lake: Parquet files by table, chain and timestamp. The tables of one family appear together.

``storage.layout`` has the names of the files. ``failures`` and ``revisions`` have one file a family, because families
commit separately, and none if there are no rows. Readers trust manifests only, which contain the rows, bytes and
SHA-256 of each file. A partition with a file that does not match its manifest counts as missing, and is written again.

The files are in a folder; another storage may have them elsewhere (``storage``).
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from pathlib import Path, PurePath
from typing import Final
from uuid import uuid4

import msgspec
import pyarrow as pa

from holderlake.core.contract.tables import SIDE_TABLES, TABLES
from holderlake.core.contract.times import partition_text, utc_now
from holderlake.core.lake import commits
from holderlake.core.lake.manifests import (
    FAILURES,
    NO_FILE,
    REVISIONS,
    DamagedFile,
    DamagedManifest,
    LakeError,
    Manifest,
    TableFile,
    is_intact,
    parsed_manifest,
    table_file,
)
from holderlake.core.lake.rows import (
    SUBJECT_COLUMNS,
    PartitionUpdate,
    content_fault,
    empty,
    from_parquet,
    lacking,
    rows_after_write,
    to_parquet,
)
from holderlake.core.lake.storage import PROVIDER, FolderStorage, Latest
from holderlake.core.storage.layout import ANY_PARTITION, Place, table_name
from holderlake.core.storage.names import BadName, chain_name, family_name

__all__ = [
    "FAILURES",
    "REVISIONS",
    "SIDE_TABLES",
    "SUBJECT_COLUMNS",
    "Lake",
    "LakeError",
    "Manifest",
    "PartitionUpdate",
    "TableFile",
]

SAMPLE_PROVIDER: Final = "sample world "
"""Prefix of the names of providers of sample data; the version of the data follows."""
_log = logging.getLogger(__name__)
_READ_ATTEMPTS: Final = 5
_COMMIT_ATTEMPTS: Final = 50


class Lake:
    """The Parquet files in one place, from one provider. Safe for any number of processes and threads.

    ``root`` is the folder of the lake; if the lake is in a bucket (``storage``), of the host's copies of its files.
    """

    def __init__(self, root: Path, storage: FolderStorage | None = None) -> None:
        self.root = root
        self.storage = FolderStorage(root) if storage is None else storage

    @property
    def is_local(self) -> bool:
        """True if the lake lies in the folder ``root``."""
        return self.storage.is_local

    @property
    def provider(self) -> str | None:
        """The id of the provider of the lake's data; None before the first write.

        It is read from ``provider_path``, or from a manifest if that file is damaged.
        """
        provider, damage = self._noted_provider()
        return self._written_provider() if damage else provider

    @property
    def provider_path(self) -> Path:
        """The path of the JSON file that names the lake's provider."""
        return self.root / PROVIDER

    @property
    def provider_damage(self) -> str | None:
        """The fault of the file ``provider_path`` as text; None if it has no fault, or the lake is empty."""
        noted, damage = self._noted_provider()
        written_provider = self._written_provider() or noted
        return damage or (
            None if noted == written_provider else f"names {noted!r}, and the manifests name {written_provider!r}"
        )

    def _written_provider(self) -> str | None:
        return next((manifest.provider for manifest in self.manifests()), None)

    def _noted_provider(self) -> tuple[str | None, str | None]:
        """Return the provider that ``provider_path`` names, and that file's fault; None for each that is absent."""
        note = self.storage.provider_note()
        if note is None:
            return None, "is missing" if next(self.storage.texts(), None) else None
        try:
            return msgspec.json.decode(note, type=dict[str, str])["provider"], None
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError) as error:
            return None, f"does not name a provider: {error}"

    def glob(self, table: str) -> str:
        """Return a pattern of a table's files for tools that read Parquet. It includes uncommitted files."""
        return str(self.root / _known_table(table) / ANY_PARTITION / "*.parquet")

    def path(self, table: str, chain: str, as_of: datetime, family: str | None = None) -> Path:
        """Return the path of a table's file, existing or not. ``failures`` and ``revisions`` need ``family``."""
        if _known_table(table) in SIDE_TABLES and family is None:
            raise LakeError(f"the table {table} has one file for each family: pass the argument family")
        return self.root / table_name(table, _safe(chain), _timestamp(as_of), family)

    def manifest(self, family: str, chain: str, as_of: datetime) -> Manifest | None:
        """Return a partition's manifest; None if it was never committed, or a file is missing or has another size."""
        return self.storage.manifest(_place(family, chain, as_of))

    def manifest_paths(self) -> Iterator[Path]:
        """Yield the paths of all manifests by chain, timestamp and family. Only for a local lake."""
        return commits.manifest_paths(self.root)

    def manifests(
        self, family: str | None = None, chain: str | None = None, as_of: datetime | None = None
    ) -> Iterator[Manifest]:
        """Yield all manifests, or those of one family, chain or instant, by chain, timestamp and family."""
        timestamp = None if as_of is None else _timestamp(as_of)
        texts = self.storage.texts(None if chain is None else _safe(chain), timestamp, family)
        manifests = (_parsed(text, path) for path, text in texts)
        return (manifest for manifest in manifests if manifest)

    def complete(self, chain: str, instants: Collection[datetime]) -> Iterator[Manifest]:
        """Yield a chain's manifests of all families at the instants, without those that lack a file."""
        return self.storage.complete(_safe(chain), {_timestamp(as_of) for as_of in instants})

    def read(self, table: str, chain: str | None = None, as_of: datetime | None = None) -> pa.Table:
        """Return a table's committed rows: of all partitions, or of one chain or instant.

        Raises ``LakeError`` if a file does not match its manifest.
        """
        manifests = (manifest for manifest in self.manifests(chain=chain, as_of=as_of) if table in manifest.tables)
        return pa.concat_tables([empty(_known_table(table)), *(self.rows(manifest, table) for manifest in manifests)])

    def rows(self, manifest: Manifest, table: str) -> pa.Table:
        """Return a table's rows of one partition. Raises ``LakeError`` if the file does not match its manifest."""
        for _ in range(_READ_ATTEMPTS):
            tables = self.intact_rows(manifest, [table])
            if tables is not None:
                return tables[table]
            newer = self.manifest(manifest.family, manifest.chain, manifest.as_of)
            if newer is None or newer == manifest:
                break
            manifest = newer  # written between reading the manifest and reading the file
        location = self.storage.location(manifest, table)
        raise LakeError(
            f"{location} does not match its manifest; 'holderlake home rebuild --damaged' repairs it at no cost"
        )

    def intact_rows(self, manifest: Manifest, tables: Collection[str] | None = None) -> dict[str, pa.Table] | None:
        """Return a partition's rows by table, of all tables or some; None if a file does not match the manifest."""
        names = manifest.tables if tables is None else tables
        rows = {}
        for name in names:
            data = self._intact_bytes(manifest, name)
            if data is None:
                return None
            rows[name] = from_parquet(name, data, manifest.chain)
        return rows

    def files(self, manifest: Manifest) -> dict[str, bytes]:
        """Return the bytes of a partition's files by table. Raises ``DamagedFile``."""
        files = {name: self._intact_bytes(manifest, name) for name, file in manifest.tables.items() if file != NO_FILE}
        for name, data in files.items():
            if data is None:
                location = self.storage.location(manifest, name)
                raise DamagedFile(
                    f"{location} does not match its manifest; 'holderlake home rebuild --damaged' repairs it"
                )
        return {name: data for name, data in files.items() if data is not None}

    def content_fault(self, manifest: Manifest, table: str) -> str | None:
        """Return the fault of the rows in a table's file that matches its manifest; None without a fault."""
        data = self._intact_bytes(manifest, table)
        return content_fault(manifest, table, data) if data else None

    def link_files(
        self, manifest: Manifest, folder: Path, tables: Collection[str] | None = None
    ) -> dict[str, Path] | None:
        """Link a partition's files, or those of some tables, into ``folder``, where later commits do not change them.

        Returns the new paths by table; None if a file does not match the manifest.
        """
        names = [name for name in (manifest.tables if tables is None else tables) if manifest.tables[name] != NO_FILE]
        links = {name: folder / f"{uuid4().hex}.parquet" for name in names}
        for name, path in links.items():
            if not (self._is_linked(manifest, name, path) or self._is_linked(manifest, name, path)):
                for link in links.values():
                    link.unlink(missing_ok=True)
                return None
        return links

    def _is_linked(self, manifest: Manifest, table: str, path: Path) -> bool:
        """Link a table's file to ``path``. If it does not match the manifest, drop the host's copy and return False."""
        try:
            _link(self.storage.path(manifest, table), path)
            if is_intact(path.read_bytes(), manifest.tables[table]):
                return True
            path.unlink()
        except FileNotFoundError:
            pass
        self.storage.drop_copy(manifest, table)
        return False

    def _intact_bytes(self, manifest: Manifest, table: str) -> bytes | None:
        """Return the bytes of a table's file: empty if there is no file, None if they do not match the manifest."""
        file = manifest.tables[table]
        if file == NO_FILE:
            return b""
        for _ in range(2):  # a second time if only the host's copy is damaged
            try:
                data = self.storage.path(manifest, table).read_bytes()
            except FileNotFoundError:
                return None
            if is_intact(data, file):
                return data
            if not self.storage.drop_copy(manifest, table):
                return None
        return None

    def write(self, update: PartitionUpdate) -> Manifest:
        """Commit rows in place of older rows of the same subjects. Return the partition's manifest.

        The rows of covered subjects replace their older rows; other subjects keep theirs, unless they have other
        options. Older rows that are replaced stay in ``revisions``, whose rows are never removed (see ``versions``).
        New failures replace the older failures of all requested subjects. Rows are sorted by subject; rows of one
        subject keep their order. Writing the same answer again changes nothing.

        Raises ``LakeError`` if the rows do not fit the partition, or the lake has another provider.
        """
        place = _place(update.family, update.chain, update.as_of)
        new_rows = update.rows()
        self.claim(update.provider)
        with self.storage.locked(update.chain):
            for _ in range(_COMMIT_ATTEMPTS):  # in a bucket, another writer may be faster
                latest, old_rows = self._latest_rows(place)
                manifest, files = self._merged(update, new_rows, latest.manifest, old_rows)
                if latest.manifest and _content(latest.manifest) == _content(manifest):
                    return latest.manifest
                if self.storage.commit(manifest, files, latest, [update.record] if update.record else ()):
                    return manifest
        raise LakeError(
            f"the partition {'/'.join(place)} of {self.storage.name} was not written, because other writers changed it "
            f"{_COMMIT_ATTEMPTS} times meanwhile; try again"
        )

    def _merged(
        self,
        update: PartitionUpdate,
        new_rows: Mapping[str, pa.Table],
        old_manifest: Manifest | None,
        old_rows: Mapping[str, pa.Table],
    ) -> tuple[Manifest, dict[str, bytes]]:
        """Return the manifest and the files (Parquet bytes by table) of a partition after an update.

        ``new_rows`` are those of the update, ``old_manifest`` and ``old_rows`` the partition's manifest and rows
        before.
        """
        absent = {name: self._lacking(old_manifest, name) for name in old_rows} if old_manifest else {}
        rows, answers, subjects = rows_after_write(update, new_rows, old_manifest, old_rows, absent)
        files = {name: to_parquet(table) for name, table in rows.items() if table.num_rows or name not in SIDE_TABLES}
        open_subjects = {*(old_manifest.unanswered if old_manifest else ()), *update.requested, *update.unsent}
        manifest = Manifest(
            *_place(update.family, update.chain, update.as_of),
            update.provider,
            utc_now(),
            uuid4().hex,
            {
                name: table_file(table.num_rows, files[name]) if name in files else NO_FILE
                for name, table in rows.items()
            },
            subjects,
            dict(update.options),
            answers,
            unanswered=frozenset(open_subjects - subjects - update.covered.keys()),
            store_change=_included_change(old_manifest, update.covered, update.store_change),
        )
        return manifest, files

    def replace(
        self,
        manifest: Manifest,
        files: Mapping[str, bytes],
        expected: Latest | None = None,
        *,
        quarantine: bool = False,
    ) -> bool:
        """Replace a partition by that of another lake: its manifest, and the bytes of its files by table.

        Return False, and change nothing, if ``expected`` is given and this lake's partition has changed since then.
        With ``quarantine``, move or copy this lake's files of the partition to the quarantine first.
        """
        self.claim(manifest.provider)
        with self.storage.locked(manifest.chain):
            latest = self.storage.latest(manifest.place)
            if expected not in (None, latest):
                return False
            if quarantine:
                self.storage.set_aside(manifest.place)
            return self.storage.commit(manifest, files, latest._replace(manifest=None))

    def _latest_rows(self, place: Place) -> tuple[Latest, dict[str, pa.Table]]:
        """Return a partition's manifest and rows by table. If a file is damaged, quarantine all its files."""
        latest = self.storage.latest(place)
        rows = self.intact_rows(latest.manifest) if latest.manifest else None
        if rows is not None:
            return latest, rows
        for copied_to in self.storage.set_aside(place)[:1] if latest.may_exist else ():
            _log.warning(
                "the partition %s of %s is damaged and is written again; its old files are now in %s. This run writes "
                "only the rows that it fetches; 'holderlake home rebuild --partition %s' restores the others, for free",
                "/".join(place),
                self.storage.name,
                copied_to,
                "/".join(place),
            )
        return latest._replace(manifest=None), {}

    def _lacking(self, manifest: Manifest, table: str) -> frozenset[str]:
        """Return the columns that a table's file lacks, because an earlier version of Holderlake wrote it.

        Raises ``LakeError`` for a file with a column of a later version.
        """
        path = self.storage.path(manifest, table)
        return lacking(table, path.read_bytes() if manifest.tables[table] != NO_FILE else b"", path)

    def claim(self, provider: str) -> None:
        """Bind the lake to a provider at its first write. Raises ``LakeError`` if it is bound to another one."""
        if self._noted_provider()[0] != provider:
            self.check_provider(provider)
            with self.storage.locked(None):
                if self._noted_provider()[0] != provider:
                    self.storage.note_provider(msgspec.json.encode({"provider": provider}))
        self.check_provider(provider)

    def check_provider(self, provider: str) -> None:
        """Raise ``LakeError`` if the lake has another provider's data."""
        bound = self.provider
        if bound in (None, provider) or (self.provider_damage and provider == self._written_provider()):
            return
        if bound and bound.startswith(SAMPLE_PROVIDER) and provider.startswith(SAMPLE_PROVIDER):
            raise LakeError(
                f"the lake {self.storage.name} was filled with the sample data of another version of Holderlake "
                f"({bound!r}; this version has {provider!r}). You can still read it, but not add to it. To continue, "
                "set HOLDERLAKE_HOME to a new folder and run 'holderlake demo'"
            )
        raise LakeError(
            f"the lake {self.storage.name} has data of {bound!r} and cannot mix it with data of {provider!r}; set "
            "HOLDERLAKE_HOME to another folder for that provider"
        )


def _content(manifest: Manifest) -> tuple[object, ...]:
    """Return a partition's files, covered and unanswered subjects, options, answer times and store change."""
    files = {REVISIONS: NO_FILE} | manifest.tables
    subjects = manifest.covered, manifest.unanswered
    return files, *subjects, manifest.options, manifest.answers, manifest.store_change


def _included_change(old_manifest: Manifest | None, covered: Collection[str], store_change: int | None) -> int | None:
    """Return the change of the store that all rows include, after rows of ``covered`` that include ``store_change``."""
    if old_manifest is None or old_manifest.covered <= set(covered):
        return store_change
    older = old_manifest.store_change
    return older if older is None or store_change is None else min(older, store_change)


def _parsed(text: bytes, path: PurePath) -> Manifest | None:
    try:
        return parsed_manifest(text, path)
    except DamagedManifest:
        return None


def _link(path: Path, link: Path) -> None:
    """Make a hard link ``link`` to a file, or a copy if the file system cannot link the two paths."""
    try:
        link.hardlink_to(path)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(path, link)


def _known_table(table: str) -> str:
    if table not in TABLES:
        raise LakeError(f"there is no table {table!r}; the tables are {', '.join(TABLES)}")
    return table


def _family(family: str) -> str:
    try:
        return family_name(family)
    except BadName as error:
        raise LakeError(str(error)) from error


def _safe(chain: str) -> str:
    """Return the chain id, if it can be part of a path. Raises ``LakeError`` otherwise."""
    try:
        return chain_name(chain)
    except BadName as error:
        raise LakeError(str(error)) from error


def _place(family: str, chain: str, as_of: datetime) -> Place:
    return _family(family), _safe(chain), _timestamp(as_of)


def _timestamp(as_of: datetime) -> str:
    if as_of.tzinfo is not None or as_of.microsecond:
        raise LakeError(f"invalid as-of instant {as_of.isoformat()}: use UTC without a time zone, in whole seconds")
    return partition_text(as_of)
