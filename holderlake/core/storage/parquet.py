"""Faults of Parquet files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def parquet_fault(path: Path, *, every_byte: bool = True) -> str | None:
    """Return the fault of a Parquet file as text, None without one. Without ``every_byte``, read its footer only."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for _ in file.iter_batches() if every_byte else ():
                pass
    except (pa.ArrowException, OSError, ValueError) as error:
        return str(error).strip().splitlines()[0]
    return None
