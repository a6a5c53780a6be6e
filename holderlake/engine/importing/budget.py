"""The memory budget of an import, and the shares of its steps."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

_ROW_BYTES: Final = 400
_CHUNK: Final = 1 << 19
_BATCH: Final = 131_072


@dataclass(frozen=True)
class Budget:
    """Shares of ``memory`` bytes. They count anonymous memory, because the system can take back pages of mapped files.

    DuckDB has a quarter of the budget, see ``Store``.
    """

    memory: int

    @property
    def group(self) -> int:
        """Bytes of rows that are sorted at once. Sorting needs four to five times as many."""
        return self.memory // 24

    @property
    def batch(self) -> int:
        """Number of rows that are read and written at once."""
        return min(_BATCH, max(self.group // _ROW_BYTES, 16))

    @property
    def chunk(self) -> int:
        """Number of balance changes, or entries of the adjacency, that are sorted at once.

        Each takes up to 300 bytes. More than half a million at once are slower.
        """
        return min(_CHUNK, max(self.memory // 2_048, 16))

    @property
    def waiting(self) -> int:
        """Bytes of rows that wait in memory for their buckets."""
        return self.memory // 48


def release_freed_memory() -> None:
    """Return freed memory to the system; the allocators would keep it for later."""
    pa.default_memory_pool().release_unused()
    if _TRIM is not None:
        _TRIM(0)


_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
