"""Read transfer files: our own layout, exports of tools and explorers, event logs, and files with a column map.

Known layouts are presets, which are column maps (``mapping``); ``layouts`` makes the rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from holderlake.core.contract.chains import NATIVE, ZERO_ADDRESS
from holderlake.engine.errors import BadSource
from holderlake.engine.records import TRANSFERS, Key
from holderlake.sources.files import columns
from holderlake.sources.files.columns import CHAIN_COLUMNS, NO_CHAIN
from holderlake.sources.files.event_logs import LOG_COLUMNS, decoded_logs
from holderlake.sources.files.layouts import DECIMALS, NO_TIMES, TIME_COLUMNS, read_holderlake, with_log_indexes
from holderlake.sources.files.mapping import (
    FAILED,
    PRESETS,
    ColumnMap,
    Preset,
    mapped,
    missing_columns,
    missing_options,
    missing_text,
    preset_for,
    presets_of,
    suggestion,
    with_item_values,
    with_times,
)
from holderlake.sources.files.undone import noted_hashes, without_undone
from holderlake.sources.files.values import note_ambiguous, without_separators
from holderlake.sources.formats import first_spelt, folded_name, spellings
from holderlake.sources.problems import Rejected
from holderlake.sources.raw_rows import RawTable, listed, nested_column, rejected_rows, rows_where

FORMATS: Final = tuple(dict.fromkeys(preset.format for preset in PRESETS))
"""The names of formats, for ``FileOptions.format``."""


@dataclass(frozen=True)
class FileOptions:
    """Options for reading a file.

    - ``format`` is one of ``FORMATS``; None means that the file's columns decide.
    - ``chain`` is the chain of a file without a chain column.
    - ``block_times`` (unix seconds by block) replace the times in the file.
    - ``rows_at`` is the dotted path to the rows in a JSON file.
    - ``thousands`` is the character that separates thousands in numbers. With a point, the comma is the decimal mark.
    - ``empty_is_zero``: an empty sender means a mint, an empty receiver a burn.
    """

    format: str | None = None
    chain: str | None = None
    column_map: ColumnMap = field(default_factory=ColumnMap)
    block_times: Mapping[int, int] = field(default_factory=dict)
    rows_at: str | None = None
    thousands: str | None = None
    empty_is_zero: bool = False


@dataclass(frozen=True)
class FileTransfers:
    """The transfers of a file, in the file's order, and its invalid rows (``rejected``; None if there are none).

    ``passed_over`` is the number of rows that are not transfers. ``wrong_checksums`` is the number of distinct
    addresses with a wrong checksum in their upper and lower case letters (EIP-55). They are read in lower case.
    ``partly_indexed`` has the number of Transfer events with one indexed address by token; they are passed over.
    ``decimals`` are those that the file states, by chain and token. ``notices`` are further sentences about the file.
    ``block_hashes`` has chain, block number and hash of each row as text; None if the file has no hashes.
    """

    transfers: pa.Table
    rejected: Rejected | None
    passed_over: int
    wrong_checksums: int
    partly_indexed: Mapping[str, int] = field(default_factory=dict)
    decimals: Mapping[Key, int] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    block_hashes: pa.Table | None = None


def transfers_of(raw: RawTable, options: FileOptions) -> FileTransfers:
    """Return the transfers of a file, in the schema ``records.TRANSFERS``, and its invalid rows.

    A file with only a header has no rows. Raises ``BadSource`` for a file of another kind.
    """
    if not raw.columns:  # JSON without an object
        return FileTransfers(TRANSFERS.empty_table(), None, 0, 0)
    raw = _adjusted(_recognised(without_undone(_unprefixed(raw, options)), options), options)
    hashes = noted_hashes(raw)
    if options.block_times:
        raw = with_times(raw, options.block_times)
    absent = _absent(raw.columns, replace(options, block_times={}))
    if absent:
        raise raw.bad("; ".join(absent))
    transfers = read_holderlake(raw, options.chain)
    return FileTransfers(
        transfers,
        rejected_rows(raw),
        raw.passed_over,
        raw.problems.wrong_checksums,
        raw.partly_indexed,
        _stated_decimals(raw, transfers),
        (*raw.notices, *_units_in_doubt(raw, options.column_map)),
        hashes,
    )


def _stated_decimals(raw: RawTable, transfers: pa.Table) -> dict[Key, int]:
    """Return the decimals of each token of which the file states one number."""
    name = raw.first_of(DECIMALS, "token_decimals")
    if name is None:
        return {}
    texts = raw.table[name].cast(pa.string())
    if raw.problems.reasons:
        texts = texts.filter(pc.invert(raw.problems.bad_rows(raw.table.num_rows)))
    return columns.decimals_by_token(transfers["chain"], transfers["token_address"], texts)


def _units_in_doubt(raw: RawTable, column_map: ColumnMap) -> list[str]:
    """Return a sentence if the amounts that are read as token units may be raw, because none has a fraction."""
    name = column_map.columns.get(DECIMALS)
    if name is None or not pa.types.is_string(raw.table["value"].type):
        return []
    if not pc.all(pc.match_substring_regex(raw.table["value"], r"^\s*[0-9]{4,}\s*$")).as_py():
        return []
    return [
        f"{raw.path.name}: --map decimals={name} reads the amounts as token units, but none has a fraction. If they "
        f"are raw, import the file into a new home with --map token_decimals={name}"
    ]


def _unprefixed(raw: RawTable, options: FileOptions) -> RawTable:
    """Return the file without a prefix of its columns, such as ``result.``, if it then has a known layout."""
    prefixes = dict.fromkeys(name.rpartition(".")[0] for name in raw.columns if "." in name)
    if options.column_map or _is_known(raw.columns, options):
        return raw
    for prefix in prefixes:
        begin = f"{prefix}."
        inner = {name.removeprefix(begin): name for name in raw.columns if name.startswith(begin)}
        if _is_known(inner, options):
            outer = {name: name for name in raw.columns if not name.startswith(begin) and name not in inner}
            table = raw.table.select([*inner.values(), *outer.values()]).rename_columns([*inner, *outer])
            return raw.over(table)
    return raw


def _is_known(names: Collection[str], options: FileOptions) -> bool:
    return preset_for(names, ColumnMap(), options.format) is not None


def _recognised(raw: RawTable, options: FileOptions) -> RawTable:
    """Return the file with our column names; of event logs and of the chain's coin, the rows that are transfers."""
    preset, column_map = _map_of(raw, options)
    if preset is not None:
        raw = replace(_only(raw, preset.only), is_evm=preset.is_evm)
    raw = mapped(_without_failed(raw, column_map), column_map)
    if DECIMALS in raw.columns and not {DECIMALS, "token_decimals"} & {*column_map.columns, *column_map.constants}:
        names = ["token_decimals" if name == DECIMALS else name for name in raw.columns]  # amounts are raw then
        raw = raw.over(raw.table.rename_columns(names))
    if set(raw.columns) >= LOG_COLUMNS:
        return decoded_logs(raw)
    raw = with_item_values(raw)
    if preset is not None and preset.native:
        raw = _with_coin(raw, preset.native)
    if preset is not None and preset.constants.get("token_address") == NATIVE:
        raw = with_log_indexes(raw)
    missing = missing_columns(raw.columns, ColumnMap())
    if missing:
        raise raw.bad("; ".join([missing_text(raw.columns, missing), *_absent(raw.columns, options)]))
    return raw


def _with_coin(raw: RawTable, values: Sequence[str]) -> RawTable:
    """Return the file with ``native`` in the rows whose token is one of ``values``."""
    tokens = raw.table["token_address"].cast(pa.string())
    is_coin = pc.is_in(pc.fill_null(tokens, ""), pa.array(values))
    place = raw.columns.index("token_address")
    return raw.over(raw.table.set_column(place, "token_address", pc.if_else(is_coin, NATIVE, tokens)))


def _map_of(raw: RawTable, options: FileOptions) -> tuple[Preset | None, ColumnMap]:
    """Recognise a file: return its preset, if it has one, and its column map.

    Raises ``BadSource`` with the options that would help.
    """
    names, format, column_map = raw.columns, options.format, options.column_map
    if format is not None and format not in FORMATS:
        raise raw.bad(f"unknown format {format!r}; use one of {', '.join(FORMATS)}, or leave it out to detect it")
    if column_map and not missing_columns((), column_map):  # a complete map needs no preset
        return None, column_map
    preset = preset_for(names, column_map, format)
    if preset is not None:
        return preset
    if column_map and (not missing_columns(names, column_map) or not missing_options(names, column_map, format)[0]):
        return None, column_map
    raise _unknown(raw, options)


def _without_failed(raw: RawTable, column_map: ColumnMap) -> RawTable:
    """Return the file without the rows of failed transactions. A column that the map uses has another meaning."""
    is_kept = pa.repeat(True, raw.table.num_rows)
    spelt = spellings(raw.columns)
    for usual_name, values in FAILED.items():
        name = spelt.get(folded_name(usual_name))
        if name is not None and name not in column_map.columns.values():
            texts = pc.utf8_lower(pc.utf8_trim_whitespace(raw.table.column(name).cast(pa.string())))
            is_failed = pc.is_in(texts, pa.array(values)).combine_chunks()
            is_kept = pc.and_(is_kept, pc.invert(is_failed))
    return rows_where(raw, is_kept)


def _only(raw: RawTable, only: Mapping[str, Sequence[str]]) -> RawTable:
    """Return the rows that have one of the allowed values in each column of ``only``.

    Upper and lower case are equal. A column of ``only`` that the file lacks allows all rows.
    """
    spelt = spellings(raw.columns)
    is_kept = pa.repeat(True, raw.table.num_rows)
    for name, values in only.items():
        if folded_name(name) in spelt:
            texts = pc.utf8_lower(raw.table.column(spelt[folded_name(name)]).cast(pa.string()))
            is_kept = pc.and_(is_kept, pc.is_in(texts, pa.array(values)).combine_chunks())
    return rows_where(raw, is_kept)


def _adjusted(raw: RawTable, options: FileOptions) -> RawTable:
    """Apply the options ``thousands`` and ``empty_is_zero`` to a file with our column names.

    ``empty_is_zero`` replaces missing addresses with the zero address.
    """
    if options.thousands:
        for name in sorted(_NUMBERS & set(raw.columns)):
            raw = without_separators(raw, name, options.thousands)
    else:
        note_ambiguous(raw, _NUMBERS)
    if not options.empty_is_zero:
        return raw
    table = raw.table
    for name in {"from_address", "to_address"} & set(raw.columns):
        column = table.column(name)
        if pa.types.is_string(column.type):
            is_empty = pc.match_substring_regex(pc.utf8_trim_whitespace(column), r"(?i)^(|null|none|nan|\\n)$")
            filled_column = pc.if_else(pc.fill_null(is_empty, True), ZERO_ADDRESS, column)
            table = table.set_column(table.column_names.index(name), name, filled_column)
    return raw.over(table)


_NUMBERS: Final = frozenset({"value", "amount", "token_id", "block_number", "log_index"})


def _absent(names: Collection[str], options: FileOptions) -> list[str]:
    """Return a sentence if neither the columns ``names`` nor the options give the chain, and one for the times."""
    has_chain = options.chain is not None or not set(CHAIN_COLUMNS).isdisjoint(names)
    has_times = bool(options.block_times) or not set(TIME_COLUMNS).isdisjoint(names)
    return [*([] if has_chain else [NO_CHAIN]), *([] if has_times else [NO_TIMES])]


def _unknown(raw: RawTable, options: FileOptions) -> BadSource:
    names, format = raw.columns, options.format
    sentence, columns = missing_options(names, options.column_map, format)
    if sentence:
        sentences = "; ".join([sentence, *_absent([*names, *columns], options)])
        return raw.bad(f"{sentences}. Columns seen: {listed(names)}")
    nested = nested_column(raw)
    if nested:
        rows_at = f"{options.rows_at}.{nested}" if options.rows_at else nested
        return raw.bad(f"column {nested} has lists; if they are the rows, add --rows {rows_at}")
    presets = presets_of(format)
    possible = [preset for preset in presets if first_spelt(names, preset.lacks) is None] or presets
    lacking = [(preset.title, preset.lacking(names)) for preset in possible]
    titles = ", ".join(sorted({preset.title for preset in presets}))
    nearest, lacked = min(lacking, key=lambda one: len(one[1]) or len(names))
    by_names = suggestion(names, options.rows_at) or "--map OURS=THEIRS for each of our columns"
    if NO_CHAIN in _absent([*names, *options.column_map.columns, *options.column_map.constants], options):
        by_names += " --chain CHAIN"
    return raw.bad(
        f"unknown layout; the nearest is {nearest}, which also needs {', '.join(lacked)}. Map its columns, for example "
        f"with {by_names} (and --set OURS=VALUE for constant values). Columns seen: {listed(names)}. "
        f"Known layouts: {titles}"
    )
