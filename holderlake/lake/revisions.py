"""Find rows that changed when the same instant was fetched again, by comparing the rows of both answers.

A later ``fetched_at`` or ``dt_update`` alone is not a change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from holderlake.contract.tables import TABLES, build

_TIMES_OF_THE_ANSWER: Final = frozenset({"fetched_at", "dt_update"})
_OPTIONS: Final = frozenset({"holder_limit", "use_magic_nodes", "use_time_nodes", "rules"})
"""Columns of the request options and the provider's rules. Rows of older versions lack them."""


def revisions(
    family: str,
    before: Mapping[str, pa.Table],
    after: Mapping[str, pa.Table],
    column: str,
    subjects: Collection[str],
    lacking: Mapping[str, Collection[str]],
) -> pa.Table:
    """Return rows of the table ``revisions``: one for each subject and table whose rows differ.

    ``before`` and ``after`` are a partition's rows by table; only those of ``subjects`` are compared. ``column`` is the
    name of the column with a row's subject. ``lacking`` are the columns, by table, that the files before did not have:
    they are not compared.
    """
    rows = [
        row
        for table in sorted(after if subjects else ())
        for subject in sorted(subjects)
        for row in _revised(
            family,
            table,
            subject,
            _of(before[table], column, subject),
            _of(after[table], column, subject),
            lacking.get(table, ()),
        )
    ]
    return pa.concat_tables([TABLES["revisions"].schema.empty_table(), *rows])


def _revised(
    family: str, table: str, subject: str, old: pa.Table, new: pa.Table, lacking: Collection[str]
) -> list[pa.Table]:
    same = set(lacking) | {
        name for name in _OPTIONS & set(old.column_names) if not (_is_known(old, name) and _is_known(new, name))
    }
    was, now = _counted(old, same), _counted(new, same)
    if was == now:
        return []
    some = new if new.num_rows else old
    row = {
        "chain": some["chain"][0].as_py(),
        "as_of": some["as_of"][0].as_py(),
        "family": family,
        "subject": subject,
        "table_name": table,
        "known_since": _latest(old),
        "rows_before": old.num_rows,
        "rows_after": new.num_rows,
        "rows_gone": (was - now).total(),
        "rows_new": (now - was).total(),
    }
    return [build(TABLES["revisions"], [row], _latest(new) or _latest(old))]


def _of(rows: pa.Table, column: str, subject: str) -> pa.Table:
    return rows.filter(pc.equal(rows[column], subject))


def _is_known(rows: pa.Table, name: str) -> bool:
    return bool(rows.num_rows) and not rows[name].null_count


def _counted(rows: pa.Table, same: Collection[str]) -> Counter[str]:
    """Return how often each row occurs, by its text without the columns ``same``.

    As text, 0.0 differs from -0.0, and null equals null.
    """
    compared = rows.drop_columns(list(set(rows.column_names) & {*_TIMES_OF_THE_ANSWER, *same}))
    return Counter(map(repr, compared.to_pylist()))


def _latest(rows: pa.Table) -> datetime | None:
    latest: Any = pc.max(rows["fetched_at"]).as_py()
    return latest if isinstance(latest, datetime) else None
