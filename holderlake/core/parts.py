"""Optional parts of an application, by kind. The application lists them, and the core calls them without knowing them.

A part is a function, a class or a package, named as ``module:name`` or ``module``; it is imported when it is first
used. ``holderlake/parts.py`` has the list of this application. The kinds:

| kind | a part is |
|---|---|
| ``settings`` | a ``Section`` of the settings, with the name of its ``TABLE`` |
| ``source`` | a function (settings) that returns the ``LocalSource``: a provider in this process |
| ``bucket`` | a module with ``lake_of``, ``archive_of`` and ``copy_of`` (settings), for a lake at ``lake.url`` |
| ``views`` | a package with SQL files of views and macros of the warehouse |
| ``linked_files`` | a module with ``link``, ``views`` and ``remove_old`` of files that the warehouse reads in place |
| ``tables`` | a module with a ``TABLE`` of the warehouse that its functions fill from files next to it |
| ``ledger_opened`` | a function (ledger, archive, settings) that is called when a workspace opens its ledger |
| ``before_run`` | a function (workspace, instants by chain, every_byte) that is called before a run fetches |
| ``run_stopped`` | a function (workspace, error) that is called when an error stops a run for good |
| ``schedule_tick`` | a function (workspace, tick before, tick) that may return a reason to launch no runs |
| ``missing_instants`` | a function (workspace, instance, job, until, days): scheduled instants without data |
| ``after_load`` | a function (workspace, say) that is called after a load of the warehouse |
| ``table_plots``, ``history_plots`` | functions that draw plots for asset metadata |
| ``dagster`` | a function (``pipelines.parts.Application``) that returns Dagster definitions |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

_listed: dict[str, Sequence[str]] = {}


def register(listed: Mapping[str, Sequence[str]]) -> None:
    """Replace the list of parts, by kind. Call it before the first use."""
    _listed.clear()
    _listed.update(listed)
    parts.cache_clear()


@cache
def parts(kind: str) -> tuple[Any, ...]:
    """Import and return the parts of a kind, in the order of the list."""
    return tuple(map(_load, _listed.get(kind, ())))


def _load(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name) if name else import_module(module)
