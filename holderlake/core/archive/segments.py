"""Segments: files that hold many archived answers (pieces), and the index of the pieces.

A segment is a sequence of zstd frames. Each frame is a piece: a line of JSON (metadata), then the answer's bytes. A
segment is written once, synced, and never changed. Pieces share files because each file costs time and space. The index
(SQLite) can be rebuilt from the segments. Opening it adds segments that are not in it, because
a process was killed after writing them.
"""

from __future__ import annotations

import json
import logging
import re
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import zstandard

from holderlake.core.archive.pieces import (
    DamagedPiece,
    Entry,
    Piece,
    about_of,
    decompressed,
    encoded,
    entries_in,
    rows_of,
)
from holderlake.core.storage.atomic_files import write_whole
from holderlake.core.storage.formats import FORMAT_FILE, format_fault, read_format, write_format
from holderlake.core.storage.locks import locked
from holderlake.core.storage.sqlite import DamagedDatabase, Database, DatabaseError

SUFFIX: Final = ".zst"
FORMAT: Final = 1
"""Format of the archive: of its segments, its index, and its records of commits."""

_log = logging.getLogger(__name__)
_INDEX: Final = "index.sqlite"
_CHECKED_BYTES: Final = 16 << 20
"""Bytes. An index up to this size is checked when it is opened, in less than a tenth of a second."""
_REMEDY: Final = "move it away, and it is rebuilt from the archive's segments"
_LEVEL: Final = 1
_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_HEAD_BYTES: Final = 4_096
_TICK: Final = 2_000_000_000
"""Nanoseconds. Two changes of a folder within this time may have the same time stamp."""
SEGMENT: Final = re.compile(r"packs/[0-9-]{10}/[0-9a-f-]+\.zst")

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
    # A folder that has not changed since it was read is not read again.
    "CREATE TABLE IF NOT EXISTS folders (name TEXT PRIMARY KEY, changed INTEGER NOT NULL) WITHOUT ROWID",
)
_COLUMNS: Final = "id, name, sha256, fetched_at, pack, start, length, superseded"
_SIZES: Final = "SELECT count(*), coalesce(sum(length), 0) FROM pieces WHERE superseded = 0"
_NEWEST: Final = "SELECT max(fetched_at) FROM (SELECT fetched_at FROM pieces ORDER BY id DESC LIMIT 64)"
"""Latest fetch time among the 64 pieces that were added last: a scan of all pieces would be slow."""
_KNOWN_STARTS: Final = "SELECT json_group_array(start) FROM pieces WHERE pack = ?"
_CURRENT: Final = """
    SELECT name
    FROM json_each(?) AS wanted
    CROSS JOIN pieces ON name = wanted.value AND superseded = 0 AND fetched_at >= ?
"""
_PAGE: Final = """
    SELECT {columns}
    FROM pieces
    WHERE superseded = {superseded} AND (name, id) > (?, ?)
    ORDER BY name, id
    LIMIT ?
"""
_NAMES_AT_ONCE: Final = 10_000
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


@dataclass(frozen=True)
class Place:
    """The location of a piece: the name of its segment, and its ``start`` and ``length`` in bytes.

    ``superseded`` is 1 if a later piece of this name replaced it, else 0.
    """

    id: int
    name: str
    sha256: str
    fetched_at: str
    segment: str
    start: int
    length: int
    superseded: int


class Segments:
    """The segments and their index in the folder ``root``, for any number of threads and processes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.name = str(root)
        self._inode: int | None = None

    def refresh(self, *, all_segments: bool = False) -> None:
        """Learn of the segments that other hosts have written elsewhere. A folder has its own only."""

    def copy_from(self, folder_segments: Segments) -> int:
        """Copy the segments that this place elsewhere lacks, and return their number. A folder lacks none."""
        return 0

    def _write(self, frames: Sequence[bytes], entries: Sequence[Entry]) -> str:
        """Write compressed pieces (``frames``) to a new segment, and return its name.

        ``entries`` are (name, SHA-256, fetch time, start, length) of the pieces.
        """
        segment = f"packs/{entries[0][2][:10]}/{uuid.uuid4().hex}{SUFFIX}"
        write_whole(self.root / segment, b"".join(frames))
        return segment

    def _read(self, segment: str) -> bytes:
        """Return the bytes of a segment. Raises ``FileNotFoundError``."""
        return self._path(segment).read_bytes()

    def _path(self, segment: str) -> Path:
        """Return the path of a segment that the index names. Raises ``DatabaseError`` for any other name."""
        if not SEGMENT.fullmatch(segment):
            raise DatabaseError(f"{self.root / _INDEX} is damaged (it names the segment {segment!r}); {_REMEDY}")
        return self.root / segment

    def _delete(self, segment: str) -> None:
        self._path(segment).unlink(missing_ok=True)

    def _move(self, segment: str, folder: Path) -> None:
        """Move a damaged segment into ``folder``."""
        self._path(segment).replace(folder / Path(segment).name)

    def add(self, pieces: Sequence[Piece]) -> None:
        """Write pieces to one new segment. Earlier pieces of the same names become superseded. Raises ``OSError``."""
        frames = encoded(pieces)
        entries = list(rows_of((piece.about for piece in pieces), frames))
        segment = self._write(frames, entries)
        try:
            self._changed(lambda db: enter(db, segment, entries))
        except DatabaseError as error:  # the segment exists: the index adds it when it is opened again
            raise OSError(str(error)) from error

    def find(self, name: str) -> Place | None:
        """Return the location of the current piece of a name; None if there is none."""
        places = self._select("WHERE name = ? AND superseded = 0", name)
        return places[0] if places else None

    def current(self, names: Sequence[str], since: str = "") -> set[str]:
        """Return those of the names that have a current piece, fetched at or after ``since`` (ISO 8601 text, UTC)."""
        if not self._exists():
            return set()
        parts = (names[start : start + _NAMES_AT_ONCE] for start in range(0, len(names), _NAMES_AT_ONCE))
        return {name for part in parts for (name,) in self._rows(_CURRENT, (json.dumps(part), since))}

    def all_of(self, name: str) -> list[Place]:
        """Return the locations of all pieces of a name: the current piece, then the superseded ones, latest first."""
        return self._select("WHERE name = ? ORDER BY superseded, id DESC", name)

    def places(self) -> Iterator[Place]:
        """Yield the locations of all pieces: first the current ones, sorted by name, then the superseded ones.

        The index is read in batches of ten thousand locations, so memory does not grow with the archive.
        """
        for superseded in (0, 1) if self._exists() else ():
            query, last_place = _PAGE.format(columns=_COLUMNS, superseded=superseded), ("", 0)
            while page := self._rows(query, (*last_place, _NAMES_AT_ONCE)):
                last_place = page[-1][1], page[-1][0]
                yield from _as_places(page)

    def sizes(self) -> tuple[int, int]:
        """Return the number of current pieces, and their compressed bytes."""
        if not self._exists():
            return 0, 0
        ((count, compressed_bytes),) = self._rows(_SIZES)
        return int(count), int(compressed_bytes)

    def newest(self) -> str | None:
        """Return the fetch time of the newest piece (ISO 8601 text, UTC); None if there are no pieces."""
        if not self._exists():
            return None
        ((newest,),) = self._rows(_NEWEST)
        return None if newest is None else str(newest)

    def check_index(self) -> None:
        """Check the integrity of the index file. Raises ``DatabaseError``."""
        if self._exists():
            _check(self._index, self.root / _INDEX)

    def piece_bytes(self, place: Place) -> bytes:
        """Return the compressed bytes of a piece. Raises ``FileNotFoundError``."""
        with self._path(place.segment).open("rb") as file:
            file.seek(place.start)
            return file.read(place.length)

    def about(self, place: Place) -> dict[str, Any]:
        """Return the metadata of a piece, not its answer. Raises ``DamagedPiece`` and ``FileNotFoundError``."""
        reader = zstandard.ZstdDecompressor().stream_reader(self.piece_bytes(place))
        head = b""
        try:
            while b"\n" not in head and (chunk := reader.read(_HEAD_BYTES)):
                head += chunk
            return about_of(head)
        except (zstandard.ZstdError, ValueError, KeyError, TypeError) as error:
            raise DamagedPiece(str(error)) from error

    def read(self, place: Place) -> Piece:
        """Read and return a piece, without checking its hash. Raises ``DamagedPiece`` and ``FileNotFoundError``."""
        try:
            text, _ = decompressed(self.piece_bytes(place))
            return Piece(about_of(text), text.partition(b"\n")[2])
        except (zstandard.ZstdError, ValueError, KeyError, TypeError) as error:
            raise DamagedPiece(str(error)) from error

    def forget(self, place: Place) -> None:
        """Remove a piece from the index, unless the piece was moved to another segment."""
        self._changed(lambda db: db.execute("DELETE FROM pieces WHERE id = ? AND pack = ?", (place.id, place.segment)))

    def remove(self, places: Iterable[Place]) -> None:
        """Delete pieces and their segments. Other pieces of these segments are first moved to new segments."""
        pieces = list(places)
        for segment in dict.fromkeys(place.segment for place in pieces):
            piece_ids = [(place.id,) for place in pieces if place.segment == segment]
            with self._index.transaction() as db:  # meanwhile no other process adds unknown segments
                db.executemany("DELETE FROM pieces WHERE id = ?", piece_ids)
                places_left = _places(db.execute, "WHERE pack = ? ORDER BY start", segment)
                if places_left:
                    self._copy(db, places_left)
            self._delete(segment)

    def set_aside(self, segment: str, folder: Path) -> list[str]:
        """Move a damaged segment into ``folder``, copy its readable pieces to a new segment, and return the lost names.

        The readable pieces are found in the file, not in the index, which may be damaged too.
        """
        folder.mkdir(parents=True, exist_ok=True)
        with self._index.transaction() as db:
            listed = {place.name for place in _places(db.execute, "WHERE pack = ?", segment)}
            content = self._read(segment)
            entries = list(entries_in(content))
            db.execute("DELETE FROM pieces WHERE pack = ?", (segment,))
            if entries:
                self._enter_readable(db, content, entries)
            self._move(segment, folder)
        return sorted(listed - {entry[0] for entry in entries})

    def _enter_readable(self, db: sqlite3.Connection, content: bytes, entries: Sequence[Entry]) -> None:
        """Write the readable pieces of a damaged segment to a new segment.

        ``content`` are the segment's bytes; ``entries`` are (name, SHA-256, fetch time, start, length) of these pieces.
        If several pieces have one name, the piece that was fetched last becomes the current one.
        """
        frames = [content[start : start + length] for _, _, _, start, length in entries]
        abouts = ({"digest": name, "sha256": sha, "fetched_at": at} for name, sha, at, _, _ in entries)
        new_entries = list(rows_of(abouts, frames))
        enter(db, self._write(frames, new_entries), new_entries)
        supersede(db, {entry[0] for entry in entries})

    def _copy(self, db: sqlite3.Connection, places: Sequence[Place]) -> None:
        """Copy pieces to one new segment, and point the index to it."""
        frames = [self.piece_bytes(place) for place in places]
        abouts = ({"digest": place.name, "sha256": place.sha256, "fetched_at": place.fetched_at} for place in places)
        new_entries = list(rows_of(abouts, frames))
        segment = self._write(frames, new_entries)
        for place, entry in zip(places, new_entries, strict=True):
            db.execute("UPDATE pieces SET pack = ?, start = ? WHERE id = ?", (segment, entry[3], place.id))

    @cached_property
    def _index(self) -> Database:
        try:
            return self._opened_index()
        except DamagedDatabase as error:
            self._set_index_aside(error)
            return self._opened_index()

    def check_format(self) -> None:
        """Raise ``DatabaseError`` for an archive of another format than this version reads."""
        if fault := format_fault(self.root, read_format(self.root, FORMAT)["format"], FORMAT):
            raise DatabaseError(fault)

    def _opened_index(self) -> Database:
        self.check_format()
        path = self.root / _INDEX
        index = Database(path, _SCHEMA, "NORMAL", _REMEDY)
        self._inode = path.stat().st_ino
        if path.stat().st_size <= _CHECKED_BYTES:
            _check(index, path)
        with index.transaction() as db:
            self._add_unknown(db)
        if not (self.root / FORMAT_FILE).exists():
            with suppress(OSError):  # a full disk: reading goes on, and the next opening writes it
                write_format(self.root, FORMAT)
        return index

    def _set_index_aside(self, error: DamagedDatabase) -> None:
        """Move a damaged index away, unless another process did. The next opening rebuilds it from the segments."""
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
            _log.warning("%s. It is rebuilt from the archive's segments; the damaged one is in %s", error, folder)

    def _changed(self, work: Callable[[sqlite3.Connection], Any]) -> None:
        """Run ``work`` on the index in a transaction; if the index is damaged, rebuild it and repeat."""
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

    def _add_unknown(self, db: sqlite3.Connection) -> None:
        """Add segments that the index lacks, oldest pieces first, and remove entries of segments that are gone."""
        known_folders = dict(db.execute("SELECT name, changed FROM folders").fetchall())
        new_entries: list[tuple[str, str, int, Entry]] = []
        for folder in self.root.glob("packs/*"):
            name, changed = folder.relative_to(self.root).as_posix(), folder.stat().st_mtime_ns
            if known_folders.get(name) == changed:
                continue
            present = {f"{name}/{path.name}" for path in folder.glob(f"*{SUFFIX}") if not path.name.startswith(".")}
            listed = {
                segment
                for (segment,) in db.execute("SELECT DISTINCT pack FROM pieces WHERE pack GLOB ?", [f"{name}/*"])
            }
            db.executemany("DELETE FROM pieces WHERE pack = ?", [(segment,) for segment in listed - present])
            for segment in present - listed:
                new_entries += [(entry[2], segment, entry[3], entry) for entry in entries_in(self._read(segment))]
            if time.time_ns() - changed > _TICK:
                db.execute("INSERT OR REPLACE INTO folders VALUES (?, ?)", (name, changed))
        for _, segment, _, entry in sorted(new_entries):
            enter(db, segment, [entry])

    def _select(self, clauses: str, *values: str) -> list[Place]:
        if not self._exists():
            return []
        return _places(self._rows, clauses, *values)

    def _exists(self) -> bool:
        """Return whether the archive may have pieces, without creating an index."""
        return "_index" in vars(self) or self.root.exists()


def _check(index: Database, path: Path) -> None:
    """Raise ``DamagedDatabase`` if SQLite's integrity check of the index fails."""
    ((result,),) = index.rows("PRAGMA integrity_check(1)")
    if result != "ok":
        raise DamagedDatabase(f"{path} is damaged ({result}); {_REMEDY}")


def enter(db: sqlite3.Connection, segment: str, entries: Iterable[Entry]) -> None:
    """Add a segment's pieces to the index, unless it has them.

    ``entries`` are (name, SHA-256, fetch time, start, length) of the pieces.
    """
    (starts,) = db.execute(_KNOWN_STARTS, (segment,)).fetchone()
    known_starts = set(json.loads(starts))
    fresh = [entry for entry in entries if entry[3] not in known_starts]
    last_index = {entry[0]: place for place, entry in enumerate(fresh)}
    rows = json.dumps([(*entry, int(last_index[entry[0]] > place)) for place, entry in enumerate(fresh)])
    db.execute(_SUPERSEDE, (rows,))
    db.execute(_INSERT, (segment, rows))


def supersede(db: sqlite3.Connection, names: Iterable[str]) -> None:
    """Make the piece of each name that was fetched last its current one."""
    for name in names:
        db.execute("UPDATE pieces SET superseded = 1 WHERE name = ?", (name,))
        db.execute(_LATEST, (name,))


def _places(ask: Callable[[str, Sequence[Any]], Iterable[Any]], clauses: str, *values: str) -> list[Place]:
    """Return locations of the pieces that the SQL ``clauses`` select with their ``values``. ``ask`` runs a query.

    A row of the index is left out if its path is not that of a segment, because callers may delete the returned files.
    """
    return _as_places(ask(f"SELECT {_COLUMNS} FROM pieces {clauses}", values))


def _as_places(rows: Iterable[Any]) -> list[Place]:
    return [place for place in (Place(*row) for row in rows) if SEGMENT.fullmatch(place.segment)]
