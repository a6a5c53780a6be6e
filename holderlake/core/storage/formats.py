"""Format versions of files on disk: whole numbers from 1, which version 0.3.0 writes.

A new nullable column is no new format, because older files read as null. Each part of a home keeps its own number: the
manifests of the lake, the table ``_internal.installed`` of the warehouse, ``user_version`` of SQLite databases, and a
file ``format.json`` in the folders of the archive and of Dagster's history.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from holderlake.core.storage.atomic_files import write_whole

FORMAT_FILE: Final = "format.json"


def format_fault(path: Path | str, number: int, known: int) -> str | None:
    """Return why this version can't use ``path``, which has the format ``number``; None if it has the ``known`` one."""
    if number == known:
        return None
    remedy = "install the newer version" if number > known else "run 'holderlake home upgrade'"
    return f"{path} has format {number}, and this version of Holderlake reads format {known}: {remedy}"


def read_format(folder: Path, default: int) -> dict[str, Any]:
    """Return the content of a folder's format file. If it is missing or damaged, the format is ``default``."""
    try:
        content = msgspec.json.decode((folder / FORMAT_FILE).read_bytes(), type=dict[str, Any])
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError, UnicodeDecodeError):
        content = {}
    return {"format": default} | content


def write_format(folder: Path, number: int, **values: Any) -> None:
    """Write a folder's format file: the format ``number``, and the ``values`` by name."""
    write_whole(folder / FORMAT_FILE, msgspec.json.encode({"format": number, **values}))
