"""Rows of a partition: check them against the table's schema, merge old and new ones, encode them as Parquet."""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from holderlake.contract.tables import TABLES, conform
from holderlake.contract.times import parse_partition
from holderlake.lake.manifests import FAILURES, REVISIONS, SIDE_TABLES, LakeError, Manifest, Place
from holderlake.lake.versions import Rows, repeated, with_answers

SUBJECT_COLUMNS: Final = {
    "chain": "chain",
    "token": "token_address",
    "address_set": "address_set",
    "address": "address",
}
"""The column with a row's subject (what its request was about), by the kind of subject."""
_INSTANTS: Final = ("as_of", "fetched_at")
_LONG_RUN: Final = 100
"""Least average number of rows of a subject for which sorting blocks of rows is faster than sorting single rows."""


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
        odd = ", ".join(sorted(set(rows.column_names) ^ set(schema.names)))
        raise LakeError(f"the rows of the table {name} have missing or unknown columns: add or remove {odd}")
    for field in schema:
        given = rows.schema.field(field.name).type
        if pa.types.is_floating(given) and not pa.types.is_floating(field.type):
            raise LakeError(f"the column {name}.{field.name} has the inexact type {given}: use {field.type}")
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


def merged(old: pa.Table | None, new: pa.Table, subject: str, answered: Collection[str]) -> pa.Table:
    """Return new rows and the old rows that they do not replace, sorted by subject.

    Old rows are replaced if their subject is in ``answered`` or has new rows. ``subject`` is the subject's column.
    """
    if old is not None:
        replaced = pa.array(sorted({*answered, *new[subject].to_pylist()}), type=pa.string())
        new = pa.concat_tables([old.filter(pc.invert(pc.is_in(old[subject], value_set=replaced))), new])
    return _by_subject(new, subject)


def rows_after_write(  # noqa: PLR0913, PLR0917 - the arguments of a write
    place: Place,
    old: Manifest | None,
    before: Mapping[str, pa.Table],
    new: Mapping[str, pa.Table],
    by: str,
    requested: Collection[str],
    covered: Mapping[str, datetime],
    final: bool,
    options: Mapping[str, Any] | None,
    lacking: Mapping[str, Collection[str]],
) -> tuple[dict[str, pa.Table], dict[str, list[datetime]], frozenset[str]]:
    """Return a partition's rows by table after a write, ``answers`` of its manifest, and its covered subjects.

    ``old`` and ``before`` are the partition's manifest and rows before the write, ``new`` the rows to write, and
    ``lacking`` the columns that the older files lack; rows and columns are by table. ``by`` is the kind of subject.
    ``requested`` are the subjects that were requested with ``options``, ``covered`` has the time of each answer. If
    ``final``, the rows are about a past that does not change, and rows fetched before the instant are no answers.
    """
    as_of = parse_partition(place[2])
    new = {name: rows.slice(0, 0) for name, rows in before.items()} | dict(new)
    revised = [rows for rows in (before.get(REVISIONS), new.pop(REVISIONS, None)) if rows is not None]
    kept = frozenset() if old is None else old.answered
    if old is not None and None not in (old.options, options) and old.options != options:
        kept = frozenset()  # a partition has one set of options: other subjects must be fetched again
    early = fetched_early(new, as_of, by) if final else frozenset()
    column = SUBJECT_COLUMNS[by]
    own = {name: rows for name, rows in new.items() if name != FAILURES}
    revisions = pa.concat_tables([empty(REVISIONS), *revised])
    answered = {subject: at for subject, at in covered.items() if subject not in early}
    answers: dict[str, list[datetime]] = {}
    if old is not None:
        known = {name: rows for name, rows in before.items() if name not in SIDE_TABLES}
        if final:
            known = {name: _fetched_since(rows, as_of) for name, rows in known.items()}
        held = Rows(known, revisions, old.answers)
        again = {subject: answered.pop(subject) for subject in repeated(column, held, answered)}
        about = {"family": place[0], "chain": place[1], "as_of": as_of}
        after = with_answers(about, column, held, own, again, lacking)
        own, revisions, answers = dict(after.tables), after.revisions, dict(after.answers)
    answers |= {subject: [answered[subject]] for subject in _without_rows(own, column, answered)}
    tables = {
        name: merged(before.get(name), rows, subject_column(name, by), requested if name == FAILURES else covered)
        for name, rows in {FAILURES: new[FAILURES], **own}.items()
    }
    order = [(name, "ascending") for name in ("subject", "table_name", "fetched_at")]
    tables[REVISIONS] = revisions.sort_by(order)
    return tables, answers, (kept | covered.keys()) - early


def _without_rows(tables: Mapping[str, pa.Table], column: str, subjects: Collection[str]) -> set[str]:
    """Return the subjects that have no row in any table; ``column`` is the column with a row's subject."""
    left = set(subjects)
    for rows in tables.values():
        if left and rows.num_rows:
            left -= {*pc.unique(rows[column]).to_pylist()}
    return left


def _fetched_since(rows: pa.Table, as_of: datetime) -> pa.Table:
    """Return the rows that were fetched at ``as_of`` or later."""
    if not rows.num_rows or pc.min(rows["fetched_at"]).as_py() >= as_of:
        return rows
    return rows.filter(pc.greater_equal(rows["fetched_at"], as_of))


def options_after_write(
    old: Manifest | None, given: Mapping[str, Any] | None, covered: Collection[str]
) -> dict[str, Any] | None:
    """Return the request options of all covered subjects; None if older rows with unknown options are kept."""
    if given is None:
        return None if old is None else old.options
    is_known = old is None or old.options is not None or old.answered <= frozenset(covered)
    return dict(given) if is_known else None


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
    because they repeat. Only the first two columns (instant, subject) get statistics, because readers skip files by
    them; statistics of all columns would cost a tenth more time.
    """
    rows = rows.drop_columns("chain")
    repeating = [field.name for field in rows.schema if pa.types.is_string(field.type) or field.name in _INSTANTS]
    sink = io.BytesIO()  # its bytes are not copied, unlike those of a stream of Arrow
    statistics = rows.schema.names[:2]
    pq.write_table(rows, sink, compression="zstd", use_dictionary=repeating, write_statistics=statistics)
    return sink.getvalue()


def from_parquet(table: str, data: bytes, chain: str) -> pa.Table:
    """Decode the Parquet bytes of a table's file of one chain. Returns an empty table for empty bytes."""
    if not data:
        return empty(table)
    rows = pq.ParquetFile(pa.BufferReader(data)).read()
    if "chain" not in rows.column_names:  # format 1 has it
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
    return None if rows.num_rows == listed else f"has {rows.num_rows:,} rows, and its manifest lists {listed:,}"


def lacking(table: str, data: bytes, path: Path) -> frozenset[str]:
    """Return the columns of a table that its file (Parquet bytes) of an older version lacks; none for empty bytes.

    Raises ``LakeError``, with ``path``, for a file with a column of a later version: a write would remove that column.
    """
    if not data:
        return frozenset()
    found = frozenset(pq.ParquetFile(pa.BufferReader(data)).schema_arrow.names)
    own = frozenset(TABLES[table].schema.names) - {"chain"}
    found -= {"chain"}
    if found - own:
        raise LakeError(
            f"{path} has the column {min(found - own)!r}, which this version does not know: "
            "install the latest version of Holderlake"
        )
    return own - found


def _by_subject(rows: pa.Table, subject: str) -> pa.Table:
    """Sort rows by the column ``subject``; rows of one subject keep their order."""
    blocks: list[tuple[str, int, int]] = []  # subject, first row and row after the last
    first = 0
    for chunk in rows[subject].chunks:
        runs = pc.run_end_encode(chunk)
        ends = [first + end for end in runs.run_ends.to_pylist()]
        blocks += zip(runs.values.to_pylist(), [first, *ends], ends, strict=False)
        first += len(chunk)
    if len(blocks) * _LONG_RUN >= rows.num_rows:
        return rows.take(pc.sort_indices(rows, sort_keys=[(subject, "ascending")]))
    return pa.concat_tables([rows.slice(start, end - start) for _, start, end in sorted(blocks)])
