"""Segments: files that hold many archived answers (pieces), and the index of the pieces.

A segment is a sequence of zstd frames, one for each piece. It is written once, synced, and never changed. Pieces share
files because each file costs time and space. The index (SQLite) can be rebuilt from the segments. Opening it adds
segments that are not in it, because a process was killed after writing them.
"""

from __future__ import annotations

import json
import logging
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, TypeAlias

import sqlalchemy as sa
import zstandard
from sqlalchemy import Connection, Executable

from holderlake.core.storage.atomic_files import is_full, write_whole
from holderlake.core.storage.formats import FORMAT_FILE, format_fault, read_format, write_format
from holderlake.core.storage.locks import locked
from holderlake.core.storage.names import BadName, digest_name
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

_TABLES: Final = sa.MetaData()
_PIECES: Final = sa.Table(
    "pieces",
    _TABLES,
    sa.Column("id", sa.Integer, primary_key=True),
    *(sa.Column(name, sa.Text, nullable=False) for name in ("name", "sha256", "fetched_at", "pack")),
    *(sa.Column(name, sa.Integer, nullable=False) for name in ("start", "length")),
    sa.Column("superseded", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.UniqueConstraint("pack", "start"),
)
_PIECE: Final = _PIECES.c
_IS_CURRENT: Final = sa.text("superseded = 0")
sa.Index("present", _PIECE.name, unique=True, sqlite_where=_IS_CURRENT)
sa.Index("pieces_by_name", _PIECE.name)
# A folder that has not changed since it was read is not read again.
_FOLDERS: Final = sa.Table(
    "folders",
    _TABLES,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("changed", sa.Integer, nullable=False),
    sqlite_with_rowid=False,
)
_CURRENT: Final = sa.text(
    "SELECT name FROM json_each(:names) AS wanted "
    "CROSS JOIN pieces ON name = wanted.value AND superseded = 0 AND fetched_at >= :since"
)
_NAMES_AT_ONCE: Final = 10_000
_LATEST: Final = sa.text(
    "UPDATE pieces SET superseded = 0 "
    "WHERE id = (SELECT id FROM pieces WHERE name = :named ORDER BY fetched_at DESC, id DESC LIMIT 1)"
)
_SUPERSEDE: Final = sa.update(_PIECES).where(_IS_CURRENT, _PIECE.name == sa.bindparam("named")).values(superseded=1)
_REMOVE: Final = sa.delete(_PIECES).where(_PIECE.pack == sa.bindparam("segment"))


Entry: TypeAlias = tuple[str, str, str, int, int]
"""Name, SHA-256, fetch time, start and length of a piece of a segment."""


class DamagedPiece(Exception):
    """The bytes of a piece differ from those that were written."""


@dataclass(frozen=True)
class Piece:
    """A piece of a segment: an answer's bytes (``raw``), and its metadata ``about``.

    ``about`` has at least ``digest`` (the piece's name), ``sha256`` of ``raw``, and ``fetched_at`` (ISO 8601, UTC).
    """

    about: Mapping[str, Any]
    raw: bytes = field(repr=False)


@dataclass(frozen=True)
class PieceLocation:
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
        heads = [(piece.about["digest"], piece.about["sha256"], piece.about["fetched_at"]) for piece in pieces]
        segment, entries = self._written(encoded(pieces), heads)
        try:
            self._changed(lambda db: enter(db, segment, entries))
        except DatabaseError as error:  # the segment exists: the index adds it when it is opened again
            raise OSError(str(error)) from error

    def find(self, name: str) -> PieceLocation | None:
        """Return the location of the current piece of a name; None if there is none."""
        places = _as_places(self._rows(sa.select(_PIECES).where(_PIECE.name == name, _IS_CURRENT)))
        return places[0] if places else None

    def current(self, names: Sequence[str], since: str = "") -> set[str]:
        """Return those of the names that have a current piece, fetched at or after ``since`` (ISO 8601 text, UTC)."""
        parts = (names[start : start + _NAMES_AT_ONCE] for start in range(0, len(names), _NAMES_AT_ONCE))
        return {name for part in parts for (name,) in self._rows(_CURRENT, {"names": json.dumps(part), "since": since})}

    def all_of(self, name: str) -> list[PieceLocation]:
        """Return the locations of all pieces of a name: the current piece, then the superseded ones, latest first."""
        pieces = sa.select(_PIECES).where(_PIECE.name == name)
        return _as_places(self._rows(pieces.order_by(_PIECE.superseded, _PIECE.id.desc())))

    def places(self) -> Iterator[PieceLocation]:
        """Yield the locations of all pieces: first the current ones, sorted by name, then the superseded ones.

        The index is read in batches of ten thousand locations, so memory does not grow with the archive.
        """
        for superseded in (0, 1):
            pages = sa.select(_PIECES).where(sa.text(f"superseded = {superseded}")).order_by(_PIECE.name, _PIECE.id)
            last_place = ("", 0)
            while page := self._rows(pages.where(sa.tuple_(_PIECE.name, _PIECE.id) > last_place).limit(_NAMES_AT_ONCE)):
                last_place = page[-1][1], page[-1][0]
                yield from _as_places(page)

    def sizes(self) -> tuple[int, int]:
        """Return the number of current pieces, and their compressed bytes."""
        query = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(_PIECE.length), 0)).where(_IS_CURRENT)
        ((count, compressed_bytes),) = self._rows(query.select_from(_PIECES)) or [(0, 0)]
        return count, compressed_bytes

    def newest(self) -> str | None:
        """Return the latest fetch time (ISO 8601 text, UTC) of the 64 pieces that were added last; None without pieces.

        A scan of all pieces would be slow.
        """
        last_pieces = self._rows(sa.select(_PIECE.fetched_at).order_by(_PIECE.id.desc()).limit(64))
        return max((fetched_at for (fetched_at,) in last_pieces), default=None)

    def check_index(self) -> None:
        """Check the integrity of the index file. Raises ``DatabaseError``."""
        if self._exists():
            _check(self._index, self.root / _INDEX)

    def piece_bytes(self, place: PieceLocation) -> bytes:
        """Return the compressed bytes of a piece. Raises ``FileNotFoundError``."""
        with self._path(place.segment).open("rb") as file:
            file.seek(place.start)
            return file.read(place.length)

    def about(self, place: PieceLocation) -> dict[str, Any]:
        """Return the metadata of a piece, not its answer. Raises ``DamagedPiece`` and ``FileNotFoundError``."""
        reader = zstandard.ZstdDecompressor().stream_reader(self.piece_bytes(place))
        head = b""
        try:
            while b"\n" not in head and (chunk := reader.read(_HEAD_BYTES)):
                head += chunk
            return about_of(head)
        except (zstandard.ZstdError, ValueError, KeyError, TypeError) as error:
            raise DamagedPiece(str(error)) from error

    def read(self, place: PieceLocation) -> Piece:
        """Read and return a piece, without checking its hash. Raises ``DamagedPiece`` and ``FileNotFoundError``."""
        try:
            text, _ = decompressed(self.piece_bytes(place))
            return Piece(about_of(text), text.partition(b"\n")[2])
        except (zstandard.ZstdError, ValueError, KeyError, TypeError) as error:
            raise DamagedPiece(str(error)) from error

    def forget(self, place: PieceLocation) -> None:
        """Remove a piece from the index, unless the piece was moved to another segment."""
        forgotten = _PIECE.id == place.id, _PIECE.pack == place.segment
        self._changed(lambda db: db.execute(sa.delete(_PIECES).where(*forgotten)))

    def remove(self, places: Iterable[PieceLocation]) -> None:
        """Delete pieces and their segments. Other pieces of these segments are first moved to new segments."""
        pieces = list(places)
        for segment in dict.fromkeys(place.segment for place in pieces):
            piece_ids = [{"piece": place.id} for place in pieces if place.segment == segment]
            with self._index.transaction() as db:  # meanwhile no other process adds unknown segments
                db.execute(sa.delete(_PIECES).where(_PIECE.id == sa.bindparam("piece")), piece_ids)
                other_pieces = sa.select(_PIECES).where(_PIECE.pack == segment).order_by(_PIECE.start)
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
            listed = {*db.scalars(sa.select(_PIECE.name).where(_PIECE.pack == segment))}
            content = self._read(segment)
            entries = list(entries_in(content))
            db.execute(_REMOVE, {"segment": segment})
            if entries:  # of pieces of one name, the one that was fetched last becomes the current one
                frames = [content[start : start + length] for _, _, _, start, length in entries]
                enter(db, *self._written(frames, [entry[:3] for entry in entries]))
                supersede(db, {entry[0] for entry in entries})
            self._move(segment, folder)
        return sorted(listed - {entry[0] for entry in entries})

    def _copy(self, db: Connection, places: Sequence[PieceLocation]) -> None:
        """Copy pieces to one new segment, and point the index to it."""
        frames = [self.piece_bytes(place) for place in places]
        heads = [(place.name, place.sha256, place.fetched_at) for place in places]
        segment, new_entries = self._written(frames, heads)
        for place, entry in zip(places, new_entries, strict=True):
            db.execute(sa.update(_PIECES).where(_PIECE.id == place.id).values(pack=segment, start=entry[3]))

    def _written(self, frames: Sequence[bytes], heads: Sequence[tuple[str, str, str]]) -> tuple[str, list[Entry]]:
        """Write frames to a new segment. ``heads`` are (name, SHA-256, fetch time). Return its name and entries."""
        starts = accumulate((len(frame) for frame in frames), initial=0)
        entries = [(*head, start, len(frame)) for head, start, frame in zip(heads, starts, frames, strict=False)]
        return self._write(frames, entries), entries

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
        if is_full(self.root):  # the archive can still be read; the next opening adds the missing rows
            return index
        with index.transaction() as db:
            self._add_unknown(db)
        if not (self.root / FORMAT_FILE).exists():
            with suppress(OSError):  # an archive without this file has the first format
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
        """Return rows of the index; none if the archive has no pieces. This never creates an index."""
        if not self._exists():
            return []
        try:
            return self._index.rows(query, values)
        except DamagedDatabase as error:
            self._set_index_aside(error)
            return self._index.rows(query, values)

    def _add_unknown(self, db: Connection) -> None:
        """Add segments that the index lacks, oldest pieces first, and remove entries of segments that are gone."""
        known_folders = {name: changed for name, changed in db.execute(sa.select(_FOLDERS))}
        new_entries: list[tuple[str, str, int, Entry]] = []
        for folder in self.root.glob("packs/*"):
            name, changed = folder.relative_to(self.root).as_posix(), folder.stat().st_mtime_ns
            if known_folders.get(name) == changed:
                continue
            present = {f"{name}/{path.name}" for path in folder.glob(f"*{SUFFIX}") if not path.name.startswith(".")}
            listed = {*db.scalars(sa.select(_PIECE.pack).distinct().where(_PIECE.pack.between(f"{name}/", f"{name}0")))}
            remove_segments(db, listed - present)
            for segment in present - listed:
                new_entries += [(entry[2], segment, entry[3], entry) for entry in entries_in(self._read(segment))]
            if time.time_ns() - changed > _TICK:
                put(db, _FOLDERS, {"name": name, "changed": changed})
        for _, segment, _, entry in sorted(new_entries):
            enter(db, segment, [entry])

    def _exists(self) -> bool:
        """Return whether the archive may have pieces."""
        return "_index" in vars(self) or self.root.exists()


def _check(index: State, path: Path) -> None:
    """Raise ``DamagedDatabase`` if SQLite's integrity check of the index fails."""
    ((result,),) = index.rows(sa.text("PRAGMA integrity_check(1)"))
    if result != "ok":
        raise DamagedDatabase(f"{path} is damaged ({result}); {_REMEDY}")


def enter(db: Connection, segment: str, entries: Iterable[Entry]) -> None:
    """Add a segment's pieces to the index, unless it has them.

    ``entries`` are (name, SHA-256, fetch time, start, length) of the pieces.
    """
    known_starts = {*db.scalars(sa.select(_PIECE.start).where(_PIECE.pack == segment))}
    fresh = [entry for entry in entries if entry[3] not in known_starts]
    if not fresh:
        return
    last_index = {entry[0]: place for place, entry in enumerate(fresh)}
    names = ("name", "sha256", "fetched_at", "start", "length", "superseded", "pack")
    rows = [(*entry, int(last_index[entry[0]] > place), segment) for place, entry in enumerate(fresh)]
    db.execute(_SUPERSEDE, [{"named": name} for name in last_index])
    db.execute(sa.insert(_PIECES), [dict(zip(names, row, strict=True)) for row in rows])


def supersede(db: Connection, names: Iterable[str]) -> None:
    """Make the piece of each name that was fetched last its current one."""
    if rows := [{"named": name} for name in names]:
        db.execute(_SUPERSEDE, rows)
        db.execute(_LATEST, rows)


def known_segments(index: State, after_name: str = "") -> set[str]:
    """Return the names of the segments in the index that sort after a name."""
    return {name for (name,) in index.rows(sa.select(_PIECE.pack).distinct().where(_PIECE.pack > after_name))}


def remove_segments(db: Connection, segments: Iterable[str]) -> None:
    """Remove segments from the index."""
    if rows := [{"segment": segment} for segment in segments]:
        db.execute(_REMOVE, rows)


def _as_places(rows: Iterable[Any]) -> list[PieceLocation]:
    """Return the locations of rows of the index.

    A row is left out if its path is not that of a segment, because callers may delete the returned files.
    """
    return [place for place in (PieceLocation(*row) for row in rows) if SEGMENT.fullmatch(place.segment)]


def encoded(pieces: Sequence[Piece]) -> list[bytes]:
    """Return each piece compressed as a zstd frame."""
    compressor = zstandard.ZstdCompressor(_LEVEL, write_checksum=True)
    lines = (json.dumps(piece.about, separators=(",", ":")).encode() + b"\n" for piece in pieces)
    return [compressor.compress(line + piece.raw) for line, piece in zip(lines, pieces, strict=True)]


def about_of(text: bytes) -> dict[str, Any]:
    line, end, _ = text.partition(b"\n")
    about = json.loads(line)
    if not end or not isinstance(about, dict):
        raise ValueError("the metadata of an archived answer are incomplete")
    return about


def decompressed(content: bytes) -> tuple[bytes, int]:
    """Return the decompressed first frame, and its compressed length in bytes. Raises ``ZstdError``, ``ValueError``."""
    reader = zstandard.ZstdDecompressor().decompressobj()  # does not trust the size that a damaged file may claim
    text = reader.decompress(content)
    if not reader.eof:
        raise ValueError("the compressed bytes of an archived answer end too early")
    return text, len(content) - len(reader.unused_data)


def entries_in(content: bytes) -> Iterator[Entry]:
    """Yield (name, SHA-256, fetch time, start, length) of the readable pieces in the bytes of a segment."""
    start = 0
    while 0 <= start < len(content):
        length = 0
        with suppress(zstandard.ZstdError, ValueError, KeyError, TypeError, BadName):
            text, length = decompressed(content[start:])
            about = about_of(text)
            yield digest_name(about["digest"]), digest_name(about["sha256"]), about["fetched_at"], start, length
        start = start + length if length else content.find(_MAGIC, start + 1)
