"""Record and read the changes of a store, each with the earliest second as of which answers may differ.

Caches read the log at every request, so a read must take microseconds. Therefore one connection stays open, and
SQLite's ``data_version`` shows whether a process has committed since the last read.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from pathlib import Path
from threading import Lock
from typing import Final

from holderlake.engine.catalog.catalog_copy import CATALOG, check
from holderlake.engine.files.disk_errors import sqlite_failures
from holderlake.engine.files.listing import Listing, read_listing

EVERY_PAST: Final = 0
"""``first_time`` of changes of metadata, labels or rules. They apply at every instant, so all answers may differ."""

_NOTE: Final = "INSERT INTO changes (first_time) VALUES (?)"
_LATER: Final = "SELECT seq, first_time FROM changes WHERE seq > ? ORDER BY seq"


def note_change(catalog: sqlite3.Connection, first_time: int) -> None:
    """Record a change in the transaction of ``catalog``: answers as of ``first_time`` (unix seconds) or later may
    differ."""
    catalog.execute(_NOTE, (first_time,))


class ChangeLog:
    """Reader of a catalogue's changes and of its list of files (the listing). Thread-safe.

    The catalogue behind ``connection`` must have all its tables. ``root`` is the store's folder.
    """

    def __init__(self, connection: sqlite3.Connection, root: Path) -> None:
        self._root = root
        connection.isolation_level = None  # transactions begin and end where we say so
        self._connection = connection
        self._lock = Lock()
        self._data_version: int | None = None
        self._generation = 0
        # Only changes whose first time is earlier than that of every later change. The first of them after a
        # generation is therefore the earliest of all changes since. Replaced and never modified: readers take no lock.
        self._later: tuple[list[int], list[int]] = ([], [])
        self._listing: Listing | None = None

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()

    def generation(self) -> int:
        """Return the number of the latest change; 0 if there is none."""
        with self._lock:
            self._catch_up(with_listing=False)
            return self._generation

    def first_change_since(self, generation: int) -> int | None:
        """Return the earliest unix second as of which answers changed after the change with the number ``generation``.

        None if there is no later change.
        """
        with self._lock:
            self._catch_up(with_listing=False)
            return self.known_change_since(generation)

    def first_changes(self) -> tuple[list[int], list[int]]:
        """Return numbers and first times of the changes from which ``first_change_since`` answers, both ascending."""
        with self._lock:
            self._catch_up(with_listing=False)
            return self._later

    def known_change_since(self, generation: int) -> int | None:
        """Return the earliest unix second as of which answers changed after the change number ``generation``.

        Only changes that are already in memory are searched; new ones are not read from the catalogue. None if no
        change in memory is later.
        """
        seqs, first_times = self._later
        place = bisect_right(seqs, generation)
        return first_times[place] if place < len(seqs) else None

    def listing(self) -> tuple[int, Listing]:
        """Return the number of the latest change (the generation), and the listing after this change."""
        with self._lock:
            listing = self._catch_up(with_listing=True)
            assert listing is not None  # noqa: S101 - with_listing returns one
            return self._generation, listing

    def _catch_up(self, with_listing: bool) -> Listing | None:
        """Read the new changes from the catalogue. With ``with_listing``, return the present listing.

        Without it, callers ignore the return value: the listing in memory, or None if there is none.
        """
        with sqlite_failures(self._root / CATALOG):
            return self._read_changes(with_listing)

    def _read_changes(self, with_listing: bool) -> Listing | None:
        # The version is read first: a commit between the two reads is then read again, and not missed.
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        if version == self._data_version and (self._listing is not None or not with_listing):
            return self._listing
        check(self._connection, self._root)
        try:
            self._connection.execute("BEGIN")
            changes = self._connection.execute(_LATER, (self._generation,)).fetchall()
            listing = read_listing(self._connection) if with_listing else None
        finally:
            self._connection.rollback()
        if changes:
            self._later = _appended(self._later, changes)
            self._generation = changes[-1][0]
        self._listing = listing
        self._data_version = version
        return listing


def _appended(later: tuple[list[int], list[int]], changes: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    seqs, first_times = later[0].copy(), later[1].copy()
    for seq, first_time in changes:
        while first_times and first_times[-1] >= first_time:
            seqs.pop()
            first_times.pop()
        seqs.append(seq)
        first_times.append(first_time)
    return seqs, first_times
