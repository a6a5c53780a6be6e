"""Number of blocks in one request: fewer after a request that was too large, more after successes."""

from __future__ import annotations

from typing import Final

_FORGET_AFTER: Final = 32
"""Successes in a row after which a limit is tried again: it may have concerned crowded blocks only."""


class Width:
    """A number of blocks from 1 to ``most``."""

    def __init__(self, start: int, most: int) -> None:
        self._most = most
        self._ceiling = most
        self._answers = 0
        self.value = min(start, most)

    def shrink(self, failed: int) -> None:
        """Reduce the number: ``failed`` blocks were too many."""
        self._ceiling = max(1, min(self._ceiling, failed - 1))
        self.value = max(1, min(self.value, failed // 2))
        self._answers = 0

    def grow(self) -> None:
        """Increase the number after a success."""
        self._answers += 1
        if self._answers % _FORGET_AFTER == 0:
            self._ceiling = min(self._most, self._ceiling * 2)
        self.value = max(1, min(self.value * 2, self._ceiling))
