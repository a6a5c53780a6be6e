"""Where entities read from: the user's own store, or files of transfers and labels."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

from holderlake.contract.chains import BURN_ADDRESSES
from holderlake.engine.store.store import Store
from holderlake.entities.links import MARKED

_EXCHANGE_COLUMNS: Final = {
    "is_exchange": "is_exchange",
    "is_cex": "is_cex",
    "kind": "kind IN ('exchange', 'cex')",
    "type": "type IN ('exchange', 'cex')",
}
"""The columns that tell exchanges from other labels, each with its condition in SQL. The first one present counts."""


def store_files(store: Store) -> list[str]:
    """Return the files of all transfers of a store."""
    return store.files((one.chain, one.token_address) for one in store.histories())


def store_marks(store: Store) -> pa.Table:
    """Return the addresses with a label, token contracts and burn addresses of a store, in the schema ``MARKED``."""
    marked = store.marked_addresses()
    return pa.table([list(marked), [label.is_cex or label.is_dex for label in marked.values()]], MARKED)


def file_marks(path: Path | None) -> pa.Table:
    """Return the addresses of a Parquet or CSV file of labels, and burn addresses, in the schema ``MARKED``.

    The file has the column ``address``, and may have ``is_exchange``, ``is_cex``, ``kind`` or ``type``, whose values
    ``exchange`` and ``cex`` mean an exchange. Without a file, only burn addresses are marked. Raises ``ValueError`` if
    the file has no column ``address``.
    """
    burns = pa.table([list(BURN_ADDRESSES), [False] * len(BURN_ADDRESSES)], MARKED)
    if path is None:
        return burns
    with duckdb.connect() as database:
        read = database.read_csv if path.name.endswith((".csv", ".csv.gz")) else database.read_parquet
        labels = read(str(path))
        if "address" not in labels.columns:
            raise ValueError(f"{path} has no column address")
        exchange = next((sql for name, sql in _EXCHANGE_COLUMNS.items() if name in labels.columns), "false")
        rows = labels.filter("address IS NOT NULL").project(
            "CASE WHEN address ILIKE '0x%' THEN lower(address) ELSE address END AS address, "
            f"coalesce({exchange}, false) AS is_exchange"
        )
        return pa.concat_tables([burns, rows.to_arrow_table().cast(MARKED)])
