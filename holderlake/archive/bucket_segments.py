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

from holderlake.archive.pieces import Entry, entries_in, footer, footer_bytes, parsed_footer
from holderlake.archive.segments import FORMAT, SEGMENT, SUFFIX, Place, Segments, enter, supersede
from holderlake.contract.times import utc_now
from holderlake.storage.atomic_files import write_whole
from holderlake.storage.formats import FORMAT_FILE, too_new
from holderlake.storage.objects import Listed, Objects, each
from holderlake.storage.sqlite import Database, DatabaseError

_PACKS: Final = "packs/"
_SKEW: Final = timedelta(minutes=15)
"""Most time between the name of a segment, by its host's clock, and the end of its put, by ours."""
_TAIL: Final = 16_384
"""Bytes at the end of a segment that are read first: the footer of about 150 answers."""
_STALE_SECONDS: Final = 60.0
"""Time after which a missing answer is looked for in the segments that other hosts have written since."""
_KEPT_BYTES: Final = 64 << 20
"""Most bytes of segments to keep in memory. Answers that are read together are often in the same segment."""


class BucketSegments(Segments):
    """The segments in a bucket (``objects``). The folder ``root`` has their index and copies of damaged segments."""

    def __init__(self, root: Path, objects: Objects) -> None:
        super().__init__(root)
        self._objects = objects
        self._refreshed_at = float("-inf")
        self._recent: OrderedDict[str, bytes] = OrderedDict()
        self._recent_lock = Lock()

    def refresh(self, *, all_segments: bool = False) -> None:
        """Add the latest segments that other hosts have written to this host's index.

        With ``all_segments``, add older ones too, and remove deleted segments from the index.
        """
        self._refresh(self._index, all_segments=all_segments)

    def copy_from(self, other: Segments) -> int:
        """Copy the segments of an archive in a folder that this one lacks, and return their number."""
        self.refresh(all_segments=True)
        known = {segment for (segment,) in self._index.rows("SELECT DISTINCT pack FROM pieces")}
        copied = 0
        for segment in sorted({place.segment for place in other.places()}):
            stored = (other.root / segment).read_bytes()
            entries = list(entries_in(stored, segment))
            name = f"{_PACKS}{entries[0][2][:10]}/{Path(segment).name}" if entries else segment
            if entries and name not in known:
                self._objects.put(name, stored + footer(entries))
                copied += 1
        self.refresh(all_segments=True)
        return copied

    def find(self, name: str) -> Place | None:
        found = super().find(name)
        if found is None and time.monotonic() - self._refreshed_at > _STALE_SECONDS:
            self.refresh()
            found = super().find(name)
        return found

    def stored(self, place: Place) -> bytes:
        return self._read(place.segment)[place.start : place.start + place.length]

    def check_format(self) -> None:
        """Do nothing: the format is checked when the index is opened."""

    def _opened_index(self) -> Database:
        self._check_format()
        index = super()._opened_index()
        self._refresh(index, all_segments=True)
        return index

    def _check_format(self) -> None:
        """Raise ``DatabaseError`` for an archive of a later format. Write the format file of a new archive."""
        found = self._objects.get(FORMAT_FILE)
        if found is None:
            self._objects.put_if(FORMAT_FILE, b'{"format":%d}' % FORMAT, None)
        elif (number := int(json.loads(found[0])["format"])) > FORMAT:
            raise DatabaseError(too_new(self._objects.url, number, FORMAT))

    def _add_unknown(self, db: object) -> None:
        """Do nothing: ``refresh`` adds segments, so that no transaction waits for requests to the bucket."""

    def _refresh(self, index: Database, *, all_segments: bool) -> None:
        began = time.monotonic()
        after = "" if all_segments else f"{_PACKS}{_time_of_name(utc_now() - _SKEW)}"
        rows = index.rows("SELECT DISTINCT pack FROM pieces WHERE pack > ?", [after])
        known = {segment for (segment,) in rows}  # read first: a segment that we write meanwhile is not gone
        listed = {one.name: one for one in self._objects.list(_PACKS, after) if SEGMENT.fullmatch(one.name)}
        new = [one for name, one in listed.items() if name not in known]
        found = [(entries, one.name) for one, entries in zip(new, each(self._entries_of, new), strict=True) if entries]
        gone = known - listed.keys() if all_segments else set()
        if found or gone:
            with index.transaction() as db:
                db.executemany("DELETE FROM pieces WHERE pack = ?", [(segment,) for segment in gone])
                for entries, segment in sorted(found, key=lambda one: one[0][0][2]):
                    enter(db, segment, entries)
                supersede(db, {entry[0] for entries, _ in found for entry in entries})
        self._refreshed_at = began

    def _entries_of(self, one: Listed) -> list[Entry]:
        """Return the pieces of a segment: from its footer, or from all its bytes if the footer is not readable."""
        start = max(0, one.size - _TAIL)
        try:
            end = self._objects.part(one.name, start, one.size - start)
            size = footer_bytes(end)
            if size and size > len(end):
                end = self._objects.part(one.name, max(0, one.size - size), min(size, one.size))
            found = parsed_footer(end[-size:]) if size else None
            return list(entries_in(self._read(one.name), one.name)) if found is None else found
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
        found = self._objects.get(segment)
        if found is None:
            raise FileNotFoundError(f"{self._objects.url}/{segment}")
        with self._recent_lock:
            self._recent[segment] = found[0]
            while sum(map(len, self._recent.values())) > _KEPT_BYTES and len(self._recent) > 1:
                self._recent.popitem(last=False)
        return found[0]

    def _delete(self, segment: str) -> None:
        self._objects.delete([segment])

    def _move(self, segment: str, folder: Path) -> None:
        """Move a damaged segment to the folder ``damaged`` of the bucket, and copy it into ``folder``."""
        stored = self._read(segment)
        write_whole(folder / Path(segment).name, stored)
        self._objects.put(f"damaged/{folder.name}/{Path(segment).name}", stored)
        self._delete(segment)

    def _exists(self) -> bool:
        return True


def _time_of_name(at: datetime) -> str:
    return f"{at:%Y-%m-%d/%H%M%S}"
