"""Files of any columns: which of them are which of ours, what the others always are, and where blocks' times stand.

A mapped file is read as our own layout, so it may be of any chain; what is exact in it stays exact.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import BadSource
from engine.records import TRANSFERS
from engine.sources import columns
from engine.sources.raw import RawTable, bad_source, read_raw

_NEEDED: Final = ("token_address", "from_address", "to_address", "value", "block_number", "block_time")
_DEFAULTS: Final = {"token_standard": "erc20"}
_BLOCKS: Final = ("block_number", "number")
_TIMES: Final = ("timestamp", "block_timestamp", "block_time")


@dataclass(frozen=True)
class ColumnMap:
    """``columns``: our column to the file's. ``constants``: our column to what it is in every row."""

    columns: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.columns or self.constants)

    def over(self, below: ColumnMap) -> ColumnMap:
        """Both together; what stands here wins."""
        constants = {name: value for name, value in below.constants.items() if name not in self.columns}
        named = {name: value for name, value in below.columns.items() if name not in self.constants}
        return ColumnMap({**named, **self.columns}, {**constants, **self.constants})


def parse_map(pairs: Iterable[str], constants: Iterable[str]) -> ColumnMap:
    """A map of texts ``ours=theirs`` and ``ours=value``. Raises ``BadSource`` on another text or an unknown column."""
    return _checked(ColumnMap(dict(map(_pair, pairs)), dict(map(_pair, constants))))


def read_map(path: Path) -> ColumnMap:
    """A map of a TOML file with tables ``columns`` and ``constants``. Raises ``BadSource`` on another content."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise bad_source(path, f"the map can't be read: {error}") from error
    tables = {name: content.pop(name, {}) for name in ("columns", "constants")}
    for name, table in tables.items():
        if not isinstance(table, dict) or not all(isinstance(value, str | int) for value in table.values()):
            raise bad_source(path, f'[{name}] is to be lines such as from_address = "sender"')
    if content:
        raise bad_source(path, f"{sorted(content)[0]} is no part of a map; there are [columns] and [constants]")
    columns_, constants = ({own: str(value) for own, value in table.items()} for table in tables.values())
    return _checked(ColumnMap(columns_, constants))


def mapped(raw: RawTable, chosen: ColumnMap) -> RawTable:
    """The file under our names. Columns that are not mapped keep their own name.

    Without a log index rows count within their block, in the file's order. Raises ``BadSource`` where a column of the
    map is not in the file, or one that transfers need is neither there nor in the map.
    """
    for own, theirs in chosen.columns.items():
        if theirs not in raw.columns:
            raise raw.bad(f"{own} is mapped to column {theirs}, which is not there; there are {', '.join(raw.columns)}")
    taken = {*chosen.columns, *chosen.constants, *chosen.columns.values()}
    if "block_time" in taken:
        taken |= set(_TIMES)  # whatever else the file calls a time is not meant
    found = {name: raw.table.column(name) for name in raw.columns if name not in taken}
    found |= {own: raw.table.column(theirs) for own, theirs in chosen.columns.items()}
    constants = {name: value for name, value in _DEFAULTS.items() if name not in found} | dict(chosen.constants)
    found |= {own: pa.repeat(value, raw.table.num_rows) for own, value in constants.items()}
    return _with_places(RawTable(raw.path, pa.table(found)))


def with_times(raw: RawTable, blocks: Mapping[int, int]) -> RawTable:
    """The file with a column ``block_timestamp`` of the blocks' times, which replaces its own times.

    Raises ``BadSource`` at the first row whose block has none.
    """
    name = raw.first_of(*_BLOCKS)
    if name is None:
        raise raw.bad("there is no column block_number, by which blocks' times could be found")
    numbers = columns.counts(raw, name)
    found = pc.index_in(numbers, pa.array(list(blocks), pa.int64()))
    row = columns.first_row(pc.is_null(found))
    if row is not None:
        raise raw.bad(f"block {numbers[row]} is not among the blocks that were given", column=name, row=row)
    seconds = pa.array(list(blocks.values()), pa.int64()).take(found)
    kept = [own for own in raw.columns if own not in _TIMES]
    return RawTable(raw.path, raw.table.select(kept).append_column("block_timestamp", seconds))


def read_block_times(paths: Sequence[Path]) -> dict[int, int]:
    """Blocks' times (unix seconds) by number, of files of blocks (cryo's, ethereum-etl's, or with such columns).

    Raises ``BadSource`` where a file has no numbers or no times.
    """
    times: dict[int, int] = {}
    for path in paths:
        raw = read_raw(path)
        number, time = raw.first_of(*_BLOCKS), raw.first_of(*_TIMES)
        if number is None or time is None:
            raise raw.bad("a file of blocks needs the columns block_number (or number) and timestamp")
        times.update(zip(columns.counts(raw, number).to_pylist(), columns.times(raw, time).to_pylist(), strict=True))
    return times


def _with_places(raw: RawTable) -> RawTable:
    missing = [name for name in _NEEDED if name not in raw.columns and not (name == "block_time" and _has_time(raw))]
    if missing:
        raise raw.bad(
            f"{missing[0]} is missing; map a column to it (--map {missing[0]}=COLUMN) or set it "
            f"(--set {missing[0]}=VALUE). There are {', '.join(raw.columns)}"
        )
    table = raw.table
    rows = table.num_rows
    if "tx_hash" not in raw.columns:
        table = table.append_column("tx_hash", pa.nulls(rows, pa.string()))
    if "log_index" not in raw.columns:
        table = table.append_column("log_index", _places(columns.counts(raw, "block_number")))
        table = table.append_column("log_index_kind", pa.repeat("synthetic", rows))
    return RawTable(raw.path, table)


def _has_time(raw: RawTable) -> bool:
    return raw.first_of(*_TIMES) is not None


def _places(blocks: pa.Array) -> pa.Array:
    """Each row's place among those of its block."""
    seen: dict[int, int] = {}
    places = []
    for block in blocks.to_pylist():
        places.append(seen.get(block, 0))
        seen[block] = places[-1] + 1
    return pa.array(places, pa.int64())


def _pair(text: str) -> tuple[str, str]:
    own, equals, value = text.partition("=")
    if not equals or not value.strip():
        raise BadSource(f"{text!r} is not a column and what it is; write such as from_address=sender")
    return own.strip(), value.strip()


def _checked(chosen: ColumnMap) -> ColumnMap:
    for own in (*chosen.columns, *chosen.constants):
        if own not in TRANSFERS.names:
            raise BadSource(f"{own} is not a column of transfers; there are {', '.join(TRANSFERS.names)}")
    twice = sorted(chosen.columns.keys() & chosen.constants.keys())
    if twice:
        raise BadSource(f"{twice[0]} is both mapped and set; leave one of them")
    return chosen
