"""Files of many pieces each, and the index that tells where each piece lies.

A pack is pieces one after another, each a zstd frame of a line about it (JSON) and its bytes. It is written whole, to
the disk, and never changed; many pieces share a file because a file costs more than what is in it. The index (SQLite)
is made of the packs and can be made of them again: those that it does not know, because their writer was killed in
between, are taken into it when it is opened. What the pieces mean is ``archive``'s matter.
"""

from __future__ import annotations

import json
import logging
import re
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import zstandard

from holderlake.storage.atomic_files import write_whole
from holderlake.storage.locks import locked
from holderlake.storage.names import BadName, digest_name
from holderlake.storage.sqlite import DamagedDatabase, Database, DatabaseError

SUFFIX: Final = ".zst"

_log = logging.getLogger(__name__)
_INDEX: Final = "index.sqlite"
_CHECKED_BYTES: Final = 16 << 20
"""An index of up to this size is checked whenever it is opened, in less than a tenth of a second."""
_REMEDY: Final = "move it away, and it is made again from the archive's segments"
_LEVEL: Final = 1
_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_HEAD_BYTES: Final = 4_096
_TICK: Final = 2_000_000_000
"""Nanoseconds within which a folder may change twice and keep its time of change."""
_PACK: Final = re.compile(r"(packs/[0-9-]{10}|[0-9a-f]{2}|superseded/[0-9a-f]{2})/[0-9a-f-]+\.zst")
_FOLDERS: Final = ("packs/*", "[0-9a-f][0-9a-f]", "superseded/??")
"""Where packs are. In the last two an earlier version kept each piece in a file of its own, named after it."""

_SCHEMA: Final = (
    """
    CREATE TABLE IF NOT EXISTS pieces (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL,
        sha256 TEXT NOT NULL,
        fetched_at TEXT NOT NULL,
        pack TEXT NOT NULL,
        start INTEGER NOT NULL,
        length INTEGER NOT NULL,
        superseded INTEGER NOT NULL DEFAULT 0,
        UNIQUE (pack, start)
    )
    """,
    "CREATE UNIQUE INDEX IF NOT EXISTS present ON pieces (name) WHERE superseded = 0",
    "CREATE INDEX IF NOT EXISTS pieces_by_name ON pieces (name)",
    # A folder that has not changed since it was looked through needs no second look.
    "CREATE TABLE IF NOT EXISTS folders (name TEXT PRIMARY KEY, changed INTEGER NOT NULL) WITHOUT ROWID",
)
_COLUMNS: Final = "id, name, sha256, fetched_at, pack, start, length, superseded"
_SIZES: Final = "SELECT count(*), coalesce(sum(length), 0) FROM pieces WHERE superseded = 0"
_NEWEST: Final = "SELECT max(fetched_at) FROM (SELECT fetched_at FROM pieces ORDER BY id DESC LIMIT 64)"
"""Of the pieces entered last: to look through all of them would take long."""
_KNOWN: Final = "SELECT json_group_array(start) FROM pieces WHERE pack = ?"
_SUPERSEDE: Final = """
    UPDATE pieces
    SET superseded = 1
    WHERE superseded = 0 AND name IN (SELECT json_extract(value, '$[0]') FROM json_each(?))
"""
_LATEST: Final = """
    UPDATE pieces
    SET superseded = 0
    WHERE id = (SELECT id FROM pieces WHERE name = ? ORDER BY fetched_at DESC, id DESC LIMIT 1)
"""
_INSERT: Final = """
    INSERT INTO pieces (name, sha256, fetched_at, start, length, superseded, pack)
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
        json_extract(value, '$[3]'), json_extract(value, '$[4]'), json_extract(value, '$[5]'), ?
    FROM json_each(?)
    ORDER BY key
"""


class DamagedPiece(Exception):
    """The bytes of a piece are not what they were when it was written."""


@dataclass(frozen=True)
class Piece:
    """What is put into a pack: ``about`` names its ``digest``, ``sha256`` (of ``raw``) and ``fetched_at``."""

    about: Mapping[str, Any]
    raw: bytes = field(repr=False)


@dataclass(frozen=True)
class Place:
    """Where a piece lies. ``superseded`` (0 or 1): a later one of the same name took its place."""

    id: int
    name: str
    sha256: str
    fetched_at: str
    pack: str
    start: int
    length: int
    superseded: int


class Packs:
    """The packs and their index in the folder ``root``, for any number of threads and processes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._inode: int | None = None

    def add(self, pieces: Sequence[Piece]) -> None:
        """Puts pieces in one new pack; each takes the place of an earlier one of its name. Raises ``OSError``."""
        packer = zstandard.ZstdCompressor(_LEVEL, write_checksum=True)
        frames = [packer.compress(_line(piece.about) + piece.raw) for piece in pieces]
        pack = self._new_pack(pieces[0].about["fetched_at"])
        write_whole(self.root / pack, b"".join(frames))
        try:
            self._changed(lambda db: _enter(db, pack, _laid_out((piece.about for piece in pieces), frames)))
        except DatabaseError as error:  # the pack is there: who opens the index next finds it
            raise OSError(str(error)) from error

    def find(self, name: str) -> Place | None:
        """The present piece of that name."""
        found = self._select("WHERE name = ? AND superseded = 0", name)
        return found[0] if found else None

    def all_of(self, name: str) -> list[Place]:
        """All pieces of that name, the present one first, then the latest."""
        return self._select("WHERE name = ? ORDER BY superseded, id DESC", name)

    def places(self) -> list[Place]:
        """All pieces by name; superseded ones after all others."""
        return self._select("ORDER BY superseded, name, id")

    def sizes(self) -> tuple[int, int]:
        """How many pieces are present, and their bytes on disk."""
        if not self._is_there():
            return 0, 0
        ((count, stored),) = self._rows(_SIZES)
        return int(count), int(stored)

    def newest(self) -> str | None:
        """Return when the piece that was fetched last was fetched, as its text; None where there is none."""
        if not self._is_there():
            return None
        ((newest,),) = self._rows(_NEWEST)
        return None if newest is None else str(newest)

    def check_index(self) -> None:
        """Compare every part of the index with every other. Raises ``DatabaseError`` where they differ."""
        if self._is_there():
            _check(self._index, self.root / _INDEX)

    def stored(self, place: Place) -> bytes:
        """The bytes of a piece as they lie in its pack. Raises ``FileNotFoundError``."""
        with (self.root / place.pack).open("rb") as file:
            file.seek(place.start)
            return file.read(place.length)

    def about(self, place: Place) -> dict[str, Any]:
        """The line about a piece, without unpacking all of it. Raises ``DamagedPiece``, ``FileNotFoundError``."""
        reader = zstandard.ZstdDecompressor().stream_reader(self.stored(place))
        head = b""
        try:
            while b"\n" not in head and (more := reader.read(_HEAD_BYTES)):
                head += more
            return _told(head)
        except (zstandard.ZstdError, ValueError, KeyError, TypeError) as error:
            raise DamagedPiece(str(error)) from error

    def read(self, place: Place) -> Piece:
        """A piece, whose bytes are not checked against its hash. Raises ``DamagedPiece``, ``FileNotFoundError``."""
        try:
            text, _ = _unpacked(self.stored(place))
            return Piece(_told(text), text.partition(b"\n")[2])
        except (zstandard.ZstdError, ValueError, KeyError, TypeError) as error:
            raise DamagedPiece(str(error)) from error

    def forget(self, place: Place) -> None:
        """Takes a piece out of the index, unless it lies elsewhere by now."""
        self._changed(lambda db: db.execute("DELETE FROM pieces WHERE id = ? AND pack = ?", (place.id, place.pack)))

    def remove(self, places: Iterable[Place]) -> None:
        """Removes pieces for good: packs of theirs that hold others are written anew without them."""
        chosen = list(places)
        for pack in dict.fromkeys(place.pack for place in chosen):
            gone = [(place.id,) for place in chosen if place.pack == pack]
            with self._index.transaction() as db:  # nobody looks for unknown packs meanwhile
                db.executemany("DELETE FROM pieces WHERE id = ?", gone)
                left = _places(db.execute, "WHERE pack = ? ORDER BY start", pack)
                if left:
                    self._move(db, left)
            (self.root / pack).unlink(missing_ok=True)

    def set_aside(self, pack: str, folder: Path) -> list[str]:
        """Move a damaged pack into ``folder`` and its readable pieces into a new pack. Returns the names that are lost.

        The file itself is read, not the index, which may be what is damaged.
        """
        folder.mkdir(parents=True, exist_ok=True)
        with self._index.transaction() as db:
            listed = {place.name for place in _places(db.execute, "WHERE pack = ?", pack)}
            stored, entries = (self.root / pack).read_bytes(), list(_entries(self.root / pack))
            db.execute("DELETE FROM pieces WHERE pack = ?", (pack,))
            if entries and not pack.startswith("packs/"):  # named after its only piece, which is readable
                _enter(db, pack, entries)
                return []
            if entries:
                self._enter_readable(db, stored, entries)
            (self.root / pack).replace(folder / Path(pack).name)
        return sorted(listed - {entry[0] for entry in entries})

    def _enter_readable(self, db: sqlite3.Connection, stored: bytes, entries: Sequence[tuple[Any, ...]]) -> None:
        """Write the readable frames of a pack to a new one. Of each name the piece fetched last is the present one."""
        pack = self._new_pack(entries[0][2])
        frames = [stored[start : start + length] for _, _, _, start, length in entries]
        write_whole(self.root / pack, b"".join(frames))
        abouts = ({"digest": name, "sha256": sha, "fetched_at": at} for name, sha, at, _, _ in entries)
        _enter(db, pack, _laid_out(abouts, frames))
        for name in {entry[0] for entry in entries}:
            db.execute("UPDATE pieces SET superseded = 1 WHERE name = ?", (name,))
            db.execute(_LATEST, (name,))

    def _move(self, db: sqlite3.Connection, places: Sequence[Place]) -> None:
        """Writes pieces to a new pack."""
        pack = self._new_pack(places[0].fetched_at)
        frames = [self.stored(place) for place in places]
        write_whole(self.root / pack, b"".join(frames))
        start = 0
        for place, frame in zip(places, frames, strict=True):
            db.execute("UPDATE pieces SET pack = ?, start = ? WHERE id = ?", (pack, start, place.id))
            start += len(frame)

    @cached_property
    def _index(self) -> Database:
        try:
            return self._opened_index()
        except DamagedDatabase as error:
            self._set_index_aside(error)
            return self._opened_index()

    def _opened_index(self) -> Database:
        path = self.root / _INDEX
        index = Database(path, _SCHEMA, "NORMAL", _REMEDY)
        self._inode = path.stat().st_ino
        if path.stat().st_size <= _CHECKED_BYTES:
            _check(index, path)
        with index.transaction() as db:
            self._take_up(db)
        return index

    def _set_index_aside(self, error: DamagedDatabase) -> None:
        """Move a damaged index to the damaged files, unless another process did: it is made again from the packs."""
        self.__dict__.pop("_index", None)
        with locked(self.root / f"{_INDEX}.lock"):
            path = self.root / _INDEX
            if self._inode is not None and (not path.exists() or path.stat().st_ino != self._inode):
                return
            folder = self.root / "damaged" / f"index-{uuid.uuid4().hex[:12]}"
            folder.mkdir(parents=True)
            for file in (path, *self.root.glob(f"{_INDEX}-*")):
                if file.exists():
                    file.replace(folder / file.name)
            _log.warning("%s. It is made again from the archive's segments; the damaged one is in %s", error, folder)

    def _changed(self, work: Callable[[sqlite3.Connection], Any]) -> None:
        """Do work on the index in a transaction; once more where the index was damaged and was made again."""
        try:
            with self._index.transaction() as db:
                work(db)
        except DamagedDatabase as error:
            self._set_index_aside(error)
            with self._index.transaction() as db:
                work(db)

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._index.rows(query, values)
        except DamagedDatabase as error:
            self._set_index_aside(error)
            return self._index.rows(query, values)

    def _take_up(self, db: sqlite3.Connection) -> None:
        """Makes the index know what is there, as after a crash or the loss of the index: oldest pieces first."""
        known = dict(db.execute("SELECT name, changed FROM folders").fetchall())
        found: list[tuple[str, str, int, tuple[Any, ...]]] = []
        for folder in (folder for pattern in _FOLDERS for folder in self.root.glob(pattern)):
            name, changed = folder.relative_to(self.root).as_posix(), folder.stat().st_mtime_ns
            if known.get(name) == changed:
                continue
            there = {f"{name}/{path.name}" for path in folder.glob(f"*{SUFFIX}") if not path.name.startswith(".")}
            listed = {
                pack for (pack,) in db.execute("SELECT DISTINCT pack FROM pieces WHERE pack GLOB ?", [f"{name}/*"])
            }
            db.executemany("DELETE FROM pieces WHERE pack = ?", [(pack,) for pack in listed - there])
            for pack in there - listed:
                found += [(entry[2], pack, entry[3], entry) for entry in _entries(self.root / pack)]
            if time.time_ns() - changed > _TICK:
                db.execute("INSERT OR REPLACE INTO folders VALUES (?, ?)", (name, changed))
        for _, pack, _, entry in sorted(found):
            _enter(db, pack, [entry])

    def _select(self, clauses: str, *values: str) -> list[Place]:
        if not self._is_there():
            return []
        return _places(self._rows, clauses, *values)

    def _is_there(self) -> bool:
        """Whether there may be something: asking makes no index."""
        return "_index" in vars(self) or self.root.exists()

    @staticmethod
    def _new_pack(fetched_at: str) -> str:
        return f"packs/{fetched_at[:10]}/{uuid.uuid4().hex}{SUFFIX}"


def _check(index: Database, path: Path) -> None:
    """Raise ``DamagedDatabase`` where parts of the index contradict each other."""
    ((found,),) = index.rows("PRAGMA integrity_check(1)")
    if found != "ok":
        raise DamagedDatabase(f"{path} is damaged ({found}); {_REMEDY}")


def _line(about: Mapping[str, Any]) -> bytes:
    return json.dumps(about, separators=(",", ":")).encode() + b"\n"


def _told(text: bytes) -> dict[str, Any]:
    line, end, _ = text.partition(b"\n")
    about = json.loads(line)
    if not end or not isinstance(about, dict):
        raise ValueError("the line about it is not whole")
    return about


def _unpacked(stored: bytes) -> tuple[bytes, int]:
    """The text of the first frame and its length. Raises ``ZstdError``, ``ValueError``."""
    reader = zstandard.ZstdDecompressor().decompressobj()  # trusts no size that a damaged file may claim
    text = reader.decompress(stored)
    if not reader.eof:
        raise ValueError("it ends too early")
    return text, len(stored) - len(reader.unused_data)


def _laid_out(abouts: Iterable[Mapping[str, Any]], frames: Iterable[bytes]) -> Iterator[tuple[Any, ...]]:
    """Name, hash, time, start and length of pieces one after another."""
    start = 0
    for about, frame in zip(abouts, frames, strict=True):
        yield about["digest"], about["sha256"], about["fetched_at"], start, len(frame)
        start += len(frame)


def _entries(path: Path) -> Iterator[tuple[Any, ...]]:
    """The same of the pieces in a pack; damaged ones are passed over."""
    stored, start = path.read_bytes(), 0
    alone = {"digest": path.stem.partition("-")[0]}  # the name of a file that holds a single piece
    while 0 <= start < len(stored):
        length = 0
        with suppress(zstandard.ZstdError, ValueError, KeyError, TypeError, BadName):
            text, length = _unpacked(stored[start:])
            about = alone | _told(text)
            yield digest_name(about["digest"]), digest_name(about["sha256"]), about["fetched_at"], start, length
        start = start + length if length else stored.find(_MAGIC, start + 1)


def _enter(db: sqlite3.Connection, pack: str, entries: Iterable[tuple[Any, ...]]) -> None:
    """Makes the index know the pieces of a pack, unless somebody else did already."""
    (known,) = db.execute(_KNOWN, (pack,)).fetchone()
    there = set(json.loads(known))
    fresh = [entry for entry in entries if entry[3] not in there]
    last = {entry[0]: place for place, entry in enumerate(fresh)}
    rows = json.dumps([(*entry, int(last[entry[0]] > place)) for place, entry in enumerate(fresh)])
    db.execute(_SUPERSEDE, (rows,))
    db.execute(_INSERT, (pack, rows))


def _places(ask: Callable[[str, Sequence[Any]], Iterable[Any]], clauses: str, *values: str) -> list[Place]:
    """Return the places of pieces; a row that names no pack of ours is left out, for files at it may be removed."""
    found = (Place(*row) for row in ask(f"SELECT {_COLUMNS} FROM pieces {clauses}", values))
    return [place for place in found if _PACK.fullmatch(place.pack)]
