"""The number of blocks in one request: the largest that the endpoint answers, found by bisection."""

from __future__ import annotations

from typing import Final

_TRY_AFTER: Final = 32
"""Number of consecutive successes after which a request has more blocks than the smallest one that failed.

The failed request may have been too large only because its blocks have many events. Each such attempt that fails
doubles the number for the next one.
"""
_PRECISION: Final = 8
"""The bisection ends if the smallest number of blocks that failed is at most 1/8 above the largest that worked."""


class Width:
    """The number of blocks in the next request, from 1 to ``limit``.

    It begins with ``start``, or with ``earlier_width``, the largest number of blocks that the endpoint answered
    earlier. ``works`` is the largest number of blocks that the endpoint answered, 0 if it answered none.
    """

    def __init__(self, start: int, limit: int, earlier_width: int | None = None) -> None:
        self._limit = limit
        self._fails = earlier_width + 1 if earlier_width and earlier_width < limit else None
        self._successes = 0
        self._patience = _TRY_AFTER
        self.works = min(earlier_width or 0, limit)
        self.value = min(earlier_width or start, limit)

    @property
    def is_limited(self) -> bool:
        """True if a request was too large."""
        return self._fails is not None

    def shrink(self, failed: int) -> None:
        """Reduce the number of blocks after a request for ``failed`` blocks that was too large."""
        if self._fails is not None and failed >= self._fails and self._successes >= self._patience:
            self._patience *= 2
        self._fails = failed if self._fails is None else min(self._fails, failed)
        self.works = self.works if self.works < self._fails else self._fails // 2
        self._successes = 0
        self.value = self._between() if self.works else max(1, min(self.value, self._fails // 2))

    def grow(self, blocks: int) -> None:
        """Increase the number of blocks after a successful request for ``blocks`` blocks."""
        self.works = max(self.works, blocks)
        if self._fails is not None and self.works >= self._fails:
            self._fails, self._patience = None, _TRY_AFTER
        self._successes += 1
        if self._fails is None or self._successes % self._patience == 0:
            self.value = min(self._limit, max(self.value, 2 * self.works))
        else:
            self.value = self._between()

    def _between(self) -> int:
        fails = self._fails or self._limit + 1
        return (self.works + fails) // 2 if fails - self.works > max(1, self.works // _PRECISION) else self.works
