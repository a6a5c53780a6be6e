"""Copies on this host of a bucket's manifests and Parquet files.

Manifests are rows of a SQLite file, each with the version of its object. A file is named by its SHA-256, so a copy is
never outdated. Above a limit of bytes, the copies used longest ago are deleted. The folder may be deleted at any time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeVar
from uuid import uuid4

from sqlalchemy import Column, LargeBinary, MetaData, Table, Text, bindparam, delete, insert, select

from holderlake.core.storage.sqlite import DamagedDatabase
from holderlake.core.storage.state import State
from holderlake.scale.bucket.objects import Version

Result = TypeVar("Result")

_TABLES: Final = MetaData()
_MANIFESTS: Final = Table(
    "manifests",
    _TABLES,
    Column("name", Text, primary_key=True),
    *(Column(name, Text, nullable=False) for name in ("e_tag", "number")),
    Column("text", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)
_COPY: Final = _MANIFESTS.c
_LAST_CHARACTER: Final = "\U0010ffff"
_PAGE: Final = 1_000
_KEPT_PART: Final = 0.8
"""Part of the limit that the files have after the oldest ones were deleted."""
_CHECKS: Final = 16
"""The size of all files is added up again each time that this part of the limit was written."""


class Copy(NamedTuple):
    """The copy of a manifest's object: its name, version and bytes."""

    name: str
    version: Version
    text: bytes


class BucketCache:
    """The copies of a bucket's files in the folder ``root``, with about ``limit`` bytes of Parquet files at most."""

    def __init__(self, root: Path, limit: int) -> None:
        self._path = root / "manifests.sqlite"
        self._files = root / "files"
        self._limit = limit
        self._unchecked = limit  # so that the first file starts a check
        self._database: State | None = None

    def e_tags(self, prefix: str) -> dict[str, str]:
        """Return the ETags, as in listings, of the manifests with this prefix of their names."""
        query = select(_COPY.name, _COPY.e_tag).where(_COPY.name >= prefix, _COPY.name < prefix + _LAST_CHARACTER)
        return {name: Version(e_tag).listed for name, e_tag in self._run(lambda database: database.rows(query))}

    def text(self, name: str) -> bytes | None:
        """Return the copy of a manifest; None if there is none."""
        rows = self._run(lambda database: database.rows(select(_COPY.text).where(_COPY.name == name)))
        return rows[0][0] if rows else None

    def texts(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        """Yield name and bytes of the manifests with this prefix, by name, without holding all in memory."""
        query = select(_COPY.name, _COPY.text).where(_COPY.name < prefix + _LAST_CHARACTER).order_by(_COPY.name)
        after_name = prefix
        while True:
            page = self._run(partial(State.rows, query=query.where(_COPY.name > after_name).limit(_PAGE)))
            yield from ((name, text) for name, text in page)
            if len(page) < _PAGE:
                return
            after_name = page[-1][0]

    def update(self, copies: Iterable[Copy], removed_names: Iterable[str] = ()) -> None:
        """Add or replace copies of manifests, and remove those of ``removed_names``."""
        rows = [
            {"name": copy.name, "e_tag": copy.version.e_tag, "number": copy.version.number, "text": copy.text}
            for copy in copies
        ]
        names = [{"old": name} for name in (*removed_names, *(row["name"] for row in rows))]

        def write(database: State) -> None:
            with database.transaction() as db:
                db.execute(delete(_MANIFESTS).where(_COPY.name == bindparam("old")), names)
                if rows:
                    db.execute(insert(_MANIFESTS), rows)

        if names:
            self._run(write)

    def path(self, sha256: str) -> Path:
        """Return the path of the copy of a Parquet file, existing or not."""
        return self._files / sha256[:2] / f"{sha256}.parquet"

    def use(self, sha256: str) -> bool:
        """Return True if there is a copy of the file, and note that it was used now."""
        try:
            os.utime(self.path(sha256))
        except FileNotFoundError:
            return False
        return True

    def add(self, files: Mapping[str, bytes]) -> None:
        """Add copies of Parquet files (bytes by SHA-256), and delete the oldest ones above the limit."""
        for sha256, data in files.items():
            self._write(self.path(sha256), data)
            self._unchecked += len(data)
        if self._unchecked > self._limit // _CHECKS:
            self._unchecked = 0
            self._shrink(set(files))

    def drop(self, sha256: str) -> bool:
        """Delete the copy of a file. Return False if there is none."""
        path = self.path(sha256)
        is_there = path.exists()
        path.unlink(missing_ok=True)
        return is_there

    @staticmethod
    def _write(path: Path, data: bytes) -> None:
        """Write a file without a sync: a copy that a power cut damages is downloaded again."""
        part = path.with_name(f".{uuid4().hex}")
        try:
            part.write_bytes(data)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(data)
        part.replace(path)

    def _shrink(self, keep: set[str]) -> None:
        files = []
        for path in self._files.glob("??/*.parquet"):
            with suppress(FileNotFoundError):
                stat = path.stat()
                files.append((stat.st_mtime_ns, stat.st_size, path))
        bytes_left = sum(size for _, size, _ in files)
        if bytes_left <= self._limit:
            return
        for _, size, path in sorted(files):
            if bytes_left <= self._limit * _KEPT_PART:
                return
            if path.stem not in keep:
                path.unlink(missing_ok=True)
                bytes_left -= size

    def _run(self, work: Callable[[State], Result]) -> Result:
        """Run ``work`` on the database of manifests. Delete a damaged database and repeat: it has copies only."""
        try:
            return work(self._opened())
        except DamagedDatabase:
            self._database = None
            for path in self._path.parent.glob(f"{self._path.name}*"):
                path.unlink(missing_ok=True)
            return work(self._opened())

    def _opened(self) -> State:
        if self._database is None:
            self._database = State(self._path, _TABLES, "NORMAL", "delete it: it has copies of the bucket only")
        return self._database
