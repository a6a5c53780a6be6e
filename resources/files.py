"""Files that are there whole or not at all, and there to stay."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file beside its place, to the disk, and renames it: no reader and no crash ever sees a part.

    Raises ``OSError``; what stood in its place is then still there.
    """
    if not path.parent.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        _sync(path.parent.parent)
    handle, part = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(part).replace(path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise
    _sync(path.parent)


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A file to write for somebody to keep, beside its final place, where it is put when all went well.

    Unlike what ``write_whole`` makes it is not for its owner alone. It ends like the final one, for libraries that look
    at suffixes.
    """
    part = path.with_name(f".{path.stem[:80]}.{uuid.uuid4().hex}{''.join(path.suffixes[-2:])}")
    try:
        yield part
        with part.open("rb+") as written:
            os.fsync(written.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def set_aside(path: Path, root: Path, folder: str) -> Path:
    """Move a file below ``root`` to a new place in its ``folder``, under the same relative path. Returns that place."""
    moved = root / folder / uuid.uuid4().hex[:12] / path.relative_to(root)
    moved.parent.mkdir(parents=True)
    path.replace(moved)
    return moved


def _sync(folder: Path) -> None:
    """Makes the names in a folder last through a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
