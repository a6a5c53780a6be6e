"""Column maps, presets and times of blocks. A column map renames a file's columns to our names, and sets constants.

Known layouts are presets: column maps in the table of formats. A mapped file may be of any chain, and amounts stay
exact. If a file of transfers has no times, they come from files of blocks.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from holderlake.engine.errors import BadSource
from holderlake.engine.records import TRANSFERS
from holderlake.sources.files import columns
from holderlake.sources.formats import FORMATS_TABLE, folded_name, spellings
from holderlake.sources.problems import bad_source
from holderlake.sources.raw_rows import RawTable, listed, read_raw, rejected_rows

_NEEDED: Final = ("token_address", "from_address", "to_address", "value", "block_number")
_OF_LOGS: Final = ("address", "topics", "data")
MAPPABLE_COLUMNS: Final = (*TRANSFERS.names, "decimals", "token_decimals", *_OF_LOGS)
"""Our columns that a column map may name: those of transfers and of event logs, and two of the token's decimals.

With ``decimals``, amounts are in token units. With ``token_decimals``, they are raw.
"""
_BLOCKS: Final = ("block_number", "number", "blockNumber", "result.number")
_TIMES: Final = ("timestamp", "block_timestamp", "block_time", "blockTimestamp", "timeStamp", "result.timestamp")
_OURS_ALONE: Final = ("source", "time_kind", "log_index_kind")
"""Those of our column names that other files use with other meanings. They count only if the column map names them."""
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_MOST_GUESSED: Final = 400
"""Columns of a file that are looked at for a suggestion."""
_NO_TOKENS: Final = frozenset({"", "0", "1", "true", "false"})
"""Values of a column, such as mint, that is a mark and no token."""
_GUESSES: Final[Mapping[str, Sequence[str]]] = FORMATS_TABLE["names"]["transfers"]
_TOKENS: Final = {folded_name(name) for name in ("token_address", *_GUESSES["token_address"])} - {"address"}
_USUAL_WORDS: Final[Mapping[str, Sequence[str]]] = FORMATS_TABLE["words"]


@dataclass(frozen=True)
class ColumnMap:
    """A column map: the file's column, or a constant value, for each of our columns.

    Both dictionaries have our column names as keys.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.columns or self.constants)

    def over(self, below: ColumnMap) -> ColumnMap:
        """Return a map with the entries of this map, and those of ``below`` for columns that this map lacks."""
        constants = {name: value for name, value in below.constants.items() if name not in self.columns}
        mapped_names = {name: value for name, value in below.columns.items() if name not in self.constants}
        return ColumnMap({**mapped_names, **self.columns}, {**constants, **self.constants})


def parse_map(
    pairs: Iterable[str], constants: Iterable[str], our_columns: Collection[str] = MAPPABLE_COLUMNS
) -> ColumnMap:
    """Return the column map from texts ``ours=theirs`` (``pairs``) and ``ours=value`` (``constants``).

    Raises ``BadSource`` for other texts, or for a column that is not one of ``our_columns``.
    """
    return _checked(ColumnMap(dict(map(_pair, pairs)), dict(map(_pair, constants))), our_columns)


def read_map(path: Path) -> ColumnMap:
    """Return the column map in a TOML file with the tables ``columns`` and ``constants``.

    Raises ``BadSource`` for any other file.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise bad_source(
            path, f"invalid column map ({error}); write a TOML file with [columns] and [constants]"
        ) from error
    tables = {name: content.pop(name, {}) for name in ("columns", "constants")}
    for name, table in tables.items():
        if not isinstance(table, dict) or not all(isinstance(value, str | int) for value in table.values()):
            raise bad_source(
                path, f'invalid section [{name}] of the column map; write lines such as from_address = "sender"'
            )
    if content:
        raise bad_source(
            path, f"unknown table {sorted(content)[0]}; a column map has only the tables [columns] and [constants]"
        )
    columns_, constants = ({ours: str(value) for ours, value in table.items()} for table in tables.values())
    return _checked(ColumnMap(columns_, constants))


def check_columns(raw: RawTable, column_map: ColumnMap) -> None:
    """Raise ``BadSource`` if the file lacks a column of the map."""
    for ours, theirs in column_map.columns.items():
        if theirs not in raw.columns:
            seen = listed(raw.columns)
            raise raw.bad(f"{ours} is mapped to {theirs}, which is not a column of the file; the file has {seen}")


def mapped(raw: RawTable, column_map: ColumnMap) -> RawTable:
    """Return the file with our column names. Columns that are not in the map keep their names.

    Raises ``BadSource`` if the file lacks a column of the map.
    """
    check_columns(raw, column_map)
    if "token_address" in column_map.constants:
        others = [name for name in raw.columns if name not in column_map.columns.values()]
        refuse_several_tokens(raw, (name for name in others if folded_name(name) in _TOKENS))
    used_names = {*column_map.columns, *column_map.constants, *column_map.columns.values(), *_OURS_ALONE}
    if "block_time" in used_names:
        used_names |= set(_TIMES)  # other time columns of the file do not count
    table_columns = {name: raw.table.column(name) for name in raw.columns if name not in used_names}
    table_columns |= {ours: raw.table.column(theirs) for ours, theirs in column_map.columns.items()}
    table_columns |= {ours: pa.repeat(value, raw.table.num_rows) for ours, value in column_map.constants.items()}
    if (
        "block_time" in column_map.columns
        and column_map.columns.get("block_number") == column_map.columns["block_time"]
    ):
        table_columns["block_number"] = _numbers_of_times(raw, column_map.columns["block_time"])
    renamed = {ours: name for ours, name in column_map.columns.items() if name != ours}
    return replace(raw, table=pa.table(table_columns), theirs=renamed)


def refuse_several_tokens(raw: RawTable, names: Iterable[str]) -> None:
    """Raise ``BadSource`` if one of the columns names more than one token. All would count as the token set."""
    for name in names:
        tokens = pc.drop_null(raw.table.column(name).cast(pa.string()).unique()).to_pylist()
        tokens = [token[:80] for token in tokens if token.strip().lower() not in _NO_TOKENS]
        if len(tokens) > 1:
            raise raw.bad(
                f"one token is set for all rows, but column {name} has {len(tokens):,} ({tokens[0]}, {tokens[1]}, …); "
                f"set none and map the column (--map token_address={name}), or remove the rows of other tokens"
            )


def _numbers_of_times(raw: RawTable, name: str) -> pa.Array | pa.ChunkedArray:
    """Return a column of times as block numbers: numbers stay, and times in text become unix seconds."""
    column = raw.table.column(name)
    if pa.types.is_integer(column.type):
        return column
    is_text = pa.types.is_string(column.type)
    if is_text and pc.all(pc.match_substring_regex(pc.fill_null(column, "0"), r"^\s*[0-9]*\s*$")).as_py():
        return column
    return columns.times(RawTable(raw.path, raw.table), name)  # the column block_time has the problems


def missing_columns(names: Iterable[str], column_map: ColumnMap) -> list[str]:
    """Return the columns that transfers need, and that neither ``names`` nor ``column_map`` has.

    Event logs need other columns; the result is empty if all of these are there.
    """
    present = {*names, *column_map.columns, *column_map.constants}
    if {*_OF_LOGS, "block_number", "log_index", "tx_hash"} <= present:
        return []
    is_item = column_map.constants.get("token_standard") == "erc721"
    return [name for name in _NEEDED if name not in present and not (is_item and name == "value")]


def missing_text(names: Sequence[str], missing: Sequence[str]) -> str:
    """Return the sentence that names all missing columns, the options that give them, and the file's columns."""
    options = " ".join(f"--map {name}=COLUMN" for name in missing)
    are = "is" if len(missing) == 1 else "are"
    return (
        f"{', '.join(missing)} {are} missing; map a column to each ({options}), or set a value for all rows (--set "
        f"{missing[0]}=VALUE). The file has {listed(names)}"
    )


def with_item_values(raw: RawTable) -> RawTable:
    """Return the file with the value 1 in the rows of ERC-721 tokens that have no value. An item is always one."""
    if "token_standard" not in raw.columns:
        return raw
    if "value" in raw.columns and set(raw.table["token_standard"].unique().to_pylist()) <= {"erc20", "native"}:
        return raw
    kinds = pc.replace_substring(pc.utf8_lower(raw.table["token_standard"].cast(pa.string())), "-", "")
    is_item = pc.fill_null(pc.is_in(kinds, pa.array(["erc721", "bep721", "trc721"])), False)
    if "value" not in raw.columns:
        return raw.over(raw.table.append_column("value", pc.if_else(is_item, "1", pa.scalar(None, pa.string()))))
    place, values = raw.columns.index("value"), raw.table["value"]
    if not pa.types.is_string(values.type) or not pc.any(is_item).as_py():
        return raw
    is_blank = pc.fill_null(pc.equal(pc.utf8_trim_whitespace(values), ""), True)
    return raw.over(raw.table.set_column(place, "value", pc.if_else(pc.and_(is_item, is_blank), "1", values)))


def suggestion(names: Sequence[str], rows_at: str | None = None) -> str:
    """Return the ``--map`` options for columns with usual names as a text, which is empty if there are none.

    Columns of the list of rows that the path ``rows_at`` names are better than those of the objects around it.
    """
    inner = f"{(rows_at or '').rpartition('.')[2]}."
    ranks = [
        (not name.startswith(inner), *rank, ours, name)
        for ours, synonyms in _GUESSES.items()
        for name in names[:_MOST_GUESSED]
        if "blockhash" not in folded_name(name)
        and (rank := _rank(name, [tuple(usual.split("_")) for usual in (ours, *synonyms)])) is not None
    ]
    pairs: dict[str, str] = {}
    for *_, ours, name in sorted(ranks):
        if ours not in pairs and name not in pairs.values():
            pairs[ours] = name
    folded_names = {folded_name(name): name for name in names}
    if {"value", "amount", "decimals"} <= folded_names.keys():  # the value is then a price, as in exports of Solscan
        pairs["value"] = folded_names["amount"]
    exact_amounts = [name for name in map(folded_name, _USUAL_WORDS["exact_amounts"]) if name in folded_names]
    if exact_amounts:
        pairs["value"] = folded_names[exact_amounts[0]]
    has_one_end = "to_address" in pairs and "from_address" not in pairs
    if has_one_end and folded_name(pairs.get("token_address", "")) == "address":  # of the sender, not of the token
        pairs["from_address"] = pairs.pop("token_address")
    options = [
        f"--map {ours}='{pairs[ours]}'" if re.search(r"[^\w.-]", pairs[ours]) else f"--map {ours}={pairs[ours]}"
        for ours in _GUESSES
        if pairs.get(ours, ours) != ours
    ]
    if "token_id" in pairs and "value" not in pairs:
        options.append("--set token_standard=erc721 --set value=1")
    return " ".join(options)


def _rank(name: str, usual_names: Sequence[tuple[str, ...]]) -> tuple[int, int, int] | None:
    """Return how well a column's name fits the usual names, the least number for the best; None if it does not fit.

    A name may have further words before a usual one, or certain words after it.
    """
    words = tuple(word.lower() for word in _WORDS.findall(name))
    shorter = words[:-1] if words[-1:] and words[-1] in _USUAL_WORDS["last"] else ()
    is_object = name.lower().endswith(".id")  # token.id is the token, not the number of an item
    for place, usual in enumerate(usual_names):
        if "".join(words) == "".join(usual) and not is_object:
            return 0, place, 0
    others, whole_names = set(_USUAL_WORDS["other_things"]), _USUAL_WORDS["whole_names"]
    for rank, last_words in ((1, words), (2, shorter)):
        for place, usual in enumerate(usual_names):
            is_usual = last_words[-len(usual) :] == usual and not (is_object and usual[-1] == "id")
            before = last_words[: -len(usual)]
            if is_usual and others.isdisjoint(before) and not (before and "_".join(usual) in whole_names):
                return rank, place, len(before)
    return None


def with_times(raw: RawTable, blocks: Mapping[int, int]) -> RawTable:
    """Return the file with a column ``block_timestamp`` from ``blocks`` (unix seconds by block). Its own times are
    replaced.

    If a row's block is not in ``blocks``, the row is added to the problems.
    """
    name = raw.first_of(*_BLOCKS)
    if name is None:
        raise raw.bad(
            "--blocks needs a column block_number, which is missing; map it (--map block_number=COLUMN). "
            f"The file has {listed(raw.columns)}"
        )
    numbers = columns.counts(raw, name)
    positions = pc.index_in(numbers, pa.array(list(blocks), pa.int64()))
    seconds = pa.array(list(blocks.values()), pa.int64()).take(positions)
    absent = pc.and_(pc.is_valid(numbers), pc.is_null(positions))
    if columns.first_row(absent) is not None:
        texts = pc.binary_join_element_wise(
            "block", numbers.cast(pa.string()), "is in no file of blocks (--blocks)", " "
        )
        raw.problems.add(name, pc.if_else(absent, texts, pa.scalar(None, pa.string())))
        seconds = pc.fill_null(seconds, 1)  # the row is rejected already
    names = [name for name in raw.columns if name not in _TIMES]
    return raw.over(raw.table.select(names).append_column("block_timestamp", seconds))


def read_block_times(paths: Sequence[Path]) -> dict[int, int]:
    """Return the time (unix seconds) of each block by its number, from files with a row for each block.

    The files need a column ``block_number`` or ``number``, and a column ``timestamp``, as cryo and ethereum-etl write
    them. Raises ``BadSource`` for a file without these columns.
    """
    times: dict[int, int] = {}
    for path in paths:
        raw = read_raw(path)
        number, time = raw.first_of(*_BLOCKS), raw.first_of(*_TIMES)
        if number is None or time is None:
            raise raw.bad(
                "a file of blocks needs the columns block_number (or number) and timestamp; this file has "
                f"{listed(raw.columns)}"
            )
        numbers, seconds = columns.counts(raw, number), columns.times(raw, time)
        rejected = rejected_rows(raw)
        if rejected is not None:
            raise rejected.error()
        times.update(zip(numbers.to_pylist(), seconds.to_pylist(), strict=True))
    return times


def _pair(text: str) -> tuple[str, str]:
    ours, equals, value = text.partition("=")
    if not equals or not value.strip():
        raise BadSource(f"invalid column map {text!r}; write OURS=THEIRS, for example from_address=sender")
    return ours.strip(), value.strip()


def _checked(column_map: ColumnMap, our_columns: Collection[str] = MAPPABLE_COLUMNS) -> ColumnMap:
    for ours in (*column_map.columns, *column_map.constants):
        if ours not in our_columns:
            raise BadSource(f"{ours} is not one of our columns; use one of {', '.join(our_columns)}")
    twice = sorted(column_map.columns.keys() & column_map.constants.keys())
    if twice:
        raise BadSource(f"{twice[0]} is both mapped to a column and set to a constant; remove one of the two")
    return column_map


@dataclass(frozen=True)
class Preset:
    """The column map of one kind of export, and the columns that identify it.

    ``columns`` and ``optional`` are dictionaries from our column names to alternative names in the file. ``constants``
    has constant values. The file must have all of ``columns`` and ``known_by``, and none of ``lacks``. ``only`` selects
    the rows that are transfers: it has, by column, the allowed values in lower case. ``native`` are the values of the
    token's column that mean the chain's coin. ``sample`` is a row of such a file.
    """

    format: str
    title: str
    columns: Mapping[str, tuple[str, ...]]
    optional: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    constants: Mapping[str, str] = field(default_factory=dict)
    known_by: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    native: tuple[str, ...] = ()
    sample: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_evm(self) -> bool:
        """True if only EVM chains have files of this kind. A preset of another chain has a constant ``chain``."""
        return "chain" not in self.constants and self.format != "holderlake"

    def lacking(self, names: Iterable[str]) -> list[str]:
        """Return the columns that a file with the columns ``names`` lacks, under the preset's names."""
        return [self.columns.get(name, (name,))[0] for name in self.match(names, ColumnMap())[1]]

    def match(self, names: Iterable[str], user_map: ColumnMap) -> tuple[dict[str, str], list[str]]:
        """Return a dictionary from our column names to the file's columns, and a list of missing columns.

        The list has the needed columns that neither the file nor the user's map has. The map counts only for columns
        that such files may lack: if it names others, the file is of another kind.
        """
        spelt = spellings(names)
        columns: dict[str, str] = {}
        named_columns = {*user_map.columns, *user_map.constants} & _GIVEN_BY_USERS
        missing = [name for name in self.known_by if folded_name(name) not in spelt]
        missing += [name for name in self.lacks if folded_name(name) in spelt]
        for ours, theirs in {**self.columns, **self.optional}.items():
            column = next((spelt[folded_name(name)] for name in theirs if folded_name(name) in spelt), None)
            if column is not None:
                columns[ours] = column
            elif ours in self.columns and ours not in named_columns:
                missing.append(ours)
        return columns, missing


def preset_for(names: Collection[str], user_map: ColumnMap, format: str | None) -> tuple[Preset, ColumnMap] | None:
    """Return the first preset that fits the columns, with its column map; None if none fits.

    ``user_map`` is the user's column map. ``format`` selects the presets of one format; None tries all.
    """
    for preset in presets_of(format):
        columns, missing = preset.match(names, user_map)
        if not missing:
            return preset, user_map.over(ColumnMap(columns, preset.constants))
    return None


def presets_of(format: str | None) -> list[Preset]:
    """Return the presets of a format; None means all."""
    return [preset for preset in PRESETS if format in (None, preset.format)]


def missing_options(names: Collection[str], user_map: ColumnMap, format: str | None) -> tuple[str, set[str]]:
    """Return a sentence with the options that the user must add so that a preset fits, and our columns that the file
    then has. The sentence is empty if no options suffice."""
    for preset in presets_of(format):
        columns, missing = preset.match(names, user_map)
        if missing and set(missing) <= _REMEDIES.keys() and len(columns) > len(missing) + 2:
            text = f"it looks like {preset.title}; {' and '.join(_REMEDIES[name] for name in missing)}"
            return text, {*columns, *preset.constants, *user_map.columns, *user_map.constants}
    return "", set()


_GIVEN_BY_USERS: Final = frozenset({"decimals", "token_address", "block_number", "block_time", "chain"})
"""Columns of presets that files of these kinds may lack, so that the user gives them."""
_REMEDIES: Final = {
    "decimals": "its amounts are in token units, so set the token's decimals (--set decimals=18)",
    "token_address": "it has no token column, so set the token (--set token_address=ADDRESS)",
    "receipt_status": (
        "the column receipt_status is missing, which marks failed transactions; add two columns of ethereum-etl's "
        "receipts: status as receipt_status, and contract_address as receipt_contract_address"
    ),
    "block_number": (
        "it has no block numbers, which order transfers: add them, or if all files of the token lack them, use the "
        "time (--map block_number=block_timestamp)"
    ),
}


def _preset(table: Mapping[str, Any]) -> Preset:
    names = {
        kind: {ours: (theirs,) if isinstance(theirs, str) else tuple(theirs) for ours, theirs in table[kind].items()}
        for kind in ("columns", "optional", "only")
        if kind in table
    }
    lists = {kind: tuple(table[kind]) for kind in ("known_by", "lacks", "native") if kind in table}
    return Preset(**{**table, **names, **lists})


PRESETS: Final = tuple(map(_preset, FORMATS_TABLE["preset"]))
"""All presets in the order of trial."""
FAILED: Final[Mapping[str, Sequence[str]]] = FORMATS_TABLE["failed"]
"""The values, in lower case, that mark failed transactions, by the name of the column."""
