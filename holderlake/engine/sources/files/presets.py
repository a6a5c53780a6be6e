"""Presets: column maps for the exports of providers, explorers and tools, recognised by their columns.

The presets are tables in ``presets.toml``. Layouts that need more than a column map are in ``layouts``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from holderlake.engine.sources.files.mapping import ColumnMap


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
        return "chain" not in self.constants

    def map_of(self, names: Iterable[str], user_map: ColumnMap) -> ColumnMap | None:
        """Return the column map for a file with the columns ``names``; None if a needed column is missing.

        ``user_map`` is the user's column map, which takes precedence over the preset.
        """
        columns, missing = self.match(names, user_map)
        return None if missing else user_map.over(ColumnMap(columns, self.constants))

    def missing(self, names: Iterable[str], user_map: ColumnMap) -> list[str]:
        """Return the columns of our layout that the user must map or set, so that this preset fits the file.

        ``names`` are the file's columns, ``user_map`` is the user's column map. The result is empty if the file has too
        few of the preset's columns.
        """
        columns, missing = self.match(names, user_map)
        return missing if set(missing) <= _REMEDIES.keys() and len(columns) > len(missing) + 2 else []

    def match(self, names: Iterable[str], user_map: ColumnMap) -> tuple[dict[str, str], list[str]]:
        """Return a dictionary from our column names to the file's columns, and a list of missing columns.

        The list has the needed columns that neither the file nor the user's map has.
        """
        spelt = spellings(names)
        columns: dict[str, str] = {}
        named_columns = {*user_map.columns, *user_map.constants}
        missing = [name for name in self.known_by if folded_name(name) not in spelt]
        missing += [name for name in self.lacks if folded_name(name) in spelt]
        for ours, theirs in {**self.columns, **self.optional}.items():
            column = next((spelt[folded_name(name)] for name in theirs if folded_name(name) in spelt), None)
            if column is not None:
                columns[ours] = column
            elif ours in self.columns and ours not in named_columns:
                missing.append(ours)
        return columns, missing


def folded_name(name: str) -> str:
    """Return a column's name in lower case without separators, in which the spellings of an export are equal."""
    return re.sub(r"[^a-z0-9]", "", name.lower()) or name.lower()


def spellings(names: Iterable[str]) -> dict[str, str]:
    """Return the names of a file's columns by their folded names. The first of equal names counts."""
    listed = list(names)
    return {folded_name(name): name for name in reversed(listed)}


def preset_for(names: Iterable[str], user_map: ColumnMap, format: str | None) -> tuple[Preset, ColumnMap] | None:
    """Return the first preset that fits the columns, with its column map; None if none fits.

    ``user_map`` is the user's column map. ``format`` selects the presets of one format; None tries all.
    """
    listed = list(names)
    for preset in PRESETS:
        column_map = preset.map_of(listed, user_map) if format in (None, preset.format) else None
        if column_map is not None:
            return preset, column_map
    return None


def missing_options(names: Iterable[str], user_map: ColumnMap, format: str | None) -> tuple[str, set[str]]:
    """Return a sentence with the options that the user must add so that a preset fits, and our columns that the file
    then has. The sentence is empty if no options suffice."""
    listed = list(names)
    for preset in PRESETS:
        missing = preset.missing(listed, user_map) if format in (None, preset.format) else []
        if missing:
            text = f"it looks like {preset.title}; {' and '.join(_REMEDIES[name] for name in missing)}"
            return text, {*preset.match(listed, user_map)[0], *preset.constants, *user_map.columns, *user_map.constants}
    return "", set()


_REMEDIES: Final = {
    "decimals": "its amounts are in token units, so set the token's decimals (--set decimals=18)",
    "token_address": "it has no token column, so set the token (--set token_address=ADDRESS)",
    "block_number": (
        "it has no block numbers, which order transfers: add them, or if all files of the token lack them, use the "
        "time (--map block_number=block_timestamp)"
    ),
}


def _read_presets(path: Path) -> tuple[Preset, ...]:
    return tuple(map(_preset, tomllib.loads(path.read_text(encoding="utf-8"))["preset"]))


def _preset(table: Mapping[str, Any]) -> Preset:
    names = {
        kind: {ours: (theirs,) if isinstance(theirs, str) else tuple(theirs) for ours, theirs in table[kind].items()}
        for kind in ("columns", "optional", "only")
        if kind in table
    }
    listed = {kind: tuple(table[kind]) for kind in ("known_by", "lacks", "native") if kind in table}
    return Preset(**{**table, **names, **listed})


PRESETS: Final = _read_presets(Path(__file__).with_name("presets.toml"))
"""All presets in the order of trial."""
