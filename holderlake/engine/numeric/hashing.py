"""Hash texts. A hash is 64 bits of a text's MD5. The store finds addresses and transfers by their hashes.

The hashes are in the files of every store, so they must never change. DuckDB's ``md5_number_lower`` returns the same
number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from holderlake.engine.numeric.bigint import Array

_AT_ONCE: Final = 65_536
_md5: Final = partial(hashlib.md5, usedforsecurity=False)


def digests(texts: pa.Array) -> Array:
    """Return the last eight bytes of each text's MD5 as a little-endian integer. ``texts`` has strings without
    nulls."""
    plain = texts.cast(pa.large_binary())
    pieces = (plain.slice(start, _AT_ONCE).to_pylist() for start in range(0, len(plain), _AT_ONCE))
    return np.concatenate([np.empty(0, np.uint64), *map(_halves, pieces)])


def digests_of_few(texts: Sequence[str]) -> Array:
    """Return the hashes of ``digests`` for texts that are no Arrow array."""
    return _halves([text.encode() for text in texts])


def _halves(texts: Sequence[bytes]) -> Array:
    return np.frombuffer(b"".join([_md5(text).digest() for text in texts]), np.uint64)[1::2]
