"""Collect transfers and return them as a table of ``holderlake.engine.records.TRANSFERS``."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from holderlake.engine.records import TRANSFERS

_ROW_COLUMNS: Final = (
    "token_address",
    "token_standard",
    "from_address",
    "to_address",
    "value",
    "token_id",
    "block_number",
    "block_time",
    "tx_hash",
    "log_index",
)


Row = tuple[str, str, str, str, str, str | None, int, int, str, int]
"""A transfer: token, standard, sender, receiver, value, token id, block, unix second, transaction hash, log index.

Value and token id are decimal text.
"""


class Rows:
    """Collects transfers of one chain and source for a table. ``log_index_kind`` is the value of the column of
    this name in ``TRANSFERS``."""

    def __init__(self, chain: str, source: str, log_index_kind: str) -> None:
        self._constant = {
            "chain": chain,
            "time_kind": "exact",
            "log_index_kind": log_index_kind,
            "source": source,
        }
        self._rows: list[Row] = []
        self.add = self._rows.append
        """Add one transfer."""

    def table(self) -> pa.Table:
        """Return the collected transfers as a table of the schema ``TRANSFERS``."""
        if not self._rows:
            return TRANSFERS.empty_table()
        columns: dict[str, Any] = dict(zip(_ROW_COLUMNS, zip(*self._rows, strict=True), strict=True))
        columns |= {name: pa.repeat(value, len(self._rows)) for name, value in self._constant.items()}
        return pa.table([pa.array(columns[field.name], field.type) for field in TRANSFERS], schema=TRANSFERS)
