"""The table ``comparisons``: differences between two homes that ``holderlake compare --keep`` found.

Each pair of homes has one Parquet file in the folder ``comparisons`` next to the warehouse; a load of the warehouse
copies their rows.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from holderlake.core.contract.tables import INSTANT_TYPE, Table, column
from holderlake.core.storage.atomic_files import whole_file
from holderlake.core.storage.parquet import parquet_fault

REMEDY: Final = "'holderlake home rebuild --damaged' moves it away; 'holderlake compare --keep' makes it again"
"""How a damaged file of the table is repaired."""
TABLE: Final = Table(
    "comparisons",
    "a difference between two sources about a token at an instant, or equal, if there is none",
    pa.schema(
        [
            column("chain", pa.string(), "Chain id"),
            column("as_of", INSTANT_TYPE, "The instant of both sources, UTC"),
            column("token_address", pa.string(), "The token's contract address, or native"),
            column("source_a", pa.string(), "Name of the first source"),
            column("source_b", pa.string(), "Name of the second source"),
            column("what", pa.string(), "holder, amount, share, rank, label, relationship, cluster, score, or equal"),
            column(
                "subject",
                pa.string(),
                "An address, two addresses (and token, chain and kind of the transfers if others), a cluster's "
                "first members, or empty: all holders, the score",
            ),
            column("a", pa.string(), "Value of the first source as text; null if it has none", required=False),
            column("b", pa.string(), "Value of the second source as text; null if it has none", required=False),
            column(
                "cause",
                pa.string(),
                "transfers, other decimals, other supply, other labels, other thresholds, other limits, ties, "
                "lateness, unexplained, or none if equal",
            ),
            column("compared_at", INSTANT_TYPE, "Time of the comparison, UTC"),
        ]
    ),
    ("chain", "as_of", "token_address", "source_a", "source_b", "what", "subject"),
)


def keep(folder: Path, homes: tuple[Path, Path], rows: pa.Table, compared_at: datetime) -> Path:
    """Write the rows of one comparison, in place of the last one of the same two homes. Return the file.

    ``homes`` are absolute folders. Sources have the names of the folders, or their paths if these two, or those of
    another comparison, have the same names. ``rows`` has the columns of ``TABLE`` from ``chain`` to ``cause``, without
    the sources, and ``timestamp`` for ``as_of``. ``compared_at`` is naive UTC.
    """
    paths = (str(homes[0]), str(homes[1]))
    file = folder / f"{hashlib.sha256(repr(paths).encode()).hexdigest()[:16]}.parquet"
    names = (homes[0].name, homes[1].name)
    if names[0] == names[1] or names in _source_names(folder, file):
        names = paths
    values = {"source_a": names[0], "source_b": names[1], "compared_at": compared_at}
    table = rows.rename_columns(["as_of" if name == "timestamp" else name for name in rows.column_names])
    for name, value in values.items():
        field = TABLE.schema.field(name)
        table = table.append_column(field, pa.repeat(pa.scalar(value, field.type), table.num_rows))
    folder.mkdir(parents=True, exist_ok=True)
    with whole_file(file) as path:
        rows = table.select(TABLE.schema.names).cast(TABLE.schema)
        pq.write_table(rows, path, write_page_checksum=True, write_statistics=False)
    return file


def _source_names(folder: Path, own_path: Path) -> set[tuple[str, str]]:
    """Return the names of the two sources in each other file of the folder."""
    other_files = (path for path in folder.glob("*.parquet") if path != own_path and not parquet_fault(path))
    firsts = [pq.read_table(path, columns=["source_a", "source_b"]).slice(0, 1) for path in other_files]
    return {(row["source_a"], row["source_b"]) for rows in firsts for row in rows.to_pylist()}
