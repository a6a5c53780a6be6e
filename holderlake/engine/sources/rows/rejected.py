"""The invalid rows of a file, with their values and reasons."""

from __future__ import annotations

from typing import Any, Final

import pyarrow.compute as pc

from holderlake.engine.sources.rows.problems import Rejected, RejectedRow
from holderlake.engine.sources.rows.raw import RawTable


def rejected_rows(raw: RawTable) -> Rejected | None:
    """Return the invalid rows of a file with their values and reasons, or None if all rows are valid."""
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
    """Return a value that JSON writes without loss: bytes as hexadecimal text, integers and other types as text."""
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, bool) or not isinstance(value, int):
        return value if isinstance(value, _PLAIN) else str(value)
    return str(value)
