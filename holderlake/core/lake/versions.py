"""Versions of a partition's rows: from which answer until which answer each row was known.

A row is known since the first answer with its content, until the next answer without it. A table has the rows that are
still known. Their ``fetched_at`` is the time of that first answer: a later answer with the same content only confirms
them. The table ``revisions`` has the other rows, as JSON in its column ``gone``. The manifest has the times of answers
that no row shows: answers without rows, and confirmations. The result does not depend on the order of the writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holderlake.core.contract.tables import TABLES

_ANSWER_TIMES: Final = ("fetched_at", "dt_update")
_SCHEMA: Final = TABLES["revisions"].schema
_TICK: Final = timedelta(microseconds=1)

Row = dict[str, Any]
Tables = Mapping[str, pa.Table]
"""Rows by table."""


@dataclass(frozen=True)
class VersionedRows:
    """Rows of a partition: ``tables`` has those known now, ``revisions`` the rows of the table of this name.

    ``answers`` are the times (naive UTC) of answers that no row shows, by subject.
    """

    tables: Tables
    revisions: pa.Table = field(default_factory=_SCHEMA.empty_table)
    answers: Mapping[str, list[datetime]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Answer:
    """An answer about one subject: its time ``at`` (naive UTC) and rows.

    ``about`` are the values that all rows of ``revisions`` about it have in common, and ``common`` the columns whose
    values all its rows have in common. ``uncompared`` are the columns of each table that do not belong to the content
    of a row.
    """

    about: Row
    common: frozenset[str]
    at: datetime
    tables: Tables
    uncompared: Mapping[str, Collection[str]]


class _Version(NamedTuple):
    """A row that was known from ``since`` until before ``until``; it is still known if ``until`` is None.

    ``content`` is JSON of the compared columns. ``values`` are the values by column as in JSON, without nulls.
    """

    content: bytes
    since: datetime
    until: datetime | None
    values: Row

    def is_known_at(self, time: datetime) -> bool:
        return self.since <= time and (self.until is None or time < self.until)


def repeated(column: str, partition: VersionedRows, covered: Collection[str]) -> set[str]:
    """Return the covered subjects about which there were answers before; ``column`` is the column with a row's subject.

    Pass them to ``with_answers``.
    """
    subjects = {*covered}
    known_subjects = {*partition.answers}.union(
        *(pc.unique(rows[column]).to_pylist() for rows in partition.tables.values() if rows.num_rows)
    )
    return subjects & known_subjects.union(pc.unique(partition.revisions["subject"]).to_pylist())


def with_answers(
    about: Row,
    column: str,
    partition: VersionedRows,
    new_rows: Tables,
    covered: Mapping[str, datetime],
    lacking: Mapping[str, Collection[str]],
) -> VersionedRows:
    """Return the rows of further answers, and of the older answers about the same subjects.

    - ``about``: the partition's ``family``, ``chain`` and ``as_of``.
    - ``column``: the column with a row's subject.
    - ``partition``: the partition before the write.
    - ``new_rows``: the rows of the new answers by table; ``covered``: the time of each subject's answer.
    - ``lacking``: the columns, by table, that the older files do not have. They are not compared.

    ``tables`` of the result have the rows of covered subjects only, and the other rows of ``new_rows``.
    """
    if not covered:
        return VersionedRows(new_rows, partition.revisions, partition.answers)
    was = {name: _by_subject(rows, column, covered) for name, rows in partition.tables.items()}
    revised = _by_subject(partition.revisions, "subject", covered)
    answers = dict(partition.answers)
    now = {name: _by_subject(rows, column, covered) for name, rows in new_rows.items()}
    common = frozenset({"chain", "as_of", column})
    parts = []
    for subject in sorted(covered):
        old_rows = {name: was.get(name, {}).get(subject, rows.slice(0, 0)) for name, rows in new_rows.items()}
        rows = {name: now[name].get(subject, every.slice(0, 0)) for name, every in new_rows.items()}
        uncompared = {
            name: common | {*_ANSWER_TIMES, *lacking.get(name, ())} | _unknown(old_rows[name], rows[name])
            for name in new_rows
        }
        answer = _Answer(about | {"subject": subject}, common, covered[subject], rows, uncompared)
        subject_rows = VersionedRows(
            old_rows, revised.get(subject, partition.revisions.slice(0, 0)), {subject: answers.pop(subject, [])}
        )
        parts.append(_with_answer(subject_rows, answer))
        answers |= {subject: times for subject, times in parts[-1].answers.items() if times}
    return VersionedRows(
        {
            name: _joined_rows(rows, column, covered, [part.tables[name] for part in parts])
            for name, rows in new_rows.items()
        },
        _joined_rows(partition.revisions, "subject", covered, [part.revisions for part in parts]),
        answers,
    )


def _with_answer(subject_rows: VersionedRows, answer: _Answer) -> VersionedRows:
    """Return the rows of a subject after an answer about it; ``subject_rows`` has the subject's rows before."""
    revisions = subject_rows.revisions.to_pylist()
    (noted,) = subject_rows.answers.values()
    times = sorted({*noted, *_shown_times(subject_rows.tables, revisions)})
    if times and times[-1] <= answer.at and _confirms(subject_rows.tables, answer):
        confirmed = {name: _with_times_of(subject_rows.tables[name], rows) for name, rows in answer.tables.items()}
        new_times = [] if answer.at in times else [answer.at]
        return VersionedRows(confirmed, subject_rows.revisions, {answer.about["subject"]: [*noted, *new_times]})
    old_versions = {name: [*_versions(answer, name, subject_rows.tables[name], revisions)] for name in answer.tables}
    new_contents = {name: [*_contents(answer, name, rows)] for name, rows in answer.tables.items()}
    at = _free_time(answer.at, times, old_versions, new_contents)
    order = sorted({*times, at})
    tables: dict[str, pa.Table] = {}
    rows: list[Row] = []
    for name, new_rows in answer.tables.items():
        new_versions = [*_with_version(old_versions[name], new_contents[name], order, at)]
        present = new_rows if at == order[-1] else subject_rows.tables[name]
        tables[name] = _dated(present, [content for content, _ in _contents(answer, name, present)], new_versions)
        rows += _revisions(answer.about | {"table_name": name}, new_versions, order)
    shown_times = _shown_times(tables, rows)
    times_left = [time for time in order if time not in shown_times]
    return VersionedRows(tables, pa.Table.from_pylist(rows, _SCHEMA), {answer.about["subject"]: times_left})


def _confirms(known_tables: Tables, answer: _Answer) -> bool:
    """Return whether an answer has the same content as the rows that are known."""
    return all(
        known_tables[name].select(compared).equals(rows.select(compared))
        for name, rows in answer.tables.items()
        if (compared := [column for column in rows.column_names if column not in answer.uncompared[name]])
    )


def _with_times_of(old_rows: pa.Table, new_rows: pa.Table) -> pa.Table:
    """Return ``new_rows`` with the answer times of ``old_rows``, which have the same content in the same order."""
    for name in _ANSWER_TIMES:
        if name in new_rows.column_names:
            place = new_rows.schema.get_field_index(name)
            new_rows = new_rows.set_column(place, new_rows.schema.field(place), old_rows[name])
    return new_rows


def _versions(answer: _Answer, name: str, present: pa.Table, revisions: Iterable[Row]) -> Iterator[_Version]:
    """Yield the versions of a table's rows: those of ``present`` and the rows that are gone."""
    for (content, values), since in zip(
        _contents(answer, name, present), present["fetched_at"].to_pylist(), strict=True
    ):
        yield _Version(content, since, None, values)
    for row in revisions:
        if row["table_name"] == name:
            for values in msgspec.json.decode(row["gone"]):
                since = datetime.fromisoformat(values["fetched_at"])
                yield _Version(_content(answer, name, values), since, row["fetched_at"], values)


def _contents(answer: _Answer, name: str, rows: pa.Table) -> Iterator[tuple[bytes, Row]]:
    """Yield content and values of each row (see ``_Version``)."""
    for row in rows.drop_columns([*answer.common]).to_pylist():
        values = {column: value for column, value in msgspec.to_builtins(row).items() if value is not None}
        yield _content(answer, name, values), values


def _content(answer: _Answer, name: str, values: Row) -> bytes:
    compared = {column: value for column, value in values.items() if column not in answer.uncompared[name]}
    return msgspec.json.encode(compared, order="deterministic")


def _free_time(
    at: datetime,
    times: Collection[datetime],
    versions_by_table: Mapping[str, Sequence[_Version]],
    contents_by_table: Mapping[str, Sequence[tuple[bytes, Row]]],
) -> datetime:
    """Return ``at``, or a time shortly after it if another answer with other rows has the time ``at``."""
    while at in times and any(
        Counter(content for content, _ in contents_by_table[name])
        != Counter(version.content for version in versions if version.is_known_at(at))
        for name, versions in versions_by_table.items()
    ):
        at += _TICK
    return at


def _with_version(
    versions: Sequence[_Version], contents: Sequence[tuple[bytes, Row]], order: Sequence[datetime], at: datetime
) -> Iterator[_Version]:
    """Yield a table's versions after an answer of the time ``at`` with these ``contents`` (content and values).

    ``order`` are the times of all answers about the subject, sorted.
    """
    counts = {time: Counter(version.content for version in versions if version.is_known_at(time)) for time in order}
    counts[at] = Counter(content for content, _ in contents)
    values_of: dict[bytes, dict[datetime, Row]] = {}
    for version in versions:
        values_of.setdefault(version.content, {})[version.since] = version.values
    for content, values in contents:
        values_of.setdefault(content, {})[at] = values
    for content, by_time in values_of.items():
        count = [counts[time][content] for time in order]
        for place in range(max(count)):
            for start, end in _runs([number > place for number in count]):
                values = by_time[max(time for time in by_time if time <= order[start])]
                since, until = order[start], order[end] if end < len(order) else None
                yield _Version(content, since, until, values | {"fetched_at": since.isoformat()})


def _runs(flags: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Yield the first index of each run of true flags, and the index after its last."""
    edges = np.flatnonzero(np.diff(np.array([False, *flags, False], np.int8)))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _dated(rows: pa.Table, contents: Sequence[bytes], versions: Iterable[_Version]) -> pa.Table:
    """Return rows with the times of the first answers that had them; ``contents`` are those of the rows, in order."""
    values_by_content: dict[bytes, list[Row]] = {}
    for version in versions:
        if version.until is None:
            values_by_content.setdefault(version.content, []).append(version.values)
    values = [values_by_content[content].pop(0) for content in contents]
    for name in _ANSWER_TIMES:
        if name in rows.column_names:
            place = rows.schema.get_field_index(name)
            dtype = rows.schema.field(place).type
            column = pa.array([row.get(name) for row in values], pa.string()).cast(dtype)
            rows = rows.set_column(place, rows.schema.field(place), column)
    return rows


def _revisions(about: Row, versions: Sequence[_Version], order: Sequence[datetime]) -> Iterator[Row]:
    """Yield the rows of ``revisions`` about one subject and table, from its versions."""
    began = order[0]
    for previous_time, time in pairwise(order):
        gone_rows = [version.values for version in versions if version.until == time]
        fresh = sum(version.since == time for version in versions)
        if gone_rows or fresh:
            yield about | {
                "known_since": began,
                "rows_before": sum(version.is_known_at(previous_time) for version in versions),
                "rows_after": sum(version.is_known_at(time) for version in versions),
                "rows_gone": len(gone_rows),
                "rows_new": fresh,
                "gone": msgspec.json.encode(gone_rows).decode(),
                "fetched_at": time,
            }
            began = time


def _shown_times(tables: Tables, revisions: Iterable[Row]) -> set[datetime]:
    """Return the times of answers that rows show: of rows that are known, and of rows that were."""
    times = {row[name] for row in revisions for name in ("known_since", "fetched_at")}
    return times.union(*(pc.unique(rows["fetched_at"]).to_pylist() for rows in tables.values()))


def _unknown(old_rows: pa.Table, new_rows: pa.Table) -> set[str]:
    """Return the column of the provider's rules if they are unknown for some rows; else no column."""
    is_unknown = "rules" in new_rows.column_names and any(rows["rules"].null_count for rows in (old_rows, new_rows))
    return {"rules"} if is_unknown else set()


def _by_subject(rows: pa.Table, column: str, subjects: Collection[str]) -> dict[str, pa.Table]:
    """Return the rows of some subjects, by subject and in order. Subjects without rows are left out."""
    if not rows.num_rows:
        return {}
    places = pc.index_in(rows[column], pa.array(sorted(subjects), pa.string())).fill_null(-1).to_numpy()
    order = np.argsort(places, kind="stable")
    order = order[places[order] >= 0]
    subject_rows = rows.take(order)
    names, starts = sorted(subjects), np.flatnonzero(np.diff(places[order], prepend=-1)).tolist()
    return {
        names[places[order[start]]]: subject_rows.slice(start, end - start)
        for start, end in pairwise([*starts, len(order)])
    }


def _without(rows: pa.Table, column: str, subjects: Collection[str]) -> pa.Table:
    excluded = pa.array(sorted(subjects), pa.string())
    return rows.filter(pc.invert(pc.is_in(rows[column], value_set=excluded)))


def _joined_rows(rows: pa.Table, column: str, subjects: Collection[str], parts: Sequence[pa.Table]) -> pa.Table:
    """Return ``rows`` with those of ``subjects`` replaced by ``parts``."""
    return pa.concat_tables([_without(rows, column, subjects), *parts])
