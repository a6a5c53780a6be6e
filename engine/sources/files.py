"""Transfers from files that people have: our own layout, ethereum-etl's CSV, cryo's Parquet, and any columns by a map.

The layouts themselves are in ``layouts``, maps in ``mapping``; reading from a chain's node belongs to its own source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from engine.errors import BadSource
from engine.sources.layouts import LAYOUTS, Layout
from engine.sources.mapping import ColumnMap, mapped, with_times
from engine.sources.raw import bad_source, read_columns, read_raw

FORMATS = tuple(dict.fromkeys(layout.format for layout in LAYOUTS))
"""The names that ``read_transfers`` takes and ``detect_format`` gives."""


def read_transfers(
    path: Path,
    format: str | None = None,
    chain: str | None = None,
    column_map: ColumnMap | None = None,
    block_times: Mapping[int, int] | None = None,
) -> pa.Table:
    """All transfers of the file in the schema ``engine.records.TRANSFERS``, in the file's order.

    ``format`` is one of ``FORMATS``, None to recognise it by the columns. ``chain`` names the chain of a file that
    does not. ``column_map`` reads a file of any columns as our own layout; ``block_times`` (unix seconds by block)
    stand in for times that the file lacks. A file with a header and no rows gives an empty table. Raises
    ``BadSource``, for the whole file at the first thing that can't be used.
    """
    raw = read_raw(path)
    if block_times:
        raw = with_times(raw, block_times)
    if column_map:
        raw, format = mapped(raw, column_map), "holderlake"
    return _layout_of(path, raw.columns, format).read(raw, chain)


def detect_format(path: Path) -> str:
    """The format of the file, one of ``FORMATS``. Raises ``BadSource`` where it is none of them."""
    return _layout_of(path, read_columns(path), None).format


def _layout_of(path: Path, names: Sequence[str], format: str | None) -> Layout:
    candidates = [layout for layout in LAYOUTS if format in (None, layout.format)]
    if not candidates:
        raise bad_source(path, f"{format!r} is no format; give one of {', '.join(FORMATS)}, or none to recognise it")
    for layout in candidates:
        if layout.needs <= set(names):
            return layout
    raise _unknown(path, names, candidates)


def _unknown(path: Path, names: Sequence[str], candidates: Sequence[Layout]) -> BadSource:
    known = {layout.title: layout for layout in reversed(candidates)}
    nearest = min(candidates, key=lambda layout: len(layout.needs - set(names)))
    return bad_source(
        path,
        f"the layout is not one that we know. Columns seen: {', '.join(names)}. Layouts known: "
        f"{', '.join(sorted(known))}. The nearest is {nearest.title}, which would need "
        f"{', '.join(sorted(nearest.needs - set(names)))} as well; rename or add columns",
    )
