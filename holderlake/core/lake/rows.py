"""Rows of a partition: check them against the table's schema, merge old and new ones, encode them as Parquet."""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from holderlake.core.contract.tables import FAMILY_TABLES, SIDE_TABLES, TABLES, conform
from holderlake.core.lake.manifests import FAILURES, REVISIONS, LakeError, Manifest
from holderlake.core.lake.versions import VersionedRows, repeated, with_answers
from holderlake.core.units import counted

SUBJECT_COLUMNS: Final = {
    "chain": "chain",
    "token": "token_address",
    "address_set": "address_set",
    "address": "address",
}
"""The column with a row's subject (what its request was about), by the kind of subject."""
_INSTANTS: Final = ("as_of", "fetched_at")
_LONG_RUN: Final = 100
"""Minimum average number of rows of a subject for which sorting blocks of rows is faster than sorting single rows."""


@dataclass(frozen=True)
class PartitionUpdate:
    """Rows to commit to a partition: a family's ``tables`` (with ``fetched_at``), and the subjects that they are about.

    ``by`` is the kind of subject, a key of ``SUBJECT_COLUMNS``. ``requested`` are all subjects that were requested with
    ``options``, ``covered`` has the time (naive UTC) of each answer. ``unsent`` are subjects whose requests the run was
    stopped before, ``failures`` rows of the table of this name. ``final`` means that the rows are about a past that
    does not change: a subject with rows that were fetched before ``as_of`` is not covered.
    """

    family: str
    chain: str
    as_of: datetime
    tables: Mapping[str, pa.Table]
    _: KW_ONLY
    provider: str
    by: str
    requested: Collection[str]
    covered: Mapping[str, datetime]
    options: Mapping[str, Any]
    unsent: Collection[str] = ()
    failures: pa.Table | None = None
    final: bool = False
    record: bytes | None = None
    """The commit record, which a lake in a bucket keeps in the manifest."""
    store_change: int | None = None
    """Number of a change of your store that the rows include."""

    def rows(self) -> dict[str, pa.Table]:
        """Return tables and failures, cast to their schemas. Raises ``LakeError`` if they do not fit the partition."""
        for name in self.tables.keys() - {*FAMILY_TABLES.get(self.family, ()), *SIDE_TABLES}:
            raise LakeError(f"the family {self.family} has no table {name}: leave it out")
        failures = empty(FAILURES) if self.failures is None else self.failures
        tables = {**self.tables, FAILURES: failures}
        return {name: conforming(name, rows, self.chain, self.as_of) for name, rows in tables.items()}


def subject_column(table: str, kind: str) -> str:
    """Return the column of ``table`` with a row's subject; ``kind`` is a key of ``SUBJECT_COLUMNS``."""
    return "subject" if table in SIDE_TABLES else SUBJECT_COLUMNS[kind]


def empty(table: str) -> pa.Table:
    """Return an empty Arrow table in the schema of the named table."""
    return TABLES[table].schema.empty_table()


def conforming(name: str, rows: pa.Table, chain: str, as_of: datetime) -> pa.Table:
    """Return rows of the table ``name``, cast to its schema without rounding.

    Raises ``LakeError`` if they do not fit the schema, or have another chain or instant than ``chain`` and ``as_of``.
    """
    schema = TABLES[name].schema
    if set(rows.column_names) != set(schema.names):
        columns = ", ".join(sorted(set(rows.column_names) ^ set(schema.names)))
        raise LakeError(f"the rows of the table {name} have missing or unknown columns: add or remove {columns}")
    for field in schema:
        dtype = rows.schema.field(field.name).type
        if pa.types.is_floating(dtype) and not pa.types.is_floating(field.type):
            raise LakeError(f"the column {name}.{field.name} has the inexact type {dtype}: use {field.type}")
        if not field.nullable and rows[field.name].null_count:
            raise LakeError(f"the column {name}.{field.name} may not be null: fill it in every row")
    try:
        cast = rows.select(schema.names).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise LakeError(f"the rows do not fit the table {name}: {error}") from error
    for column, value in (("chain", chain), ("as_of", as_of)):
        if set(pc.unique(cast[column]).to_pylist()) - {value}:
            raise LakeError(f"rows of the table {name} do not belong to the partition: their {column} is not {value}")
    return cast


def merged_rows(
    old_rows: pa.Table | None, new_rows: pa.Table, subject: str, answered_subjects: Collection[str]
) -> pa.Table:
    """Return new rows and the old rows that they do not replace, sorted by subject.

    Old rows are replaced if their subject is in ``answered_subjects`` or has new rows. ``subject`` is the subject's
    column.
    """
    if old_rows is not None:
        replaced = pa.array(sorted({*answered_subjects, *new_rows[subject].to_pylist()}), type=pa.string())
        new_rows = pa.concat_tables(
            [old_rows.filter(pc.invert(pc.is_in(old_rows[subject], value_set=replaced))), new_rows]
        )
    return _by_subject(new_rows, subject)


def rows_after_write(
    update: PartitionUpdate,
    new_rows: Mapping[str, pa.Table],
    old_manifest: Manifest | None,
    old_rows: Mapping[str, pa.Table],
    lacking: Mapping[str, Collection[str]],
) -> tuple[dict[str, pa.Table], dict[str, list[datetime]], frozenset[str]]:
    """Return a partition's rows by table after an update, ``answers`` of its manifest, and its covered subjects.

    ``new_rows`` are those of the update, ``old_manifest`` and ``old_rows`` the partition's manifest and rows before,
    and ``lacking`` the columns that the older files lack; rows and columns are by table.
    """
    as_of, by, covered = update.as_of, update.by, update.covered
    new_rows = {name: rows.slice(0, 0) for name, rows in old_rows.items()} | dict(new_rows)
    revised = [rows for rows in (old_rows.get(REVISIONS), new_rows.pop(REVISIONS, None)) if rows is not None]
    covered_before = frozenset() if old_manifest is None else old_manifest.answered
    if old_manifest is not None and old_manifest.options != update.options:
        covered_before = frozenset()  # a partition has one set of options: other subjects must be fetched again
    early = fetched_early(new_rows, as_of, by) if update.final else frozenset()
    column = SUBJECT_COLUMNS[by]
    subject_rows = {name: rows for name, rows in new_rows.items() if name != FAILURES}
    revisions = pa.concat_tables([empty(REVISIONS), *revised])
    answer_times = {subject: at for subject, at in covered.items() if subject not in early}
    answers: dict[str, list[datetime]] = {}
    if old_manifest is not None:
        known_rows = {name: rows for name, rows in old_rows.items() if name not in SIDE_TABLES}
        if update.final:
            known_rows = {name: _fetched_since(rows, as_of) for name, rows in known_rows.items()}
        partition = VersionedRows(known_rows, revisions, old_manifest.answers)
        repeated_times = {subject: answer_times.pop(subject) for subject in repeated(column, partition, answer_times)}
        about = {"family": update.family, "chain": update.chain, "as_of": as_of}
        result = with_answers(about, column, partition, subject_rows, repeated_times, lacking)
        subject_rows, revisions, answers = dict(result.tables), result.revisions, dict(result.answers)
    answers |= {subject: [answer_times[subject]] for subject in _without_rows(subject_rows, column, answer_times)}
    tables = {
        name: merged_rows(
            old_rows.get(name), rows, subject_column(name, by), update.requested if name == FAILURES else covered
        )
        for name, rows in {FAILURES: new_rows[FAILURES], **subject_rows}.items()
    }
    order = [(name, "ascending") for name in ("subject", "table_name", "fetched_at")]
    tables[REVISIONS] = revisions.sort_by(order)
    return tables, answers, (covered_before | covered.keys()) - early


def _without_rows(tables: Mapping[str, pa.Table], column: str, subjects: Collection[str]) -> set[str]:
    """Return the subjects that have no row in any table; ``column`` is the column with a row's subject."""
    subjects_left = set(subjects)
    for rows in tables.values():
        if subjects_left and rows.num_rows:
            subjects_left -= {*pc.unique(rows[column]).to_pylist()}
    return subjects_left


def _fetched_since(rows: pa.Table, as_of: datetime) -> pa.Table:
    """Return the rows that were fetched at ``as_of`` or later."""
    if not rows.num_rows or pc.min(rows["fetched_at"]).as_py() >= as_of:
        return rows
    return rows.filter(pc.greater_equal(rows["fetched_at"], as_of))


def fetched_early(tables: Mapping[str, pa.Table], as_of: datetime, kind: str) -> frozenset[str]:
    """Return the subjects with rows that were fetched before ``as_of``; ``kind`` is a key of ``SUBJECT_COLUMNS``."""
    early = [
        rows.filter(pc.less(rows["fetched_at"], as_of))[subject_column(name, kind)].to_pylist()
        for name, rows in tables.items()
        if name != REVISIONS and rows.num_rows and pc.min(rows["fetched_at"]).as_py() < as_of
    ]
    return frozenset().union(*early)


def to_parquet(rows: pa.Table) -> bytes:
    """Encode rows of one partition as Parquet, without the column ``chain``, which is in the file's path.

    Programs that read a table's folder refuse a column that is in both. Only texts and instants get a dictionary,
    because they repeat. Only the first two columns (instant, subject) and addresses get statistics, because readers
    skip files by them; statistics of all columns would cost a tenth more time.
    """
    rows = rows.drop_columns("chain")
    repeating = [field.name for field in rows.schema if pa.types.is_string(field.type) or field.name in _INSTANTS]
    sink = io.BytesIO()  # its bytes are not copied, unlike those of a stream of Arrow
    statistics = [*rows.schema.names[:2], *(name for name in rows.schema.names[2:] if name.endswith("address"))]
    pq.write_table(rows, sink, compression="zstd", use_dictionary=repeating, write_statistics=statistics)
    return sink.getvalue()


def from_parquet(table: str, data: bytes, chain: str) -> pa.Table:
    """Decode the Parquet bytes of a table's file of one chain. Returns an empty table for empty bytes."""
    if not data:
        return empty(table)
    rows = pq.ParquetFile(pa.BufferReader(data)).read()
    rows = rows.append_column("chain", pa.repeat(pa.scalar(chain), rows.num_rows))
    return conform(TABLES[table], rows)


def content_fault(manifest: Manifest, table: str, data: bytes) -> str | None:
    """Return the fault of a table's file (Parquet bytes) that has the checksum of its manifest; None without a fault.

    Its rows must fit the table's schema, belong to the partition, and have the manifest's number.
    """
    try:
        rows = conforming(table, from_parquet(table, data, manifest.chain), manifest.chain, manifest.as_of)
    except (pa.ArrowException, OSError, KeyError, LakeError) as error:
        return f"can't be read ({str(error).splitlines()[0]})"
    listed = manifest.tables[table].rows
    return (
        None if rows.num_rows == listed else f"has {counted(rows.num_rows, 'row')}, and its manifest lists {listed:,}"
    )


def lacking(table: str, data: bytes, path: Path) -> frozenset[str]:
    """Return the columns of a table that its file (Parquet bytes) of an older version lacks; none for empty bytes.

    Raises ``LakeError``, with ``path``, for a file with a column of a later version: a write would remove that column.
    """
    if not data:
        return frozenset()
    file_columns = frozenset(pq.ParquetFile(pa.BufferReader(data)).schema_arrow.names)
    table_columns = frozenset(TABLES[table].schema.names) - {"chain"}
    if file_columns - table_columns:
        raise LakeError(
            f"{path} has the column {min(file_columns - table_columns)!r}, which this version does not know: "
            "install the latest version of Holderlake"
        )
    return table_columns - file_columns


def _by_subject(rows: pa.Table, subject: str) -> pa.Table:
    """Sort rows by the column ``subject``; rows of one subject keep their order."""
    blocks: list[tuple[str, int, int]] = []  # subject, first row and row after the last
    first_row = 0
    for chunk in rows[subject].chunks:
        runs = pc.run_end_encode(chunk)
        ends = [first_row + end for end in runs.run_ends.to_pylist()]
        blocks += zip(runs.values.to_pylist(), [first_row, *ends], ends, strict=False)
        first_row += len(chunk)
    if len(blocks) * _LONG_RUN >= rows.num_rows:
        return rows.take(pc.sort_indices(rows, sort_keys=[(subject, "ascending")]))
    return pa.concat_tables([rows.slice(start, end - start) for _, start, end in sorted(blocks)])
