"""What changed in what we were told of a past instant: two answers about the same, compared row by row.

When it was learnt (``fetched_at``) and when the provider computed it (``dt_update``) is no difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from holderlake.contract.tables import TABLES, build

_TOLD_ANEW: Final = frozenset({"fetched_at", "dt_update"})
_OPTIONS: Final = frozenset({"holder_limit", "use_magic_nodes", "use_time_nodes", "rules"})
"""Columns of the request's options and the provider's rules; rows of older versions lack them."""


def revisions(
    family: str,
    before: Mapping[str, pa.Table],
    after: Mapping[str, pa.Table],
    column: str,
    subjects: Collection[str],
) -> pa.Table:
    """Rows of the table ``revisions``: a line for each subject and table whose rows differ.

    ``before`` and ``after`` hold a partition's rows by table, ``column`` names the subject of a row. Subjects without
    rows on both sides are left out.
    """
    rows = [
        row
        for table in sorted(after if subjects else ())
        for subject in sorted(subjects)
        for row in _revised(
            family, table, subject, _of(before[table], column, subject), _of(after[table], column, subject)
        )
    ]
    return pa.concat_tables([TABLES["revisions"].schema.empty_table(), *rows])


def _revised(family: str, table: str, subject: str, old: pa.Table, new: pa.Table) -> list[pa.Table]:
    same = {name for name in _OPTIONS & set(old.column_names) if not (_is_known(old, name) and _is_known(new, name))}
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
    """Count the rows as texts: 0.0 is not -0.0, and a null is itself. Columns in ``same`` make no difference."""
    told = rows.drop_columns([name for name in rows.column_names if name in _TOLD_ANEW or name in same])
    return Counter(map(repr, told.to_pylist()))


def _latest(rows: pa.Table) -> datetime | None:
    latest: Any = pc.max(rows["fetched_at"]).as_py()
    return latest if isinstance(latest, datetime) else None
