"""Files that are written completely or not at all, and survive a power cut."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from holderlake.core.storage.locks import created_locked, locked

SPILL_LOCK: Final = ".lock"
"""File in a spill folder (for temporary data of a query) that the process using the folder locks."""
_PART: Final = re.compile(r"\..{1,80}\.[0-9a-f]{32}(\.\w+){0,2}")
_OLD_SECONDS: Final = 3_600.0
_SMALL_FILE: Final = 65_536
"""Free bytes below which SQLite can't make the file that it needs next to a database."""


def is_full(folder: Path) -> bool:
    """Return whether the disk of a folder has no space for a small file."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < _SMALL_FILE or (disk.f_files > 0 and not disk.f_favail)


def full_disk(path: Path | str) -> str:
    """Return the error about a file or folder on a full disk. It offers nothing that deletes or moves data."""
    return f"{path} cannot be written: its disk is full; free space on it, of other files than those of the home"


def write_whole(path: Path, content: bytes) -> None:
    """Write a file under a temporary name, sync it and rename it, so that no reader sees an incomplete file.

    Only the file's owner may read it. Raises ``OSError``; an earlier file at ``path`` is then unchanged.
    """
    if not path.parent.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        sync(path.parent.parent)
    handle, part = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(part).replace(path)
    except BaseException as error:
        Path(part).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)
        raise
    sync(path.parent)


@contextmanager
def plain_file(root: Path, name: str, max_bytes: int) -> Iterator[BinaryIO]:
    """Open the file ``name`` (with ``/`` between folders) below ``root`` for reading, without following links.

    Raises ``OSError`` if a part of the name is a link, or the file is not a regular file of at most ``max_bytes``. The
    file may grow later, so the caller reads at most its size.
    """
    *folders, file_name = name.split("/")
    with ExitStack() as opened:
        handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        for folder in folders:
            opened.callback(os.close, handle)
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
        opened.callback(os.close, handle)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe would block
        file_handle = os.open(file_name, flags, dir_fd=handle)
        file = opened.enter_context(os.fdopen(file_handle, "rb"))
        status = os.fstat(file_handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > max_bytes:
            raise OSError(errno.EINVAL, f"it is not a regular file of at most {max_bytes:,} bytes", str(root / name))
        yield file


@contextmanager
def whole_file(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary path for the caller to write. If the block raises no error, its file then replaces ``path``.

    Other users may read the file, unlike a file of ``write_whole``. The temporary name has the suffixes of ``path``,
    because some libraries depend on them. Without ``durable``, the file is not synced, so a power cut may damage it.
    """
    part = path.with_name(f".{path.stem[:80]}.{uuid.uuid4().hex}{''.join(path.suffixes[-2:])}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with created_locked(part):  # ``remove_leftovers`` sees by the lock that our process lives
        try:
            yield part
            if durable:
                sync(part)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def remove_leftovers(folder: Path, spill_prefix: str) -> None:
    """Remove files of ``whole_file`` and folders named ``spill_prefix…`` that killed processes left in ``folder``.

    Files younger than ``_OLD_SECONDS`` and files that a process has locked stay.
    """
    for path in folder.iterdir():
        is_spill = path.name.startswith(spill_prefix) and path.is_dir()
        if not (is_spill or _PART.fullmatch(path.name)) or path.is_symlink():
            continue
        with suppress(OSError):  # it is in use, or another process removed it
            if time.time() - path.stat().st_mtime > _OLD_SECONDS:
                with locked(path / SPILL_LOCK if is_spill else path, if_held=BlockingIOError()):
                    shutil.rmtree(path) if is_spill else path.unlink()


def set_aside(path: Path, root: Path, folder: str) -> Path:
    """Move a file below ``root`` to a new subfolder of ``root / folder``, and return its new path."""
    target = root / folder / uuid.uuid4().hex[:12] / path.relative_to(root)
    target.parent.mkdir(parents=True)
    path.replace(target)
    return target


def sync_files(paths: Iterable[Path]) -> None:
    """Sync files that were written without a sync to disk, and then their folders."""
    folders = set()
    for path in paths:
        sync(path)
        folders.add(path.parent)
    for folder in folders:
        sync(folder)


def sync(path: Path) -> None:
    """Sync a file to disk, or a folder, so that new file names in it survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
