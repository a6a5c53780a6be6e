"""Holderlake: the holders of a token and the links between them, for any past second, in Parquet and DuckDB.

    import holderlake

    holderlake.open_warehouse().pandas("FROM latest_holders")

``core`` is the pipeline; the other rooms add to it by the list in ``parts``. ``assets``, ``resources`` and
``pipelines`` are the Dagster layer, the folders at the top of the repository. Public names are imported at their first
use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from holderlake.core.registry import register
from holderlake.parts import PARTS

if TYPE_CHECKING:
    from holderlake import errors
    from holderlake.core.settings import Settings
    from holderlake.presentation.client import Client
    from holderlake.presentation.dataframes import open_lake, open_warehouse

__all__ = ["Client", "Settings", "errors", "open_lake", "open_warehouse"]

register(PARTS)

_HOMES: Final = {
    "Client": ("holderlake.presentation.client", "Client"),
    "Settings": ("holderlake.core.settings", "Settings"),
    "errors": ("holderlake.errors", ""),
    "open_lake": ("holderlake.presentation.dataframes", "open_lake"),
    "open_warehouse": ("holderlake.presentation.dataframes", "open_warehouse"),
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
