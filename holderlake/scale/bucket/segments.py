"""Segments in a bucket, and this host's index of them.

A segment is one object with many answers. Its footer lists them, so that a host adds the segments of other hosts to its
index with one listing for many segments, and one request for the footer of each new one. Names of segments begin with
the time of writing, so a listing can start at the newest known ones.
"""

from __future__ import annotations

import json
import time
import uuid
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec
import zstandard

from holderlake.core.archive.segments import (
    FORMAT,
    SEGMENT,
    SUFFIX,
    Entry,
    PieceLocation,
    Segments,
    enter,
    entries_in,
    known_segments,
    remove_segments,
    supersede,
)
from holderlake.core.contract.times import utc_now
from holderlake.core.storage.atomic_files import write_whole
from holderlake.core.storage.formats import FORMAT_FILE, format_fault
from holderlake.core.storage.names import BadName, digest_name
from holderlake.core.storage.sqlite import DatabaseError
from holderlake.core.storage.state import State
from holderlake.scale.bucket.objects import Listed, Objects, in_threads

_LEVEL: Final = 1
_SKIPPABLE: Final = b"\x50\x2a\x4d\x18"
"""Begin of a footer: a skippable frame of zstd at the end of a segment."""
_END: Final = b"HLSEGMNT"
_TRAILER: Final = 4 + len(_END)
"""Bytes after a footer's list: its length, and a mark."""
_PACKS: Final = "packs/"
_SKEW: Final = timedelta(minutes=15)
"""Longest time between the name of a segment, by its host's clock, and the end of its put, by ours."""
_TAIL: Final = 16_384
"""Bytes at the end of a segment that are read first: the footer of about 150 answers."""
_STALE_SECONDS: Final = 60.0
"""Time after which a missing answer is looked for in the segments that other hosts have written since."""
_KEPT_BYTES: Final = 64 << 20
"""Maximum bytes of segments to keep in memory. Answers that are read together are often in the same segment."""


class BucketSegments(Segments):
    """The segments in a bucket (``objects``). The folder ``root`` has their index and copies of damaged segments."""

    def __init__(self, root: Path, objects: Objects) -> None:
        super().__init__(root)
        self.name = objects.url
        self._objects = objects
        self._refreshed_at = float("-inf")
        self._recent: OrderedDict[str, bytes] = OrderedDict()
        self._recent_lock = Lock()

    def refresh(self, *, all_segments: bool = False) -> None:
        """Add the latest segments that other hosts have written to this host's index.

        With ``all_segments``, add older ones too, and remove deleted segments from the index.
        """
        self._refresh(self._index, all_segments=all_segments)

    def copy_from(self, folder_segments: Segments) -> int:
        """Copy the segments of an archive in a folder that this one lacks, and return their number."""
        self.refresh(all_segments=True)
        known_names = known_segments(self._index)
        copied = 0
        for segment in sorted({place.segment for place in folder_segments.places()}):
            content = (folder_segments.root / segment).read_bytes()
            entries = list(entries_in(content))
            name = f"{_PACKS}{entries[0][2][:10]}/{Path(segment).name}" if entries else segment
            if entries and name not in known_names:
                self._objects.put(name, content + footer(entries))
                copied += 1
        self.refresh(all_segments=True)
        return copied

    def find(self, name: str) -> PieceLocation | None:
        place = super().find(name)
        if place is None and time.monotonic() - self._refreshed_at > _STALE_SECONDS:
            self.refresh()
            place = super().find(name)
        return place

    def piece_bytes(self, place: PieceLocation) -> bytes:
        return self._read(place.segment)[place.start : place.start + place.length]

    def check_format(self) -> None:
        """Do nothing: the format is checked when the index is opened."""

    def _opened_index(self) -> State:
        self._check_format()
        index = super()._opened_index()
        self._refresh(index, all_segments=True)
        return index

    def _check_format(self) -> None:
        """Raise ``DatabaseError`` for an archive of another format. Write the format file of a new archive."""
        stored_object = self._objects.get(FORMAT_FILE)
        if stored_object is None:
            self._objects.put_if(FORMAT_FILE, b'{"format":%d}' % FORMAT, None)
        elif fault := format_fault(self._objects.url, int(json.loads(stored_object[0])["format"]), FORMAT):
            raise DatabaseError(fault)

    def _add_unknown(self, db: object) -> None:
        """Do nothing: ``refresh`` adds segments, so that no transaction waits for requests to the bucket."""

    def _refresh(self, index: State, *, all_segments: bool) -> None:
        began = time.monotonic()
        after_name = "" if all_segments else f"{_PACKS}{_time_of_name(utc_now() - _SKEW)}"
        known_names = known_segments(index, after_name)  # read first: a segment that we write meanwhile is not gone
        listed = {
            listed_object.name: listed_object
            for listed_object in self._objects.list(_PACKS, after_name)
            if SEGMENT.fullmatch(listed_object.name)
        }
        new_objects = [listed_object for name, listed_object in listed.items() if name not in known_names]
        readable = [
            (entries, listed_object.name)
            for listed_object, entries in zip(new_objects, in_threads(self._entries_of, new_objects), strict=True)
            if entries
        ]
        deleted = known_names - listed.keys() if all_segments else set()
        if readable or deleted:
            with index.transaction() as db:
                remove_segments(db, deleted)
                for entries, segment in sorted(readable, key=lambda item: item[0][0][2]):
                    enter(db, segment, entries)
                supersede(db, {entry[0] for entries, _ in readable for entry in entries})
        self._refreshed_at = began

    def _entries_of(self, segment: Listed) -> list[Entry]:
        """Return the pieces of a segment: from its footer, or from all its bytes if the footer is not readable."""
        start = max(0, segment.size - _TAIL)
        try:
            end = self._objects.part(segment.name, start, segment.size - start)
            size = footer_bytes(end)
            if size and size > len(end):
                end = self._objects.part(segment.name, max(0, segment.size - size), min(size, segment.size))
            entries = parsed_footer(end[-size:]) if size else None
            return list(entries_in(self._read(segment.name))) if entries is None else entries
        except FileNotFoundError:  # deleted since it was listed
            return []

    def _write(self, frames: Sequence[bytes], entries: Sequence[Entry]) -> str:
        _ = self._index  # opened before, so that it does not read the new segment
        segment = f"{_PACKS}{_time_of_name(utc_now())}-{uuid.uuid4().hex}{SUFFIX}"
        self._objects.put(segment, b"".join([*frames, footer(entries)]))
        return segment

    def _read(self, segment: str) -> bytes:
        with self._recent_lock:
            if segment in self._recent:
                self._recent.move_to_end(segment)
                return self._recent[segment]
        stored_object = self._objects.get(segment)
        if stored_object is None:
            raise FileNotFoundError(f"{self._objects.url}/{segment}")
        with self._recent_lock:
            self._recent[segment] = stored_object[0]
            while sum(map(len, self._recent.values())) > _KEPT_BYTES and len(self._recent) > 1:
                self._recent.popitem(last=False)
        return stored_object[0]

    def _delete(self, segment: str) -> None:
        self._objects.delete([segment])

    def _move(self, segment: str, folder: Path) -> None:
        """Move a damaged segment to the folder ``damaged`` of the bucket, and copy it into ``folder``."""
        content = self._read(segment)
        write_whole(folder / Path(segment).name, content)
        self._objects.put(f"damaged/{folder.name}/{Path(segment).name}", content)
        self._delete(segment)

    def _exists(self) -> bool:
        return True


def _time_of_name(at: datetime) -> str:
    return f"{at:%Y-%m-%d/%H%M%S}"


def footer(entries: Sequence[Entry]) -> bytes:
    """Return the footer of a segment as bytes: it lists (name, SHA-256, fetch time, start, length) of each piece."""
    text = zstandard.ZstdCompressor(_LEVEL).compress(msgspec.json.encode(entries))
    size = (len(text) + _TRAILER).to_bytes(4, "little")
    return _SKIPPABLE + size + text + len(text).to_bytes(4, "little") + _END


def footer_bytes(end: bytes) -> int | None:
    """Return the length of the footer of a segment whose last bytes are ``end``; None if it has no footer."""
    if len(end) < _TRAILER or not end.endswith(_END):
        return None
    return len(_SKIPPABLE) + 4 + int.from_bytes(end[-_TRAILER : -len(_END)], "little") + _TRAILER


def parsed_footer(content: bytes) -> list[Entry] | None:
    """Return (name, SHA-256, fetch time, start, length) of the pieces in a footer; None if it is damaged."""
    try:
        text = zstandard.ZstdDecompressor().decompressobj().decompress(content[len(_SKIPPABLE) + 4 : -_TRAILER])
        entries = msgspec.json.decode(text, type=list[Entry])
        return [(digest_name(name), digest_name(sha), at, start, length) for name, sha, at, start, length in entries]
    except (zstandard.ZstdError, msgspec.DecodeError, UnicodeDecodeError, BadName):
        return None
