"""HTTP bodies read within a limit of bytes, both on the wire and after decompression.

Both halves ask servers that may send without end: the pipeline its provider, the engine its nodes. This module needs
chunks of bytes only, so it knows no HTTP library.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from typing import Final, Literal

ACCEPT_ENCODING: Final = "gzip, deflate"
"""The encodings that can be read; a server should use no other."""
MEGABYTE: Final = 1_000_000
_GZIP_MAGIC: Final = b"\x1f\x8b"
_GZIP: Final = 31
_ZLIB: Final = 15
_RAW_DEFLATE: Final = -15
_MOST_LAYERS: Final = 3
"""A proxy may compress what is compressed already."""
_JSON_STARTS: Final = b'[{"'


class UnusableBody(Exception):
    """A body that is larger than the limit, ends too early, or cannot be decompressed."""

    def __init__(self, kind: Literal["too_large", "closed", "encoding", "corrupt"], message: str) -> None:
        super().__init__(message)
        self.kind = kind


async def read_body(chunks: AsyncIterator[bytes], encoding: str, limit: int) -> bytes:
    """Return the decompressed body; at most ``limit`` bytes are held before and after decompression.

    ``encoding`` is the ``Content-Encoding``, empty without one. Raises ``UnusableBody``.
    """
    parts: list[bytes] = []
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > limit:
            raise UnusableBody("too_large", f"the answer has more than {_megabytes(limit)} MB on the wire")
        parts.append(chunk)
    return decompressed(parts[0] if len(parts) == 1 else b"".join(parts), encoding, limit)


def decompressed(raw: bytes, encoding: str, limit: int) -> bytes:
    """Return the bytes without their content encodings. Raises ``UnusableBody``.

    The bytes decide, not the header alone: proxies drop the header, or keep it after they decompressed the body.
    """
    named = {part.strip().lower() for part in encoding.split(",")} - {"", "identity"}
    for _ in range(_MOST_LAYERS):
        if not raw.startswith(_GZIP_MAGIC):
            break
        raw = _inflated(raw, _GZIP, limit)
    if "deflate" in named:
        return _without_deflate(raw, limit)
    if named - {"gzip", "x-gzip"} and raw.lstrip()[:1] not in _JSON_STARTS:
        raise UnusableBody("encoding", f"the answer has the content encoding {encoding!r}, which was not asked for")
    return raw


def _without_deflate(raw: bytes, limit: int) -> bytes:
    """Servers send zlib's format or bare deflate under one name, and sometimes plain text."""
    has_header = len(raw) > 1 and raw[0] & 0x0F == zlib.DEFLATED and int.from_bytes(raw[:2], "big") % 31 == 0
    try:
        return _inflated(raw, _ZLIB if has_header else _RAW_DEFLATE, limit)
    except UnusableBody as error:
        if error.kind != "too_large" and raw.lstrip()[:1] in _JSON_STARTS:
            return raw
        raise


def _inflated(raw: bytes, window_bits: int, limit: int) -> bytes:
    parts: list[bytes] = []
    left = limit
    while True:
        machine = zlib.decompressobj(window_bits)
        try:
            part = machine.decompress(raw, left + 1)
        except zlib.error:
            raise UnusableBody("corrupt", "the compressed answer is damaged") from None
        left -= len(part)
        if left < 0:
            raise UnusableBody("too_large", f"the answer has more than {_megabytes(limit)} MB after decompression")
        if not machine.eof:
            raise UnusableBody("closed", "the compressed answer ends too early")
        parts.append(part)
        raw = machine.unused_data
        if window_bits != _GZIP or not raw.startswith(_GZIP_MAGIC):  # what follows is padding
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _megabytes(limit: int) -> str:
    return f"{limit / MEGABYTE:,.6f}".rstrip("0").rstrip(".")
