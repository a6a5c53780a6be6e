"""Holderlake: the holders of a token and the links between them, for any past second, in Parquet and DuckDB.

    import holderlake

    holderlake.open_warehouse().pandas("FROM latest_holders")

This package is the library. Only ``dagster``, ``doctor`` and ``cli`` import Dagster. Public names are imported at
their first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from holderlake import errors
    from holderlake.core.client import Client
    from holderlake.core.settings import Settings
    from holderlake.core.warehouse.dataframes import open_lake, open_warehouse

__all__ = ["Client", "Settings", "errors", "open_lake", "open_warehouse"]

_HOMES: Final = {
    "Client": ("holderlake.core.client", "Client"),
    "Settings": ("holderlake.core.settings", "Settings"),
    "errors": ("holderlake.errors", ""),
    "open_lake": ("holderlake.core.warehouse.dataframes", "open_lake"),
    "open_warehouse": ("holderlake.core.warehouse.dataframes", "open_warehouse"),
}
"""Module and attribute of each public name; an empty attribute means the module itself."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'holderlake' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    home_module = import_module(module)
    return getattr(home_module, attribute) if attribute else home_module


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
