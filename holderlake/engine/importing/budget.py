"""How a budget of memory is shared out, so that an import of any size stays within it."""

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
    """What an import of so many bytes of memory may hold at a time: anonymous memory, for pages of mapped files are the
    system's to take back. The query engine has a quarter of it, see ``Store``."""

    memory: int

    @property
    def group(self) -> int:
        """Bytes of rows that are put in order at once; four to five times as many are held then."""
        return self.memory // 24

    @property
    def batch(self) -> int:
        """Rows that are read and written at a time."""
        return min(_BATCH, max(self.group // _ROW_BYTES, 16))

    @property
    def chunk(self) -> int:
        """Changes of balances, or entries of the adjacency, that are put in order at once; each takes up to 300 bytes.
        More than half a million at once are only slower."""
        return min(_CHUNK, max(self.memory // 2_048, 16))

    @property
    def waiting(self) -> int:
        """Bytes that wait to be written to piles."""
        return self.memory // 48


def release_freed_memory() -> None:
    """Lets the system have the memory that was freed; the allocators would keep it for later."""
    pa.default_memory_pool().release_unused()
    if _TRIM is not None:
        _TRIM(0)


_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
