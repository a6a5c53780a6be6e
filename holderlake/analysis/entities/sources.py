"""The input of entities: the user's own store, or files of transfers and labels."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

from holderlake.analysis.entities.files import plain_text
from holderlake.analysis.entities.links import MARKED
from holderlake.core.contract.chains import BURN_ADDRESSES
from holderlake.engine.catalog.labels import marked_addresses
from holderlake.engine.errors import BadSource
from holderlake.engine.store.store import Store

_EXCHANGE_COLUMNS: Final = {
    "is_exchange": "TRY_CAST(is_exchange AS BOOLEAN)",
    "is_cex": "TRY_CAST(is_cex AS BOOLEAN)",
    "kind": "lower(CAST(kind AS VARCHAR)) IN ('exchange', 'cex')",
    "type": "lower(CAST(type AS VARCHAR)) IN ('exchange', 'cex')",
}
"""Columns that mark exchanges among labels, each with its condition in SQL. The first one present counts."""


def store_files(store: Store) -> list[str]:
    """Return the files of all transfers of a store."""
    return store.files((history.chain, history.token_address) for history in store.histories())


def store_marks(store: Store) -> pa.Table:
    """Return the addresses with a label, token contracts and burn addresses of a store, in the schema ``MARKED``."""
    marked = store.read(marked_addresses)
    return pa.table([list(marked), [label.is_cex for label in marked.values()]], MARKED)


def file_marks(path: Path | None) -> pa.Table:
    """Return the addresses of a Parquet or CSV file of labels, and burn addresses, in the schema ``MARKED``.

    The file has the column ``address``, and may have ``is_exchange``, ``is_cex``, ``kind`` or ``type``, whose values
    ``exchange`` and ``cex`` mean an exchange. Without a file, only burn addresses are marked. Raises ``BadSource`` if
    the file can't be read, or has no column ``address``.
    """
    burns = pa.table([list(BURN_ADDRESSES), [False] * len(BURN_ADDRESSES)], MARKED)
    if path is None:
        return burns
    with duckdb.connect() as database:
        try:
            if path.name.endswith((".csv", ".csv.gz")):
                labels = database.read_csv(str(path), header=True, all_varchar=True)
            else:
                labels = database.read_parquet(str(path))
            if "address" not in labels.columns:
                raise BadSource(f"{path} has no column address")
            exchange = next((sql for name, sql in _EXCHANGE_COLUMNS.items() if name in labels.columns), "false")
            rows = labels.filter("address IS NOT NULL").project(
                f"{plain_text('address')} AS address, coalesce({exchange}, false) AS is_exchange"
            )
            return pa.concat_tables([burns, rows.to_arrow_table().cast(MARKED)])
        except duckdb.Error as error:
            raise BadSource(f"{path} can't be read as labels: {str(error).splitlines()[0]}") from error
