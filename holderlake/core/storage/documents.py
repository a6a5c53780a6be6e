"""Small named documents: files in a folder of the home, or rows in PostgreSQL for several hosts."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Final

from holderlake.core.storage.atomic_files import write_whole
from holderlake.core.storage.postgresql import Postgres, PostgresDatabase

_SCHEMA: Final = (
    """
    CREATE TABLE IF NOT EXISTS documents (
        folder TEXT NOT NULL,
        name TEXT NOT NULL,
        content TEXT NOT NULL,
        PRIMARY KEY (folder, name)
    )
    """,
)
_PUT: Final = (
    "INSERT INTO documents VALUES (?, ?, ?) ON CONFLICT (folder, name) DO UPDATE SET content = excluded.content"
)
_ALL: Final = "SELECT content FROM documents WHERE folder = ? ORDER BY name"
_REMOVE: Final = "DELETE FROM documents WHERE folder = ? AND name = ?"


class Documents:
    """The JSON documents of a folder. ``where`` is its path, or a ``Postgres`` whose ``files`` is this path."""

    def __init__(self, place: Path | Postgres) -> None:
        self._place = place
        self._folder = place.files if isinstance(place, Postgres) else place

    def put(self, name: str, content: bytes) -> None:
        """Write a document (JSON as bytes), in place of an earlier one of the same name."""
        if self._db is None:
            write_whole(self._path(name), content)
        else:
            self._db.run(lambda db: db.execute(_PUT, (self._folder.name, name, content.decode())))

    def all(self) -> list[bytes]:
        """Return the content of all documents, sorted by name."""
        if self._db is None:
            return [path.read_bytes() for path in sorted(self._folder.glob("*.json"))]
        return [content.encode() for (content,) in self._db.rows(_ALL, (self._folder.name,))]

    def remove(self, name: str) -> None:
        """Delete a document, if there is one."""
        if self._db is None:
            self._path(name).unlink(missing_ok=True)
        else:
            self._db.run(lambda db: db.execute(_REMOVE, (self._folder.name, name)))

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    @cached_property
    def _db(self) -> PostgresDatabase | None:
        return PostgresDatabase(self._place, _SCHEMA) if isinstance(self._place, Postgres) else None
