"""Result of an import of a chain's day from its nodes, for assets.

``Workspace.import_day`` does the import, so this room does not import the engine.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DayReport:
    """Import of one chain and day. Blocks ``first_block`` to ``last_block`` are stored; ``is_whole`` if these are all
    blocks of the day. ``blocks``, ``logs``, ``rows`` and ``requests`` count new ones, ``removed`` the rows that
    reorganisations removed."""

    first_block: int
    last_block: int
    is_whole: bool
    blocks: int
    logs: int
    rows: int
    removed: int
    requests: int
    seconds: float
