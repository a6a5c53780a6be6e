"""Small named documents: files in a folder of the home, or rows in PostgreSQL for several hosts."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Final

from sqlalchemy import Column, MetaData, Table, Text, delete, select

from holderlake.core.storage.atomic_files import write_whole
from holderlake.core.storage.postgresql import Postgres
from holderlake.core.storage.state import PostgresState, put

_TABLES: Final = MetaData()
_DOCUMENTS: Final = Table(
    "documents",
    _TABLES,
    Column("folder", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("content", Text, nullable=False),
)


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
            row = {"folder": self._folder.name, "name": name, "content": content.decode()}
            self._db.run(lambda db: put(db, _DOCUMENTS, row))

    def all(self) -> list[bytes]:
        """Return the content of all documents, sorted by name."""
        if self._db is None:
            return [path.read_bytes() for path in sorted(self._folder.glob("*.json"))]
        contents = select(_DOCUMENTS.c.content).where(_DOCUMENTS.c.folder == self._folder.name)
        return [content.encode() for (content,) in self._db.rows(contents.order_by(_DOCUMENTS.c.name))]

    def remove(self, name: str) -> None:
        """Delete a document, if there is one."""
        if self._db is None:
            self._path(name).unlink(missing_ok=True)
        else:
            document = _DOCUMENTS.c.folder == self._folder.name, _DOCUMENTS.c.name == name
            self._db.run(lambda db: db.execute(delete(_DOCUMENTS).where(*document)))

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    @cached_property
    def _db(self) -> PostgresState | None:
        return PostgresState(self._place, _TABLES) if isinstance(self._place, Postgres) else None
