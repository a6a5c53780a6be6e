"""Hash many texts at once. A hash is 64 bits of a text's MD5. The store finds addresses and transfers by their hashes.

The hashes are in the files of every store, so they must never change. DuckDB's ``md5_number_lower`` returns the same
number. Compiled code hashes several texts in parallel, so the processor need not wait for one step before the next.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from holderlake.engine.numeric.bigint import Array
from holderlake.engine.numeric.graph_kernels import compiled

_FEW_TEXTS: Final = 200_000
_hashed_count: Final = [0]
"""Number of texts that this process has hashed so far."""

_LANES: Final = 16
_START: Final = np.array([0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476], np.uint32)
_STEPS: Final = np.arange(64)
_SINES: Final = np.array([int(abs(math.sin(step + 1)) * 2**32) for step in range(64)], np.uint32)
_TURNS: Final = np.array([[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]], np.uint32)
_WORDS: Final = np.select(
    [_STEPS < 16, _STEPS < 32, _STEPS < 48], [_STEPS, 5 * _STEPS + 1, 3 * _STEPS + 5], 7 * _STEPS
) % 16  # fmt: skip


def digests(texts: pa.Array) -> Array:
    """Return the last eight bytes of each text's MD5 as a little-endian integer. ``texts`` has strings without
    nulls."""
    plain = texts.cast(pa.string())
    if not _are_many(len(plain)):
        return digests_of_few(plain.to_pylist())
    _, offsets, letters = plain.buffers()
    starts = np.frombuffer(offsets, np.int32)[plain.offset : plain.offset + len(plain) + 1]
    return _digests(np.frombuffer(letters or b"", np.uint8), starts)


def _are_many(texts: int) -> bool:
    """Add ``texts`` to the number of texts hashed so far. Return whether the total justifies loading the compiled code.

    Loading takes half a second.
    """
    _hashed_count[0] += texts
    return texts > 0 and _hashed_count[0] > _FEW_TEXTS


def digests_of_few(texts: Sequence[str]) -> Array:
    """Return the hashes of ``digests`` for few texts, without compiled code, which would first have to be loaded."""
    md5_digests = (hashlib.md5(text.encode(), usedforsecurity=False).digest() for text in texts)
    return np.array([int.from_bytes(digest[8:], "little") for digest in md5_digests], np.uint64)


@compiled
def _digests(letters: Array, starts: Array) -> Array:
    count = len(starts) - 1
    hashes = np.empty(count, np.uint64)
    block, words = np.zeros((_LANES, 64), np.uint8), np.empty((16, _LANES), np.uint32)
    state, ends = np.empty((4, _LANES), np.uint32), np.zeros(_LANES, np.int64)
    as_words = block.reshape(_LANES * 64).view(np.uint32)
    for first_text in range(0, count, _LANES):
        lanes = min(_LANES, count - first_text)
        for lane in range(lanes):  # blocks of the text, the padding bit and the length
            ends[lane] = (starts[first_text + lane + 1] - starts[first_text + lane] + 8) // 64 + 1
        for word in range(4):
            state[word, :] = _START[word]
        for number in range(ends[:lanes].max()):
            for lane in range(lanes):
                if number < ends[lane]:
                    start = starts[first_text + lane]
                    _fill(block[lane], letters, start, starts[first_text + lane + 1] - start, number)
            for lane in range(_LANES):
                for word in range(16):
                    words[word, lane] = as_words[16 * lane + word]
            _mix(state, words, ends, number)
        for lane in range(lanes):
            hashes[first_text + lane] = np.uint64(state[2, lane]) | (np.uint64(state[3, lane]) << np.uint64(32))
    return hashes


@compiled
def _fill(block: Array, letters: Array, start: int, length: int, number: int) -> None:
    """Write the 64-byte MD5 block ``number``, with padding, of the text of ``length`` bytes from ``start`` on."""
    offset = 64 * number
    inside = min(max(length - offset, 0), 64)
    for place in range(inside):
        block[place] = letters[start + offset + place]
    for place in range(inside, 64):
        block[place] = 0
    if 0 <= length - offset < 64:
        block[length - offset] = 0x80
    if length + 9 <= offset + 64:
        for place in range(8):
            block[56 + place] = ((8 * length) >> (8 * place)) & 255


@compiled
def _mix(state: Array, words: Array, ends: Array, number: int) -> None:
    """Add the MD5 block with the number ``number`` of each text to the text's MD5 ``state``.

    Texts with fewer blocks are left out. Several texts are hashed in parallel: each has one column in ``state``,
    ``words`` and ``ends``.
    """
    mixed = state.copy()
    for step in range(64):
        kind, word, sine, turn = step >> 4, words[_WORDS[step]], _SINES[step], _TURNS[step >> 4, step & 3]
        # the roles rotate, so that no lane is copied
        a, b, c, d = mixed[-step & 3], mixed[(1 - step) & 3], mixed[(2 - step) & 3], mixed[(3 - step) & 3]
        for lane in range(_LANES):
            if kind == 0:
                round_value = d[lane] ^ (b[lane] & (c[lane] ^ d[lane]))
            elif kind == 1:
                round_value = c[lane] ^ (d[lane] & (b[lane] ^ c[lane]))
            elif kind == 2:
                round_value = b[lane] ^ c[lane] ^ d[lane]
            else:
                round_value = c[lane] ^ (b[lane] | ~d[lane])
            word_sum = np.uint32(a[lane] + round_value + sine + word[lane])
            a[lane] = b[lane] + (np.uint32(word_sum << turn) | (word_sum >> np.uint32(32 - turn)))
    for lane in range(_LANES):
        if number < ends[lane]:
            for word_number in range(4):
                state[word_number, lane] += mixed[word_number, lane]
