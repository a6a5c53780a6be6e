"""Sizes of memory as people write them."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {"MB": 10**6, "GB": 10**9, "TB": 10**12}
_LEAST: Final = 64 * _UNITS["MB"]


def memory_bytes(text: str) -> int:
    """Return the bytes of a memory limit such as ``512MB`` or ``2GB``. Raises ``ValueError`` below 64MB."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([MGT]B)", text.strip().upper())
    size = int(float(found[1]) * _UNITS[found[2]]) if found else 0
    if size < _LEAST:
        raise ValueError(f"{text!r} is no memory limit; write 64MB or more, such as 512MB or 2GB")
    return size
