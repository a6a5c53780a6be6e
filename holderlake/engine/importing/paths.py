"""Where an import writes: names for its files, a folder for its spool, and which files are left of a killed one.

The names of an import's files begin with its number, and so does the spool, which is there until the import ended. A
file of a killed import is recognised by that.
"""

from __future__ import annotations

import itertools
import shutil
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

FOLDERS: Final = ("transfers", "openings", "arrays")
_SPOOL: Final = ".spool-"


class ImportFolder:
    """The files of one import in a store's folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._id = uuid.uuid4().hex
        self._count = itertools.count(1)
        self.spool = root / f"{_SPOOL}{self._id}"

    def new_name(self) -> str:
        """A name that no other file has."""
        return f"{self._id}-{next(self._count)}"

    def remove_files(self, listed: Collection[str]) -> None:
        """Remove what the import wrote and the catalogue does not list."""
        _remove(self.root, self._id, listed)

    @contextmanager
    def opened(self) -> Iterator[ImportFolder]:
        """Hold the spool for the block, which has to contain the transaction."""
        self.spool.mkdir()
        try:
            yield self
        finally:
            shutil.rmtree(self.spool, ignore_errors=True)


def imports_under_way(root: Path) -> set[str]:
    """The numbers of imports that did not end: they run in another process, or were killed."""
    return {path.name.removeprefix(_SPOOL) for path in root.glob(f"{_SPOOL}*")}


def import_of(name: str) -> str:
    """The number of the import that gave a file its name."""
    return name.lstrip(".").partition(".")[0].partition("-")[0]


def remove_killed_imports(root: Path, listed: Collection[str], mine: ImportFolder) -> None:
    """Remove spools and unlisted files of other imports; each was killed, for the caller alone may write now."""
    for number in imports_under_way(root):
        if root / f"{_SPOOL}{number}" != mine.spool:
            _remove(root, number, listed)
            remove_spool(root, number)


def remove_spool(root: Path, number: str) -> None:
    """Remove what an import that did not end left on disk of its intermediate results."""
    shutil.rmtree(root / f"{_SPOOL}{number}", ignore_errors=True)


def files_of_import(root: Path, number: str) -> list[str]:
    """The files that an import wrote, as paths within the store."""
    found = ((folder, path.name) for folder in FOLDERS for path in (root / folder).iterdir())
    return sorted(f"{folder}/{name}" for folder, name in found if import_of(name) == number)


def _remove(root: Path, number: str, listed: Collection[str]) -> None:
    for path in files_of_import(root, number):
        if path not in listed:
            (root / path).unlink(missing_ok=True)
