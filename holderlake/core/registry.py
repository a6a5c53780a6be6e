"""Optional parts of an application, by kind. The application lists them, and the core calls them without knowing them.

A part is a function, a class, a module or a package, named as ``module:name`` or ``module``; it is imported when it is
first used. ``holderlake/parts.py`` has the list of this application. A kind is declared next to the code that calls
its parts, as a ``Kind`` with the type of its parts; ``git grep "Kind("`` lists all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Generic, TypeVar, cast

Part = TypeVar("Part")
_listed: dict[str, Sequence[str]] = {}


def register(listed: Mapping[str, Sequence[str]]) -> None:
    """Replace the list of parts, by kind. Call it before the first use."""
    _listed.clear()
    _listed.update(listed)
    _loaded.cache_clear()


class Kind(Generic[Part]):
    """A kind of parts. ``name`` is its name in the list, ``Part`` the type of each part."""

    def __init__(self, name: str) -> None:
        self.name = name

    def parts(self) -> tuple[Part, ...]:
        """Import and return the parts of this kind, in the order of the list."""
        return cast(tuple[Part, ...], _loaded(self.name))


@cache
def _loaded(kind: str) -> tuple[Any, ...]:
    return tuple(map(_load, _listed.get(kind, ())))


def _load(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name) if name else import_module(module)
