"""The transfers that reorganisations of chains undid, in the store's file ``undone.parquet``."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from holderlake.core.storage.atomic_files import whole_file
from holderlake.core.storage.locks import locked
from holderlake.engine.files.listing import OPENING
from holderlake.engine.records import TRANSFERS
from holderlake.engine.store.store import Store

UNDONE: Final = pa.schema([*TRANSFERS, pa.field("undone_at", pa.timestamp("us"), nullable=False)])
"""Columns of the file: those of transfers, and when the import found that the chain had replaced their block (UTC)."""
MOST_ROWS: Final = 200_000
"""The file keeps this number of its newest rows."""
_FILE: Final = "undone.parquet"


def read_undone(root: Path) -> pa.Table:
    """Return the undone transfers of the store ``root`` (schema ``UNDONE``), the oldest first."""
    path = root / _FILE
    return pq.read_table(path, schema=UNDONE) if path.exists() else UNDONE.empty_table()


def record_undone(store: Store, chain: str, block: int, undone_at: datetime) -> None:
    """Copy the stored transfers of the chain's blocks after ``block`` into the file. Call it before they are removed.

    If the process ends before it removes them, the next call replaces the copies.
    """
    listing = store.view().listing
    parts = [
        store.root / part.paths[0]
        for key in listing.numbers
        if key[0] == chain
        for part in listing.parts_of(key)
        if part.kind != OPENING and part.last_block > block
    ]
    later = pc.field("block_number") > block
    tables = [pq.read_table(path, columns=TRANSFERS.names, filters=later).cast(TRANSFERS) for path in parts]
    rows = pa.concat_tables([TRANSFERS.empty_table(), *tables])
    if not rows.num_rows:
        return
    times = pa.repeat(pa.scalar(undone_at, pa.timestamp("us")), rows.num_rows)
    with locked(store.root / f".{_FILE}.lock"):
        recorded = read_undone(store.root)
        is_repeated = pc.is_in(_keys(recorded), _keys(rows))
        table = pa.concat_tables(
            [recorded.filter(pc.invert(is_repeated)), rows.append_column(UNDONE.field("undone_at"), times)]
        )
        with whole_file(store.root / _FILE) as path:
            pq.write_table(table.slice(max(0, table.num_rows - MOST_ROWS)), path)


def undone_after(root: Path, chain: str, since: datetime) -> int | None:
    """Return the last block before those of the chain that were undone at ``since`` (naive UTC) or later.

    None if there were none.
    """
    rows = read_undone(root)
    rows = rows.filter((pc.field("chain") == chain) & (pc.field("undone_at") >= since))
    return pc.min(rows["block_number"]).as_py() - 1 if rows.num_rows else None


def _keys(rows: pa.Table) -> pa.ChunkedArray:
    """Return a text for each row that identifies its event. A transaction may be in two blocks, so these count too."""
    parts = [rows[name].cast(pa.string()).fill_null("") for name in ("chain", "block_number", "tx_hash", "log_index")]
    return pc.binary_join_element_wise(*parts, rows["token_id"].fill_null(""), " ")
