"""The request options that change what an answer holds: chosen for a partition, and written into its rows.

A partition holds one set of options. Further subjects are requested with the partition's own options, whatever the
settings say now; only a refresh replaces them, and then for all subjects of the partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

from holderlake.contract.requests import HoldersRequest, MapRequest, Request
from holderlake.contract.tables import TABLES

if TYPE_CHECKING:
    from holderlake.lake.commits import Manifest
    from holderlake.settings import Settings

Options: TypeAlias = Mapping[str, Any]
"""Values by the name of their setting; empty for a family whose requests have no options."""

FIRST_OPTIONS: Final[Mapping[str, Options]] = {
    "maps": {"limit": 80, "use_magic_nodes": True, "use_time_nodes": True},
    "holders": {"limit": 80, "with_metadata": False},
}
"""The defaults of version 0.1.0, which recorded no options."""
_COLUMNS: Final[Mapping[str, Mapping[str, str]]] = {
    "maps": {"holder_limit": "limit", "use_magic_nodes": "use_magic_nodes", "use_time_nodes": "use_time_nodes"},
    "holders": {"holder_limit": "limit"},
}
"""The columns that hold options, by table."""
_RULES: Final = "rules"
"""The column of ``maps`` that holds the provider's rules."""


def options_of(family: str, settings: Settings) -> Options:
    """Return the options that the settings give a family, by its name."""
    return {name: getattr(getattr(settings, family), name) for name in FIRST_OPTIONS.get(family, ())}


def with_options(family: str, settings: Settings, options: Options) -> Settings:
    """Return the settings with other options of a family."""
    if not options or options == options_of(family, settings):
        return settings
    section = getattr(settings, family).model_copy(update=dict(options))
    return settings.model_copy(update={family: section})


def chosen_options(family: str, settings: Settings, held: Manifest | None, refresh: bool) -> Options:
    """Return the options to request a partition's subjects with."""
    if held is None or held.options is None or refresh:
        return options_of(family, settings)
    return held.options


def has_other_options(family: str, settings: Settings, held: Manifest) -> bool:
    """Return whether a partition was requested with other options than the settings give."""
    recorded = FIRST_OPTIONS.get(family, {}) if held.options is None else held.options
    return recorded != options_of(family, settings)


def requested_options(request: Request) -> Options:
    """Return the options of a request by the names of their settings."""
    match request:
        case MapRequest(options=own):
            return {"limit": own.limit, "use_magic_nodes": own.use_magic_nodes, "use_time_nodes": own.use_time_nodes}
        case HoldersRequest(options=own):
            return {"limit": own.limit, "with_metadata": own.return_metadata}
    return {}


def stamped(tables: Mapping[str, pa.Table], options: Options, rules: str | None) -> dict[str, pa.Table]:
    """Return the tables with the options and the rules in their columns."""
    return {name: _stamped(name, rows, options, rules) for name, rows in tables.items()}


def _stamped(name: str, rows: pa.Table, options: Options, rules: str | None) -> pa.Table:
    values = {column: options.get(option) for column, option in _COLUMNS.get(name, {}).items()}
    if name == "maps":
        values[_RULES] = rules
    schema = TABLES[name].schema
    for column, value in values.items():
        field = schema.field(column)
        rows = rows.set_column(
            schema.get_field_index(column), field, pa.repeat(pa.scalar(value, field.type), len(rows))
        )
    return rows
