"""Transfers collected a column at a time, for a table of ``engine.records.TRANSFERS``."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from engine.records import TRANSFERS

_FILLED: Final = (
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


class Rows:
    """Rows of one chain and source; ``log_index_kind`` as in the records."""

    def __init__(self, chain: str, source: str, log_index_kind: str) -> None:
        self._constant = {
            "chain": chain,
            "time_kind": "exact",
            "log_index_kind": log_index_kind,
            "source": source,
        }
        self._rows: list[tuple[Any, ...]] = []

    def add(  # noqa: PLR0913, PLR0917 - a row has so many columns
        self,
        token: str,
        standard: str,
        sender: str,
        receiver: str,
        value: int,
        token_id: int | None,
        block: int,
        time: int,
        transaction: str,
        log_index: int,
    ) -> None:
        """Adds a transfer; raw integers, unix seconds."""
        item = None if token_id is None else str(token_id)
        self._rows.append((token, standard, sender, receiver, str(value), item, block, time, transaction, log_index))

    def table(self) -> pa.Table:
        """The rows so far."""
        if not self._rows:
            return TRANSFERS.empty_table()
        columns: dict[str, Any] = dict(zip(_FILLED, zip(*self._rows, strict=True), strict=True))
        columns |= {name: pa.repeat(value, len(self._rows)) for name, value in self._constant.items()}
        return pa.table([pa.array(columns[field.name], field.type) for field in TRANSFERS], schema=TRANSFERS)
