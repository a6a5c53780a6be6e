"""What assets know of the engine's sources: what importing a chain's day from its node did.

Who imports is told from outside (``Workspace.import_day``), so that nothing here knows of the engine.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DayReport:
    """An import of one chain and day. Blocks ``first_block`` to ``last_block`` are there now; ``is_whole`` where these
    are all of the day. ``blocks``, ``logs``, ``rows`` and ``requests`` count what was new, ``removed`` rows that
    reorganisations took back."""

    first_block: int
    last_block: int
    is_whole: bool
    blocks: int
    logs: int
    rows: int
    removed: int
    requests: int
    seconds: float
