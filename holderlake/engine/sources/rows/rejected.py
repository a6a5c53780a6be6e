"""The rows of a file that cannot be read, with the values they have and the reason."""

from __future__ import annotations

from typing import Any, Final

import pyarrow.compute as pc

from holderlake.engine.sources.rows.problems import Rejected, RejectedRow
from holderlake.engine.sources.rows.raw import RawTable


def rejected_rows(raw: RawTable) -> Rejected | None:
    """The rejected rows of a table, None where there are none."""
    if not raw.problems.reasons:
        return None
    places = pc.indices_nonzero(raw.problems.bad_rows(raw.table.num_rows)).to_pylist()
    rows = (
        RejectedRow(
            raw.number(place),
            *raw.problems.of_row(place),
            {name: _plain(raw.table[name][place].as_py()) for name in raw.columns},
        )
        for place in places
    )
    return Rejected(raw.path, tuple(rows), raw.table.num_rows) if places else None


_PLAIN: Final = (str, int, float, bool, type(None))


def _plain(value: Any) -> Any:
    """A value as JSON holds it without losing a digit."""
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, bool) or not isinstance(value, int):
        return value if isinstance(value, _PLAIN) else str(value)
    return str(value)
