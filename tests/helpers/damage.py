"""Damage to files as disks, crashes and people cause it, chosen by a seeded random number generator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Final

PAGE: Final = 4_096
"""Bytes that a disk loses at once."""


def damage(path: Path, rng: Random, kind: str | None = None) -> str:
    """Damage a file in place, by a random kind or the one given. Returns a description, for the report of a failure.

    The file's bytes always change, except where it has none. Hard links to the file are damaged with it.
    """
    chosen = kind or rng.choice(list(KINDS))
    return f"{path.name}: {KINDS[chosen](path, rng)}"


def _flip_bits(path: Path, rng: Random) -> str:
    data = bytearray(path.read_bytes())
    if not data:
        return "no bit to flip"
    bits = rng.sample(range(8 * len(data)), rng.randint(1, min(3, 8 * len(data))))
    for bit in bits:
        data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)
    return f"flipped bits {sorted(bits)} of {8 * len(data)}"


def _truncate(path: Path, rng: Random) -> str:
    size = path.stat().st_size
    kept = rng.randrange(size) if size else 0
    with path.open("r+b") as file:
        file.truncate(kept)
    return f"truncated to {kept} of {size} bytes"


def _empty(path: Path, _: Random) -> str:
    size = path.stat().st_size
    path.write_bytes(b"")
    return f"emptied, of {size} bytes"


def _zero_page(path: Path, rng: Random) -> str:
    data = bytearray(path.read_bytes())
    pages = [start for start in range(0, len(data), PAGE) if any(data[start : start + PAGE])]
    if not pages:
        return "no page to fill with zeros"
    start = rng.choice(pages)
    end = min(start + PAGE, len(data))
    data[start:end] = bytes(end - start)
    path.write_bytes(data)
    return f"zeroed bytes {start} to {end} of {len(data)}"


def _delete(path: Path, _: Random) -> str:
    path.unlink()
    return "deleted"


KINDS: Final[Mapping[str, Callable[[Path, Random], str]]] = {
    "flip": _flip_bits,
    "truncate": _truncate,
    "empty": _empty,
    "zero": _zero_page,
    "delete": _delete,
}
