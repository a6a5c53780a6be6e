"""Keccak-256 of many short messages at once. EIP-55 (checksums of EVM addresses) needs it; ``hashlib`` lacks it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

_RATE: Final = 136
_ROUNDS: Final = (
    *(0x0000000000000001, 0x0000000000008082, 0x800000000000808A, 0x8000000080008000, 0x000000000000808B),
    *(0x0000000080000001, 0x8000000080008081, 0x8000000000008009, 0x000000000000008A, 0x0000000000000088),
    *(0x0000000080008009, 0x000000008000000A, 0x000000008000808B, 0x800000000000008B, 0x8000000000008089),
    *(0x8000000000008003, 0x8000000000008002, 0x8000000000000080, 0x000000000000800A, 0x800000008000000A),
    *(0x8000000080008081, 0x8000000000008080, 0x0000000080000001, 0x8000000080008008),
)
_CHUNK: Final = 4096
"""Number of messages that are hashed at once. Their states fit into the processor's cache."""


def keccak256(messages: Bytes) -> Bytes:
    """Return the Keccak-256 digests of messages of equal length.

    ``messages`` is an array of bytes with the shape (messages, bytes of a message); the result has the shape (messages,
    32). Raises ``ValueError`` for messages of more than 135 bytes.
    """
    if messages.shape[1] >= _RATE:
        raise ValueError(f"messages of {messages.shape[1]} bytes are too long: give at most {_RATE - 1} bytes each")
    parts = [_digests(messages[at : at + _CHUNK]) for at in range(0, len(messages), _CHUNK)]
    return np.concatenate(parts) if parts else np.zeros((0, 32), np.uint8)


def checksummed(digits: Sequence[str]) -> list[str]:
    """Return addresses in the mixed case of EIP-55, which encodes their checksum.

    ``digits`` and the result are texts of 40 hexadecimal digits, without 0x.
    """
    if not digits:
        return []
    lower = np.frombuffer("".join(digits).lower().encode(), np.uint8).reshape(-1, 40)
    hashes = keccak256(lower)[:, :20]
    nibbles = np.stack([hashes >> 4, hashes & 15], axis=2).reshape(-1, 40)
    raised = np.where((nibbles >= 8) & (lower >= ord("a")), lower - 32, lower).astype(np.uint8)
    text = raised.tobytes().decode()
    return [text[at : at + 40] for at in range(0, len(text), 40)]


def _digests(messages: Bytes) -> Bytes:
    count, length = messages.shape
    block = np.zeros((count, _RATE), np.uint8)
    block[:, :length] = messages
    block[:, length] ^= 0x01
    block[:, -1] ^= 0x80
    words = block.view("<u8")
    # the lane (x, y) of FIPS 202 is at x + 5 y
    lanes: list[Any] = [words[:, at].copy() if at < _RATE // 8 else np.zeros(count, np.uint64) for at in range(25)]
    for constant in _ROUNDS:
        lanes = _round(lanes, np.uint64(constant))
    return np.stack(lanes[:4], axis=1).astype("<u8").view(np.uint8)


def _round(lanes: list[Any], constant: np.uint64) -> list[Any]:
    parity = [lanes[x] ^ lanes[x + 5] ^ lanes[x + 10] ^ lanes[x + 15] ^ lanes[x + 20] for x in range(5)]
    change = [parity[(x + 4) % 5] ^ _rotated(parity[(x + 1) % 5], 1) for x in range(5)]
    lanes = [lane ^ change[at % 5] for at, lane in enumerate(lanes)]
    rotated_lanes: list[Any] = [lanes[0]] * 25
    x, y, lane = 1, 0, lanes[1]
    for step in range(24):
        x, y = y, (2 * x + 3 * y) % 5
        rotated_lanes[x + 5 * y], lane = _rotated(lane, (step + 1) * (step + 2) // 2 % 64), lanes[x + 5 * y]
    mixed = [
        rotated_lanes[x + 5 * y] ^ (~rotated_lanes[(x + 1) % 5 + 5 * y] & rotated_lanes[(x + 2) % 5 + 5 * y])
        for y in range(5)
        for x in range(5)
    ]
    mixed[0] = mixed[0] ^ constant
    return mixed


def _rotated(lane: Any, bits: int) -> Any:
    return (lane << np.uint64(bits)) | (lane >> np.uint64(64 - bits)) if bits else lane
