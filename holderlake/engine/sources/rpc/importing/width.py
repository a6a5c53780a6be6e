"""The number of blocks in one request. It falls after a request that was too large, and rises after successful ones."""

from __future__ import annotations

from typing import Final

_FORGET_AFTER: Final = 32
"""Number of consecutive successes after which requests may again have more blocks than the last one that failed.

The failed request may have been too large only because its blocks have many events.
"""


class Width:
    """The number of blocks in the next request, from 1 to ``most``."""

    def __init__(self, start: int, most: int) -> None:
        self._most = most
        self._ceiling = most
        self._answers = 0
        self.value = min(start, most)

    def shrink(self, failed: int) -> None:
        """Reduce the number of blocks after a request for ``failed`` blocks that was too large."""
        self._ceiling = max(1, min(self._ceiling, failed - 1))
        self.value = max(1, min(self.value, failed // 2))
        self._answers = 0

    def grow(self) -> None:
        """Increase the number of blocks after a successful request."""
        self._answers += 1
        if self._answers % _FORGET_AFTER == 0:
            self._ceiling = min(self._most, self._ceiling * 2)
        self.value = max(1, min(self.value * 2, self._ceiling))
