"""What targets were understood to ask, so that the same one need not be read again. ``short_way`` makes use of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from cachetools import LRUCache

from holderlake.contract.requests import Request
from holderlake.service.output.formats import Format

_MOST: Final = 20_000

Target = tuple[str, bytes, bytes]
"""Path, query string and ``Accept``: all that the meaning of a GET depends on."""


@dataclass(frozen=True)
class Asked:
    """What a target was understood to ask; ``route`` is for logs and metrics."""

    request: Request
    form: Format
    route: Any


class Shortcuts:
    """What requests of late were understood to ask, at most so many. For one event loop."""

    def __init__(self) -> None:
        self._asked: LRUCache[Target, Asked] = LRUCache(_MOST)

    def find(self, target: Target) -> Asked | None:
        """What the target asks, where that is known."""
        return self._asked.get(target)

    def remember(self, target: Target, asked: Asked) -> None:
        """Notes it for the next caller."""
        self._asked[target] = asked
