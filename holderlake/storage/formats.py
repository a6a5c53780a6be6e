"""Format versions of files on disk: whole numbers from 1. Files that name no format have format 1.

A new nullable column is no new format, because older files read as null. Each part of a home keeps its own number: the
manifests of the lake, the table ``_installed`` of the warehouse, ``user_version`` of SQLite databases, and a file
``format.json`` in the folders of the archive and of Dagster's history.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from holderlake.storage.atomic_files import write_whole

FORMAT_FILE: Final = "format.json"


def too_new(path: Path | str, number: object, latest: object) -> str:
    """Return the text of the error that ``path`` has the format ``number``; ``latest`` is the latest readable one."""
    return f"{path} has format {number}, and this version of Holderlake knows {latest}: install the newer version"


def read_format(folder: Path) -> dict[str, Any]:
    """Return the content of a folder's format file; ``{"format": 1}`` if it is missing or damaged."""
    try:
        content = msgspec.json.decode((folder / FORMAT_FILE).read_bytes(), type=dict[str, Any])
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError, UnicodeDecodeError):
        content = {}
    return {"format": 1} | content


def write_format(folder: Path, number: int, **values: Any) -> None:
    """Write a folder's format file: the format ``number``, and the ``values`` by name."""
    write_whole(folder / FORMAT_FILE, msgspec.json.encode({"format": number, **values}))
