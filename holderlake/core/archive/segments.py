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
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import zstandard
from sqlalchemy import (
    Column,
    Connection,
    Executable,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    bindparam,
    delete,
    func,
    insert,
    select,
    text,
    tuple_,
    update,
)

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
from holderlake.core.storage.atomic_files import is_full, write_whole
from holderlake.core.storage.formats import FORMAT_FILE, format_fault, read_format, write_format
from holderlake.core.storage.locks import locked
from holderlake.core.storage.sqlite import DamagedDatabase, DatabaseError
from holderlake.core.storage.state import Row, State, put

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

_TABLES: Final = MetaData()
_PIECES: Final = Table(
    "pieces",
    _TABLES,
    Column("id", Integer, primary_key=True),
    *(Column(name, Text, nullable=False) for name in ("name", "sha256", "fetched_at", "pack")),
    *(Column(name, Integer, nullable=False) for name in ("start", "length")),
    Column("superseded", Integer, nullable=False, server_default=text("0")),
    UniqueConstraint("pack", "start"),
)
_PIECE: Final = _PIECES.c
_IS_CURRENT: Final = text("superseded = 0")
Index("present", _PIECE.name, unique=True, sqlite_where=_IS_CURRENT)
Index("pieces_by_name", _PIECE.name)
# A folder that has not changed since it was read is not read again.
_FOLDERS: Final = Table(
    "folders",
    _TABLES,
    Column("name", Text, primary_key=True),
    Column("changed", Integer, nullable=False),
    sqlite_with_rowid=False,
)
_CURRENT: Final = text(
    "SELECT name FROM json_each(:names) AS wanted "
    "CROSS JOIN pieces ON name = wanted.value AND superseded = 0 AND fetched_at >= :since"
)
_NAMES_AT_ONCE: Final = 10_000
_LATEST: Final = text(
    "UPDATE pieces SET superseded = 0 "
    "WHERE id = (SELECT id FROM pieces WHERE name = :named ORDER BY fetched_at DESC, id DESC LIMIT 1)"
)
_SUPERSEDE: Final = update(_PIECES).where(_IS_CURRENT, _PIECE.name == bindparam("named")).values(superseded=1)
_REMOVE: Final = delete(_PIECES).where(_PIECE.pack == bindparam("segment"))


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
        places = self._select(select(_PIECES).where(_PIECE.name == name, _IS_CURRENT))
        return places[0] if places else None

    def current(self, names: Sequence[str], since: str = "") -> set[str]:
        """Return those of the names that have a current piece, fetched at or after ``since`` (ISO 8601 text, UTC)."""
        if not self._exists():
            return set()
        parts = (names[start : start + _NAMES_AT_ONCE] for start in range(0, len(names), _NAMES_AT_ONCE))
        return {name for part in parts for (name,) in self._rows(_CURRENT, {"names": json.dumps(part), "since": since})}

    def all_of(self, name: str) -> list[Place]:
        """Return the locations of all pieces of a name: the current piece, then the superseded ones, latest first."""
        return self._select(select(_PIECES).where(_PIECE.name == name).order_by(_PIECE.superseded, _PIECE.id.desc()))

    def places(self) -> Iterator[Place]:
        """Yield the locations of all pieces: first the current ones, sorted by name, then the superseded ones.

        The index is read in batches of ten thousand locations, so memory does not grow with the archive.
        """
        for superseded in (0, 1) if self._exists() else ():
            pages = select(_PIECES).where(text(f"superseded = {superseded}")).order_by(_PIECE.name, _PIECE.id)
            last_place = ("", 0)
            while page := self._rows(pages.where(tuple_(_PIECE.name, _PIECE.id) > last_place).limit(_NAMES_AT_ONCE)):
                last_place = page[-1][1], page[-1][0]
                yield from _as_places(page)

    def sizes(self) -> tuple[int, int]:
        """Return the number of current pieces, and their compressed bytes."""
        if not self._exists():
            return 0, 0
        query = select(func.count(), func.coalesce(func.sum(_PIECE.length), 0)).where(_IS_CURRENT)
        ((count, compressed_bytes),) = self._rows(query.select_from(_PIECES))
        return count, compressed_bytes

    def newest(self) -> str | None:
        """Return the fetch time of the newest piece (ISO 8601 text, UTC); None if there are no pieces.

        It is the latest among the 64 pieces that were added last: a scan of all pieces would be slow.
        """
        if not self._exists():
            return None
        last_pieces = select(_PIECE.fetched_at).order_by(_PIECE.id.desc()).limit(64).subquery()
        ((newest,),) = self._rows(select(func.max(last_pieces.c.fetched_at)))
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
        forgotten = _PIECE.id == place.id, _PIECE.pack == place.segment
        self._changed(lambda db: db.execute(delete(_PIECES).where(*forgotten)))

    def remove(self, places: Iterable[Place]) -> None:
        """Delete pieces and their segments. Other pieces of these segments are first moved to new segments."""
        pieces = list(places)
        for segment in dict.fromkeys(place.segment for place in pieces):
            piece_ids = [{"piece": place.id} for place in pieces if place.segment == segment]
            with self._index.transaction() as db:  # meanwhile no other process adds unknown segments
                db.execute(delete(_PIECES).where(_PIECE.id == bindparam("piece")), piece_ids)
                other_pieces = select(_PIECES).where(_PIECE.pack == segment).order_by(_PIECE.start)
                places_left = _as_places(db.execute(other_pieces))
                if places_left:
                    self._copy(db, places_left)
            self._delete(segment)

    def set_aside(self, segment: str, folder: Path) -> list[str]:
        """Move a damaged segment into ``folder``, copy its readable pieces to a new segment, and return the lost names.

        The readable pieces are found in the file, not in the index, which may be damaged too.
        """
        folder.mkdir(parents=True, exist_ok=True)
        with self._index.transaction() as db:
            listed = {*db.scalars(select(_PIECE.name).where(_PIECE.pack == segment))}
            content = self._read(segment)
            entries = list(entries_in(content))
            db.execute(_REMOVE, {"segment": segment})
            if entries:
                self._enter_readable(db, content, entries)
            self._move(segment, folder)
        return sorted(listed - {entry[0] for entry in entries})

    def _enter_readable(self, db: Connection, content: bytes, entries: Sequence[Entry]) -> None:
        """Write the readable pieces of a damaged segment to a new segment.

        ``content`` are the segment's bytes; ``entries`` are (name, SHA-256, fetch time, start, length) of these pieces.
        If several pieces have one name, the piece that was fetched last becomes the current one.
        """
        frames = [content[start : start + length] for _, _, _, start, length in entries]
        abouts = ({"digest": name, "sha256": sha, "fetched_at": at} for name, sha, at, _, _ in entries)
        new_entries = list(rows_of(abouts, frames))
        enter(db, self._write(frames, new_entries), new_entries)
        supersede(db, {entry[0] for entry in entries})

    def _copy(self, db: Connection, places: Sequence[Place]) -> None:
        """Copy pieces to one new segment, and point the index to it."""
        frames = [self.piece_bytes(place) for place in places]
        abouts = ({"digest": place.name, "sha256": place.sha256, "fetched_at": place.fetched_at} for place in places)
        new_entries = list(rows_of(abouts, frames))
        segment = self._write(frames, new_entries)
        for place, entry in zip(places, new_entries, strict=True):
            db.execute(update(_PIECES).where(_PIECE.id == place.id).values(pack=segment, start=entry[3]))

    @cached_property
    def _index(self) -> State:
        try:
            return self._opened_index()
        except DamagedDatabase as error:
            self._set_index_aside(error)
            return self._opened_index()

    def check_format(self) -> None:
        """Raise ``DatabaseError`` for an archive of another format than this version reads."""
        if fault := format_fault(self.root, read_format(self.root, FORMAT)["format"], FORMAT):
            raise DatabaseError(fault)

    def _opened_index(self) -> State:
        self.check_format()
        path = self.root / _INDEX
        index = State(path, _TABLES, "NORMAL", _REMEDY)
        self._inode = path.stat().st_ino
        if path.stat().st_size <= _CHECKED_BYTES:
            _check(index, path)
        if is_full(self.root):  # reading goes on, and the next opening adds what is missing
            return index
        with index.transaction() as db:
            self._add_unknown(db)
        if not (self.root / FORMAT_FILE).exists():
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

    def _changed(self, work: Callable[[Connection], Any]) -> None:
        """Run ``work`` on the index in a transaction; if the index is damaged, rebuild it and repeat."""
        try:
            with self._index.transaction() as db:
                work(db)
        except DamagedDatabase as error:
            self._set_index_aside(error)
            with self._index.transaction() as db:
                work(db)

    def _rows(self, query: Executable, values: Row | None = None) -> list[tuple[Any, ...]]:
        try:
            return self._index.rows(query, values)
        except DamagedDatabase as error:
            self._set_index_aside(error)
            return self._index.rows(query, values)

    def _add_unknown(self, db: Connection) -> None:
        """Add segments that the index lacks, oldest pieces first, and remove entries of segments that are gone."""
        known_folders = {name: changed for name, changed in db.execute(select(_FOLDERS))}
        new_entries: list[tuple[str, str, int, Entry]] = []
        for folder in self.root.glob("packs/*"):
            name, changed = folder.relative_to(self.root).as_posix(), folder.stat().st_mtime_ns
            if known_folders.get(name) == changed:
                continue
            present = {f"{name}/{path.name}" for path in folder.glob(f"*{SUFFIX}") if not path.name.startswith(".")}
            listed = {*db.scalars(select(_PIECE.pack).distinct().where(_PIECE.pack.between(f"{name}/", f"{name}0")))}
            remove_segments(db, listed - present)
            for segment in present - listed:
                new_entries += [(entry[2], segment, entry[3], entry) for entry in entries_in(self._read(segment))]
            if time.time_ns() - changed > _TICK:
                put(db, _FOLDERS, {"name": name, "changed": changed})
        for _, segment, _, entry in sorted(new_entries):
            enter(db, segment, [entry])

    def _select(self, query: Executable) -> list[Place]:
        return _as_places(self._rows(query)) if self._exists() else []

    def _exists(self) -> bool:
        """Return whether the archive may have pieces, without creating an index."""
        return "_index" in vars(self) or self.root.exists()


def _check(index: State, path: Path) -> None:
    """Raise ``DamagedDatabase`` if SQLite's integrity check of the index fails."""
    ((result,),) = index.rows(text("PRAGMA integrity_check(1)"))
    if result != "ok":
        raise DamagedDatabase(f"{path} is damaged ({result}); {_REMEDY}")


def enter(db: Connection, segment: str, entries: Iterable[Entry]) -> None:
    """Add a segment's pieces to the index, unless it has them.

    ``entries`` are (name, SHA-256, fetch time, start, length) of the pieces.
    """
    known_starts = {*db.scalars(select(_PIECE.start).where(_PIECE.pack == segment))}
    fresh = [entry for entry in entries if entry[3] not in known_starts]
    if not fresh:
        return
    last_index = {entry[0]: place for place, entry in enumerate(fresh)}
    names = ("name", "sha256", "fetched_at", "start", "length", "superseded", "pack")
    rows = [(*entry, int(last_index[entry[0]] > place), segment) for place, entry in enumerate(fresh)]
    db.execute(_SUPERSEDE, [{"named": name} for name in last_index])
    db.execute(insert(_PIECES), [dict(zip(names, row, strict=True)) for row in rows])


def supersede(db: Connection, names: Iterable[str]) -> None:
    """Make the piece of each name that was fetched last its current one."""
    if rows := [{"named": name} for name in names]:
        db.execute(_SUPERSEDE, rows)
        db.execute(_LATEST, rows)


def known_segments(index: State, after_name: str = "") -> set[str]:
    """Return the names of the segments in the index that sort after a name."""
    return {name for (name,) in index.rows(select(_PIECE.pack).distinct().where(_PIECE.pack > after_name))}


def remove_segments(db: Connection, segments: Iterable[str]) -> None:
    """Remove segments from the index."""
    if rows := [{"segment": segment} for segment in segments]:
        db.execute(_REMOVE, rows)


def _as_places(rows: Iterable[Any]) -> list[Place]:
    """Return the locations of rows of the index.

    A row is left out if its path is not that of a segment, because callers may delete the returned files.
    """
    return [place for place in (Place(*row) for row in rows) if SEGMENT.fullmatch(place.segment)]
