"""Pieces of segments as bytes: zstd frames of an answer with its metadata, and footers that list the pieces.

A frame is a line of JSON (metadata), then the answer's bytes. A footer is a skippable frame of zstd at the end of a
segment in a bucket, so that another host reads what the segment contains without downloading it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import msgspec
import zstandard

from holderlake.core.storage.names import BadName, digest_name

_LEVEL: Final = 1
_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_SKIPPABLE: Final = b"\x50\x2a\x4d\x18"
_END: Final = b"HLSEGMNT"
_TRAILER: Final = 4 + len(_END)
"""Bytes after a footer's list: its length, and a mark."""

Entry: TypeAlias = tuple[str, str, str, int, int]
"""Name, SHA-256, fetch time, start and length of a piece of a segment."""


class DamagedPiece(Exception):
    """The bytes of a piece differ from those that were written."""


@dataclass(frozen=True)
class Piece:
    """A piece of a segment: an answer's bytes (``raw``), and its metadata ``about``.

    ``about`` has at least ``digest`` (the piece's name), ``sha256`` of ``raw``, and ``fetched_at`` (ISO 8601, UTC).
    """

    about: Mapping[str, Any]
    raw: bytes = field(repr=False)


def encoded(pieces: Iterable[Piece]) -> list[bytes]:
    """Return each piece compressed as a zstd frame."""
    compressor = zstandard.ZstdCompressor(_LEVEL, write_checksum=True)
    return [compressor.compress(_line(piece.about) + piece.raw) for piece in pieces]


def footer(entries: Sequence[Entry]) -> bytes:
    """Return the footer of a segment as bytes: it lists (name, SHA-256, fetch time, start, length) of each piece."""
    text = zstandard.ZstdCompressor(_LEVEL).compress(msgspec.json.encode(entries))
    size = (len(text) + _TRAILER).to_bytes(4, "little")
    return _SKIPPABLE + size + text + len(text).to_bytes(4, "little") + _END


def footer_bytes(end: bytes) -> int | None:
    """Return the length of the footer of a segment whose last bytes are ``end``; None if it has no footer."""
    if len(end) < _TRAILER or not end.endswith(_END):
        return None
    return len(_SKIPPABLE) + 4 + int.from_bytes(end[-_TRAILER : -len(_END)], "little") + _TRAILER


def parsed_footer(content: bytes) -> list[Entry] | None:
    """Return (name, SHA-256, fetch time, start, length) of the pieces in a footer; None if it is damaged."""
    try:
        text = zstandard.ZstdDecompressor().decompressobj().decompress(content[len(_SKIPPABLE) + 4 : -_TRAILER])
        entries = msgspec.json.decode(text, type=list[Entry])
        return [(digest_name(name), digest_name(sha), at, start, length) for name, sha, at, start, length in entries]
    except (zstandard.ZstdError, msgspec.DecodeError, UnicodeDecodeError, BadName):
        return None


def _line(about: Mapping[str, Any]) -> bytes:
    return json.dumps(about, separators=(",", ":")).encode() + b"\n"


def about_of(text: bytes) -> dict[str, Any]:
    line, end, _ = text.partition(b"\n")
    about = json.loads(line)
    if not end or not isinstance(about, dict):
        raise ValueError("the metadata of an archived answer are incomplete")
    return about


def decompressed(content: bytes) -> tuple[bytes, int]:
    """Return the decompressed first frame, and its compressed length in bytes. Raises ``ZstdError``, ``ValueError``."""
    reader = zstandard.ZstdDecompressor().decompressobj()  # does not trust the size that a damaged file may claim
    text = reader.decompress(content)
    if not reader.eof:
        raise ValueError("the compressed bytes of an archived answer end too early")
    return text, len(content) - len(reader.unused_data)


def rows_of(abouts: Iterable[Mapping[str, Any]], frames: Iterable[bytes]) -> Iterator[Entry]:
    """Yield (name, SHA-256, fetch time, start, length) of a segment's pieces, from their metadata and frames."""
    start = 0
    for about, frame in zip(abouts, frames, strict=True):
        yield about["digest"], about["sha256"], about["fetched_at"], start, len(frame)
        start += len(frame)


def entries_in(content: bytes) -> Iterator[Entry]:
    """Yield (name, SHA-256, fetch time, start, length) of the readable pieces in the bytes of a segment."""
    start = 0
    while 0 <= start < len(content):
        length = 0
        with suppress(zstandard.ZstdError, ValueError, KeyError, TypeError, BadName):
            text, length = decompressed(content[start:])
            about = about_of(text)
            yield digest_name(about["digest"]), digest_name(about["sha256"]), about["fetched_at"], start, length
        start = start + length if length else content.find(_MAGIC, start + 1)
