"""The memory budget of an import, divided among its steps."""

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
    """Divides ``memory`` (bytes) among the steps of an import. DuckDB uses a quarter of ``memory``, see ``Store``.

    Only anonymous memory counts, because the system can take back the pages of mapped files.
    """

    memory: int

    @property
    def group(self) -> int:
        """The most bytes of rows that are sorted at once. Sorting needs four to five times as much memory."""
        return self.memory // 24

    @property
    def batch(self) -> int:
        """Number of rows that are read and written at once."""
        return min(_BATCH, max(self.group // _ROW_BYTES, 16))

    @property
    def chunk(self) -> int:
        """The most balance changes, or entries of the adjacency, that are sorted at once.

        Each takes up to 300 bytes. Sorting more than half a million at once is slower.
        """
        return min(_CHUNK, max(self.memory // 2_048, 16))

    @property
    def waiting(self) -> int:
        """The most bytes of rows that a set of buckets (module ``spill``) keeps in memory.

        Rows beyond this limit are written to files.
        """
        return self.memory // 48


def release_freed_memory() -> None:
    """Return freed memory to the operating system. Without this call, the allocators of Arrow and C would keep it."""
    pa.default_memory_pool().release_unused()
    if _TRIM is not None:
        _TRIM(0)


_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
