"""The file names of an import, its spool folder, and the removal of files that a killed import left.

The names of an import's files begin with its id. The spool folder ``.spool-<id>`` has the temporary files until the
import ends. Only one process writes to a store at a time. Therefore the spool folder of another import is that of a
killed import.
"""

from __future__ import annotations

import itertools
import shutil
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

FOLDERS: Final = ("transfers", "openings", "arrays", "balances")
_SPOOL: Final = ".spool-"


class ImportFolder:
    """The spool folder and the file names of one import into the store in ``root``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._id = uuid.uuid4().hex
        self._count = itertools.count(1)
        self.spool = root / f"{_SPOOL}{self._id}"

    def new_name(self) -> str:
        """Return a new file name, without suffix, that begins with the import's id."""
        return self.name_of(str(next(self._count)))

    def name_of(self, file: str) -> str:
        """Return the name in the store of a file that another store has as ``file``."""
        return f"{self._id}-{file}"

    def remove_files(self, listed: Collection[str]) -> None:
        """Remove the files of this import whose paths are not in ``listed``, the paths that the catalogue lists."""
        _remove(self.root, self._id, listed)

    @contextmanager
    def opened(self) -> Iterator[ImportFolder]:
        """Context manager that makes the spool folder and removes it at the end.

        The import's complete catalogue transaction must run inside.
        """
        self.spool.mkdir()
        try:
            yield self
        finally:
            shutil.rmtree(self.spool, ignore_errors=True)


def imports_under_way(root: Path) -> set[str]:
    """Return the ids of imports that have not ended. They run in another process, or were killed."""
    return {path.name.removeprefix(_SPOOL) for path in root.glob(f"{_SPOOL}*")}


def import_of(name: str) -> str:
    """Return the id of the import that wrote the file with this name."""
    return name.lstrip(".").partition(".")[0].partition("-")[0]


def remove_killed_imports(root: Path, listed: Collection[str], own_import: ImportFolder) -> None:
    """Remove the spool folders and unlisted files of all imports except ``own_import``.

    The caller must be the store's only writer. Then all other imports were killed. ``listed`` are the paths that the
    catalogue lists.
    """
    for import_id in imports_under_way(root):
        if root / f"{_SPOOL}{import_id}" != own_import.spool:
            _remove(root, import_id, listed)
            remove_spool(root, import_id)


def remove_spool(root: Path, import_id: str) -> None:
    """Remove the spool folder of an import that was killed."""
    shutil.rmtree(root / f"{_SPOOL}{import_id}", ignore_errors=True)


def files_of_import(root: Path, import_id: str) -> list[str]:
    """Return the files that an import wrote, as paths relative to the store."""
    names = ((folder, path.name) for folder in FOLDERS for path in (root / folder).iterdir())
    return sorted(f"{folder}/{name}" for folder, name in names if import_of(name) == import_id)


def _remove(root: Path, import_id: str, listed: Collection[str]) -> None:
    for path in files_of_import(root, import_id):
        if path not in listed:
            (root / path).unlink(missing_ok=True)
