"""Encodes answers as JSON, Arrow or Parquet. The request's ``Accept`` header chooses the format."""

from __future__ import annotations

import io
from enum import Enum
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq


class Format(Enum):
    """Formats of answers; each value is the media type."""

    JSON = "application/json"
    ARROW = "application/vnd.apache.arrow.stream"
    PARQUET = "application/vnd.apache.parquet"


_TABULAR: Final = {Format.ARROW.value: Format.ARROW, Format.PARQUET.value: Format.PARQUET}


def format_of(accept: str | None) -> Format:
    """Return the format with the highest weight in an ``Accept`` header; JSON without a header.

    Arrow and Parquet are preferred to JSON of the same weight.
    """
    if not accept or "vnd.apache" not in accept.lower():
        return Format.JSON
    weights = dict(_weight(part) for part in accept.split(","))
    json = max(weights.get(name, 0.0) for name in ("application/json", "application/*", "*/*"))
    tabular = max(_TABULAR, key=lambda name: weights.get(name, 0.0))
    return _TABULAR[tabular] if weights.get(tabular, 0.0) > 0 and weights[tabular] >= json else Format.JSON


def _weight(part: str) -> tuple[str, float]:
    name, *parameters = (piece.strip().lower() for piece in part.split(";"))
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return name, min(1.0, max(0.0, float(parameter[2:])))
            except ValueError:
                return name, 0.0
    return name, 1.0


def table_bytes(table: pa.Table, form: Format) -> bytes:
    """Encode a table as an Arrow stream or a Parquet file."""
    sink = io.BytesIO()
    if form is Format.PARQUET:
        pq.write_table(table, sink, compression="zstd")
    else:
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
    return sink.getvalue()
