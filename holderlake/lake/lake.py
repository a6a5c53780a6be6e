"""The lake: Parquet files by table, chain and timestamp, which appear a family of tables at a time.

Layout: ``<table>/chain=<chain>/timestamp=<instant>/part-0.parquet``. ``failures`` and ``revisions`` have one
``part-<family>.parquet`` a family, because families commit on their own, and none where there is nothing to tell.
Readers trust manifests only: ``_manifests/chain=<chain>/timestamp=<instant>/<family>.json`` tells the rows, bytes and
SHA-256 of each file. A file that was damaged from outside does not match its manifest; such a partition counts as
absent, and is written again.

How files appear together stands in ``commits``, loading into DuckDB in ``warehouse``, which rows an answer makes in
``decoding``.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from holderlake.contract.tables import FAMILY_TABLES, TABLES, conform
from holderlake.contract.times import partition_text, utc_now
from holderlake.lake import commits
from holderlake.lake.commits import FAILURES, NO_FILE, REVISIONS, SIDE_TABLES, LakeError, Manifest, TableFile
from holderlake.lake.revisions import revisions
from holderlake.storage.atomic_files import set_aside, whole_file
from holderlake.storage.names import BadName, chain_name, family_name

__all__ = ["FAILURES", "REVISIONS", "SIDE_TABLES", "SUBJECT_COLUMNS", "Lake", "LakeError", "Manifest", "TableFile"]

SUBJECT_COLUMNS: Final = {
    "chain": "chain",
    "token": "token_address",
    "address_set": "address_set",
    "address": "address",
}
"""The column that tells what a row was asked for, by the kind of subject."""

SAMPLE_PROVIDER: Final = "sample world "
"""The names of providers over the sample data begin so; a version of the data follows."""

_log = logging.getLogger(__name__)
_PROVIDER: Final = "_provider.json"
_READ_ATTEMPTS: Final = 5
_INSTANTS: Final = ("as_of", "fetched_at")
_LONG_RUN: Final = 100
"""Rows of a subject on average from which on moving them one by one is not worth the while."""
_REVISIONS_ORDER: Final = ("subject", "table_name", "fetched_at")


class Lake:
    """The Parquet files below one folder, from one provider. Safe for any number of processes and threads."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def provider(self) -> str | None:
        """Whose answers the lake holds, or None before the first write. Where the note is damaged, manifests say it."""
        provider, damage = self._noted_provider()
        return next((manifest.provider for manifest in self.manifests()), None) if damage else provider

    @property
    def provider_path(self) -> Path:
        """The file that notes the provider."""
        return self.root / _PROVIDER

    @property
    def provider_damage(self) -> str | None:
        """What is wrong with the note of the provider; None where it is whole, or the lake is empty."""
        noted, damage = self._noted_provider()
        written = next((manifest.provider for manifest in self.manifests()), noted)
        return damage or (None if noted == written else f"names {noted!r}, and the manifests name {written!r}")

    def _noted_provider(self) -> tuple[str | None, str | None]:
        try:
            noted = msgspec.json.decode(self.provider_path.read_bytes(), type=dict[str, str])
            return noted["provider"], None
        except FileNotFoundError:
            known = next(self.manifest_paths(), None)
            return None, "is missing" if known else None
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError) as error:
            return None, f"does not name a provider: {error}"

    def glob(self, table: str) -> str:
        """A pattern for tools that read Parquet by themselves. It does not know what is committed."""
        return str(self.root / _known(table) / "chain=*" / "timestamp=*" / "*.parquet")

    def path(self, table: str, chain: str, as_of: datetime, family: str | None = None) -> Path:
        """Where a table's file of a partition is, or would be. ``failures`` needs the family."""
        if _known(table) in SIDE_TABLES and family is None:
            raise LakeError(f"each family has its own file of {table}; name the family")
        return commits.table_path(self.root, table, _safe(chain), _timestamp(as_of), family)

    def manifest(self, family: str, chain: str, as_of: datetime) -> Manifest | None:
        """What a partition holds; None where it was never committed, or a file of it is gone or cut short."""
        path = commits.settled_manifest_path(self.root, _family(family), _safe(chain), _timestamp(as_of))
        manifest = commits.read_manifest(path)
        return manifest if manifest and commits.has_its_files(self.root, manifest) else None

    def manifest_paths(self) -> Iterator[Path]:
        """The files of all manifests, by chain, timestamp and family, unread."""
        return commits.manifest_paths(self.root)

    def manifests(
        self, family: str | None = None, chain: str | None = None, as_of: datetime | None = None
    ) -> Iterator[Manifest]:
        """What partitions hold: all, or those of one family, chain, instant; by chain, timestamp and family."""
        timestamp = None if as_of is None else _timestamp(as_of)
        paths = commits.manifest_paths(self.root, None if chain is None else _safe(chain), timestamp)
        found = (commits.read_manifest(path) for path in paths if family in (None, path.stem))
        return (manifest for manifest in found if manifest)

    def whole(self, chain: str, instants: Collection[datetime]) -> Iterator[Manifest]:
        """What partitions of a chain hold at the instants, all families, as ``manifest`` tells of each: in one pass."""
        return commits.whole_manifests(self.root, _safe(chain), {_timestamp(as_of) for as_of in instants})

    def read(self, table: str, chain: str | None = None, as_of: datetime | None = None) -> pa.Table:
        """A table's committed rows: of all partitions, or of one chain, or one instant.

        Raises ``LakeError`` on a file that does not match its manifest.
        """
        schema = TABLES[_known(table)].schema
        holding = (manifest for manifest in self.manifests(chain=chain, as_of=as_of) if table in manifest.tables)
        return pa.concat_tables([schema.empty_table(), *(self.rows(manifest, table) for manifest in holding)])

    def rows(self, manifest: Manifest, table: str) -> pa.Table:
        """A table's rows of one partition. Raises ``LakeError`` on a file that does not match its manifest."""
        for _ in range(_READ_ATTEMPTS):
            found = self.intact_rows(manifest, [table])
            if found is not None:
                return found[table]
            newer = self.manifest(manifest.family, manifest.chain, manifest.as_of)
            if newer is None or newer == manifest:
                break
            manifest = newer  # it was written anew between our two looks
        path = commits.file_of(self.root, manifest, table)
        raise LakeError(f"{path} does not match its manifest; 'holderlake rebuild --damaged' repairs it at no cost")

    def intact_rows(self, manifest: Manifest, tables: Collection[str] | None = None) -> dict[str, pa.Table] | None:
        """The rows of one partition by table (or of some tables); None where a file is not the one of the manifest."""
        names = manifest.tables if tables is None else tables
        files = {name: self._intact_bytes(manifest, name) for name in names}
        found = {name: _parsed(name, data) for name, data in files.items() if data is not None}
        return found if len(found) == len(files) else None

    def hold(self, manifest: Manifest, folder: Path, tables: Collection[str] | None = None) -> dict[str, Path] | None:
        """The files of one partition by table (or of some tables) under other names in ``folder``, for a reader that
        opens them by itself: whatever is committed meanwhile, they stay. None where one is not that of the manifest.
        """
        names = [name for name in (manifest.tables if tables is None else tables) if manifest.tables[name] != NO_FILE]
        held = {name: folder / f"{uuid4().hex}.parquet" for name in names}
        for name, path in held.items():
            try:
                _linked(commits.file_of(self.root, manifest, name), path)
                intact = commits.is_intact(path.read_bytes(), manifest.tables[name])
            except FileNotFoundError:
                intact = False
            if not intact:
                for other in held.values():
                    other.unlink(missing_ok=True)
                return None
        return held

    def _intact_bytes(self, manifest: Manifest, table: str) -> bytes | None:
        """A table's file; empty where there is none to be, None where it is not the one of the manifest."""
        file = manifest.tables[table]
        if file == NO_FILE:
            return b""
        try:
            data = commits.file_of(self.root, manifest, table).read_bytes()
        except FileNotFoundError:
            return None
        return data if commits.is_intact(data, file) else None

    def write(  # noqa: PLR0913 - what is written, by whom, and what it stands for
        self,
        family: str,
        chain: str,
        as_of: datetime,
        tables: Mapping[str, pa.Table],
        *,
        provider: str,
        by: str,
        asked: Collection[str],
        covered: Collection[str],
        failures: pa.Table | None = None,
        final: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> Manifest:
        """Commits a family's tables (with ``fetched_at``) in place of the older rows of the same subjects.

        ``by`` is the kind of subject, a key of ``SUBJECT_COLUMNS``. Of the subjects ``asked``, the ``covered`` ones
        were answered: their rows replace older ones, the others keep what they had. The older failures of all that
        were asked vanish for the new ones. Rows are sorted by subject, and keep their order within it. Writing the same
        again changes nothing.

        ``options`` are those of the requests; where they are not given, the partition's stay.
        ``final``: a subject with rows that were fetched before ``as_of`` is not covered.
        The tables tell of a past that does not change, so rows of a covered subject that differ from its
        older ones are noted in ``revisions``; to those that are there nothing is ever done but adding to them.
        Raises ``LakeError`` on rows that do not belong here and on another provider.
        """
        for name in tables.keys() - {*FAMILY_TABLES.get(_family(family), ()), *SIDE_TABLES}:
            raise LakeError(f"the family {family} has no table {name}")
        new = {name: _declared(name, rows, chain, as_of) for name, rows in tables.items()}
        failed = TABLES[FAILURES].schema.empty_table() if failures is None else failures
        new[FAILURES] = _declared(FAILURES, failed, chain, as_of)
        path = commits.manifest_path(self.root, _family(family), _safe(chain), _timestamp(as_of))
        self.claim(provider)
        with commits.locked(self.root, chain):
            commits.finish(self.root, path)
            old, before = self._before(path)
            new = {name: rows.slice(0, 0) for name, rows in before.items()} | new
            answered = {name: covered for name in new} | {FAILURES: asked}
            kept = frozenset() if old is None else old.answered
            again = kept & set(covered) if final and before else frozenset()
            if old is not None and None not in (old.options, options) and old.options != options:
                kept = frozenset()  # a partition holds one set of options; what was not answered again is missing
            early = _fetched_early(new, as_of, by) if final else frozenset()
            given = new.pop(REVISIONS, TABLES[REVISIONS].schema.empty_table())
            merged = {
                name: _merged(before.get(name), rows, _subject_column(name, by), answered[name])
                for name, rows in new.items()
            }
            told = {name: new[name] for name in tables.keys() - set(SIDE_TABLES)}
            fresh = revisions(family, before, told, SUBJECT_COLUMNS[by], again)
            merged[REVISIONS] = _in_order([before.get(REVISIONS, given.slice(0, 0)), given, fresh])
            return self._commit(
                path, merged, (kept | frozenset(covered)) - early, provider, old, _options(old, options, covered)
            )

    def _before(self, path: Path) -> tuple[Manifest | None, dict[str, pa.Table]]:
        """Return what the partition holds now. Where a file of it is damaged, all of them go to the quarantine."""
        manifest = commits.read_manifest(path)
        rows = self.intact_rows(manifest) if manifest else None
        if rows is not None:
            return manifest, rows
        place = "/".join(commits.place_of(path))
        for moved in commits.set_partition_aside(self.root, path)[:1]:
            _log.warning(
                "%s is damaged and written again; its files are now in %s. 'holderlake rebuild --partition %s' "
                "restores the rows that are not fetched now, at no cost",
                path,
                moved,
                place,
            )
        return None, {}

    def _commit(
        self,
        path: Path,
        tables: Mapping[str, pa.Table],
        covered: frozenset[str],
        provider: str,
        old: Manifest | None,
        options: dict[str, Any] | None,
    ) -> Manifest:
        files = {name: _parquet(rows) for name, rows in tables.items() if rows.num_rows or name not in SIDE_TABLES}
        told = {
            name: commits.table_file(rows.num_rows, files[name]) if name in files else NO_FILE
            for name, rows in tables.items()
        }
        if old is not None and ({REVISIONS: NO_FILE} | old.tables, old.covered, old.options) == (
            told,
            covered,
            options,
        ):
            return old
        chain, timestamp = (folder.name.partition("=")[2] for folder in (path.parent.parent, path.parent))
        manifest = Manifest(path.stem, chain, timestamp, provider, utc_now(), uuid4().hex, told, covered, options)
        commits.commit(self.root, manifest, files)
        return manifest

    def claim(self, provider: str) -> None:
        """The first write makes the lake its provider's. Raises ``LakeError`` where it is another one's."""
        if self._noted_provider()[0] != provider:
            self.check_provider(provider)
            with commits.locked(self.root, None):
                if self._noted_provider()[0] != provider:
                    if self.provider_path.exists():
                        set_aside(self.provider_path, self.root, commits.QUARANTINE)
                    with whole_file(self.provider_path) as file:
                        file.write_bytes(msgspec.json.encode({"provider": provider}))
        self.check_provider(provider)

    def check_provider(self, provider: str) -> None:
        """Raises ``LakeError`` where the lake holds another provider's answers."""
        held = self.provider
        if held not in (None, provider) and (
            self.provider_damage is None or provider != next((one.provider for one in self.manifests()), None)
        ):
            if held and held.startswith(SAMPLE_PROVIDER) and provider.startswith(SAMPLE_PROVIDER):
                raise LakeError(
                    f"the lake {self.root} was filled with the sample data of another version of Holderlake ({held!r}; "
                    f"this version has {provider!r}). You can still read it, but not add to it. To go on, set "
                    "HOLDERLAKE_HOME to a new folder and run 'holderlake demo'"
                )
            raise LakeError(
                f"the lake {self.root} holds answers of {held!r}, and answers of {provider!r} do not belong "
                "among them; set HOLDERLAKE_HOME to another folder for that provider"
            )


def _linked(path: Path, name: Path) -> None:
    """Another name of a file; a copy where the file system has no such thing, or the place is on another one."""
    try:
        name.hardlink_to(path)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(path, name)


def _options(old: Manifest | None, given: Mapping[str, Any] | None, covered: Collection[str]) -> dict[str, Any] | None:
    """Return the options of all covered subjects; None where those of an older answer that stays are not known."""
    if given is None:
        return None if old is None else old.options
    if old is None:
        return dict(given)
    is_known = old.options is not None or old.answered <= frozenset(covered)
    return dict(given) if is_known else None


def _fetched_early(tables: Mapping[str, pa.Table], as_of: datetime, by: str) -> frozenset[str]:
    """Return the subjects with rows that were fetched before the instant that they are for."""
    early = [
        rows.filter(pc.less(rows["fetched_at"], as_of))[_subject_column(name, by)].to_pylist()
        for name, rows in tables.items()
        if name != REVISIONS and rows.num_rows and pc.min(rows["fetched_at"]).as_py() < as_of
    ]
    return frozenset().union(*early)


def _in_order(told: Sequence[pa.Table]) -> pa.Table:
    """Rows of ``revisions``, sorted."""
    return pa.concat_tables(told).sort_by([(name, "ascending") for name in _REVISIONS_ORDER])


def _subject_column(table: str, by: str) -> str:
    return "subject" if table in SIDE_TABLES else SUBJECT_COLUMNS[by]


def _merged(old: pa.Table | None, new: pa.Table, subject: str, answered: Collection[str]) -> pa.Table:
    """The old rows but for those of subjects that are answered anew, and the new ones, by subject."""
    if old is not None:
        replaced = pa.array(sorted({*answered, *new[subject].to_pylist()}), type=pa.string())
        new = pa.concat_tables([old.filter(pc.invert(pc.is_in(old[subject], value_set=replaced))), new])
    return _by_subject(new, subject)


def _by_subject(rows: pa.Table, subject: str) -> pa.Table:
    """Rows in the order of their subjects, and those of a subject in their own. Long runs are moved as they are."""
    runs = pc.run_end_encode(rows[subject].combine_chunks())
    if len(runs.values) * _LONG_RUN >= rows.num_rows:
        return rows.take(pc.sort_indices(rows, sort_keys=[(subject, "ascending")]))  # stable
    ends = runs.run_ends.to_pylist()
    named = zip(runs.values.to_pylist(), [0, *ends[:-1]], ends, strict=True)
    return pa.concat_tables([rows.slice(start, end - start) for _, start, end in sorted(named)])


def _declared(name: str, rows: pa.Table, chain: str, as_of: datetime) -> pa.Table:
    """The rows in the table's declared schema. Nothing is rounded on the way there."""
    schema = TABLES[_known(name)].schema
    if set(rows.column_names) != set(schema.names):
        odd = ", ".join(sorted(set(rows.column_names) ^ set(schema.names)))
        raise LakeError(f"the rows of {name} have other columns than the table: {odd}")
    for field in schema:
        given = rows.schema.field(field.name).type
        if pa.types.is_floating(given) and not pa.types.is_floating(field.type):
            raise LakeError(f"{name}.{field.name} came as {given}, which is not exact; {field.type} is declared")
        if not field.nullable and rows[field.name].null_count:
            raise LakeError(f"{name}.{field.name} may not be null")
    try:
        declared = rows.select(schema.names).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise LakeError(f"the rows of {name} do not fit the table: {error}") from error
    for column, value in (("chain", chain), ("as_of", as_of)):
        if set(pc.unique(declared[column]).to_pylist()) - {value}:
            raise LakeError(f"rows of {name} do not belong to the partition: their {column} is not {value}")
    return declared


def _parquet(rows: pa.Table) -> bytes:
    """Texts and instants of the partition repeat; in numbers a search for repetitions costs more than it saves.

    By chain, instant and subject, which come first, readers pass over files. Least and largest values of other columns
    would rule out nothing, and to find them costs more than a tenth of the writing.
    """
    repeating = [field.name for field in rows.schema if pa.types.is_string(field.type) or field.name in _INSTANTS]
    sink = pa.BufferOutputStream()
    telling = rows.schema.names[:3]
    pq.write_table(rows, sink, compression="zstd", use_dictionary=repeating, write_statistics=telling)
    return bytes(sink.getvalue())


def _parsed(table: str, data: bytes) -> pa.Table:
    found = TABLES[table]
    return conform(found, pq.ParquetFile(pa.BufferReader(data)).read()) if data else found.schema.empty_table()


def _known(table: str) -> str:
    if table not in TABLES:
        raise LakeError(f"there is no table {table!r}; there are {', '.join(TABLES)}")
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


def _timestamp(as_of: datetime) -> str:
    if as_of.tzinfo is not None or as_of.microsecond:
        raise LakeError(f"{as_of.isoformat()} is not an instant of the lake: UTC without zone, in whole seconds")
    return partition_text(as_of)
