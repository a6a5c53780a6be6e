"""Result of importing one day of a chain's transfers from the chain's nodes.

A ``Workspace`` is given the function that imports, so this package does not import the engine.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DayReport:
    """Report about the import of one chain and day. The store has blocks ``first_block`` to ``last_block``;
    ``is_whole`` is True if these are all blocks of the day. ``blocks``, ``logs`` and ``rows`` count what this import
    added, ``requests`` its calls to nodes, ``removed`` the rows of blocks that a chain reorganisation replaced."""

    first_block: int
    last_block: int
    is_whole: bool
    blocks: int
    logs: int
    rows: int
    removed: int
    requests: int
    seconds: float
