"""Format, upgrade and retention of Dagster's history: the SQLite files of runs, events and schedules under a home."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Final

from holderlake.storage.formats import FORMAT_FILE, read_format, too_new, write_format
from holderlake.storage.sqlite import DatabaseError

FORMAT: Final = 1
"""Format of the folder. Dagster's own tables are of the version of Dagster that the format file names."""


def check_history(folder: Path) -> None:
    """Raise ``DatabaseError`` if a later version of Holderlake or Dagster wrote the history in ``folder``.

    A new folder gets its format file. A history of an earlier version gets it by ``holderlake upgrade``.
    """
    found = read_format(folder)
    if found["format"] > FORMAT:
        raise DatabaseError(too_new(folder, found["format"], FORMAT))
    if _release(found.get("dagster", "0")) > _release(dagster_release()):
        raise DatabaseError(
            f"{folder} was written by Dagster {found['dagster']}, and this is Dagster {dagster_release()}: "
            "install the later version"
        )
    if not (folder / FORMAT_FILE).exists() and not (folder / "history").exists():
        write_format(folder, FORMAT, dagster=dagster_release())


def is_current(folder: Path) -> bool:
    """Return whether the history in ``folder`` has the format of this version and of this release of Dagster."""
    found = read_format(folder)
    return found["format"] == FORMAT and found.get("dagster") == dagster_release()


def dagster_release() -> str:
    """Return the installed release of Dagster without its last number, such as 1.13."""
    return ".".join(version("dagster").split(".")[:2])


def _release(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())
