"""The answer archive: each paid answer, compressed, under a name made of the request and its as-of instant.

Answers are kept as they came, before anybody reads them: reading them anew costs nothing. An answer is there whole or
not at all, and is checked against its hash whenever it is read. One that a refreshed one took the place of is kept too,
for partitions of the lake may be made of it. How they lie on disk is ``packs``' matter; what to ask, and when to ask
again, ``provider``'s; which commit was made of which answers, ``journal``'s.
"""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from holderlake.archive.segments import DamagedPiece, Packs, Piece, Place
from holderlake.contract.requests import Request
from holderlake.contract.times import partition_text
from holderlake.storage.atomic_files import write_whole
from holderlake.storage.locks import locked_for_task
from holderlake.storage.sqlite import DatabaseError

_log = logging.getLogger(__name__)
_DAMAGED: Final = "damaged"
_LOST: Final = "lost.txt"
"""Beside a damaged segment: the digests of the answers in it that cannot be read, one a line."""
_LOCKS: Final = "locks"


@dataclass(frozen=True)
class ArchivedAnswer:
    """An answer as it came, and where it came from. ``digest`` names it, ``sha256`` is the hash of ``raw``."""

    raw: bytes = field(repr=False)
    fetched_at: datetime
    """Naive UTC."""
    digest: str
    sha256: str
    provider_id: str
    as_of: str
    request: Mapping[str, Any]
    """``method``, ``path``, ``query`` and ``body`` as they were sent."""


@dataclass(frozen=True)
class NewAnswer:
    """An answer to be kept under ``key``: what was asked, what came, when (naive UTC), of whom, as of when."""

    key: str
    request: Request
    raw: bytes = field(repr=False)
    fetched_at: datetime
    provider_id: str
    as_of: str


@dataclass(frozen=True)
class ArchiveSize:
    """How many answers there are and what they take on disk, and how many damaged ones were set aside."""

    answers: int
    stored_bytes: int
    damaged: int


@dataclass(frozen=True)
class StoredAnswer:
    """An answer by what the archive tells without unpacking it. ``superseded``: a refreshed one took its place."""

    place: Place
    digest: str
    sha256: str
    fetched_at: datetime
    """Naive UTC."""
    request: Mapping[str, Any]
    stored_bytes: int
    superseded: bool


class AnswerArchive:
    """The archive in the folder ``root``, for any number of threads and processes."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)
        self._packs = Packs(self.root)

    def key(self, provider_id: str, request: Request, as_of: datetime | str | None) -> str:
        """The digest under which the answer is kept. A refreshed answer takes the place of the one before."""
        parts = _sent(request)
        parts["query"] = {name: value for name, value in parts["query"].items() if name != "refresh"}
        named = {"provider": provider_id, "as_of": as_of_text(as_of), **parts}
        return hashlib.sha256(json.dumps(named, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    def put(
        self,
        key: str,
        request: Request,
        raw: bytes,
        *,
        fetched_at: datetime,
        provider_id: str,
        as_of: datetime | str | None,
    ) -> ArchivedAnswer:
        """Keeps an answer, in place of an earlier one, which is kept aside. Raises ``OSError``; the earlier one is then
        still there."""
        (kept,) = self.put_all([NewAnswer(key, request, raw, fetched_at, provider_id, as_of_text(as_of))])
        return kept

    def put_all(self, answers: Sequence[NewAnswer]) -> list[ArchivedAnswer]:
        """Keeps answers as ``put`` does, all or none, and waits for the disk once."""
        pieces = [Piece(_about(one), one.raw) for one in answers]
        self._packs.add(pieces)
        return [_answer(one.key, piece) for one, piece in zip(answers, pieces, strict=True)]

    def get(self, key: str, since: datetime | None = None) -> ArchivedAnswer | None:
        """Return the answer, or None: where there is none, it was fetched before ``since``, or it is damaged.

        A damaged answer is set aside with a warning.
        """
        place = self._packs.find(key)
        return self._at(place) if place and _is_since(place, since) else None

    def holds(self, key: str, since: datetime | None = None) -> bool:
        """Return whether ``get`` would find an answer, without reading it."""
        place = self._packs.find(key)
        return place is not None and _is_since(place, since)

    def version(self, key: str, sha256: str, fetched_at: datetime | None = None) -> ArchivedAnswer | None:
        """The answer of that hash (and of that instant, naive UTC), whether or not a newer one took its place."""
        at = fetched_at and fetched_at.isoformat()
        places = [place for place in self._packs.all_of(key) if place.sha256 == sha256]
        found = (self._at(place) for place in places if at in (None, place.fetched_at))
        return next((answer for answer in found if answer), None)

    def locked(self, key: str) -> AbstractAsyncContextManager[None]:
        """Hold the lock of one answer: one process fetches it, the others wait and then find it here."""
        return locked_for_task(self.root / _LOCKS / key)

    def __contains__(self, key: str) -> bool:
        """Whether an answer of that name is kept; only ``get`` looks into it."""
        return self._packs.find(key) is not None

    def __iter__(self) -> Iterator[ArchivedAnswer]:
        """All answers by digest; damaged ones are set aside."""
        places = (place for place in self._packs.places() if not place.superseded)
        return (answer for place in places if (answer := self._at(place)))

    def stored(self) -> Iterator[StoredAnswer]:
        """What is told of all answers, superseded ones too; those that can't be read are left out."""
        for place in self._packs.places():
            with suppress(FileNotFoundError, DamagedPiece, KeyError):
                request = self._packs.about(place)["request"]
                at = datetime.fromisoformat(place.fetched_at)
                yield StoredAnswer(place, place.name, place.sha256, at, request, place.length, bool(place.superseded))

    def remove(self, stored: Sequence[StoredAnswer]) -> None:
        """Removes answers for good. Asking for them again will cost what it costs."""
        self._packs.remove(one.place for one in stored)

    def newest_day(self) -> str | None:
        """Return the day (YYYY-MM-DD) on which the newest answer was fetched; None where there is none."""
        newest = self._packs.newest()
        return None if newest is None else newest[:10]

    def size(self) -> ArchiveSize:
        """Counts and bytes, without reading the answers; superseded ones are not counted."""
        answers, stored_bytes = self._packs.sizes()
        return ArchiveSize(answers, stored_bytes, damaged=sum(1 for _ in (self.root / _DAMAGED).glob("*")))

    def _at(self, place: Place) -> ArchivedAnswer | None:
        try:
            return _checked(place, self._packs.read(place))
        except (DamagedPiece, KeyError, ValueError, TypeError) as error:
            self._set_aside(place, error)
        except FileNotFoundError:
            _log.warning("the archived answer %s is gone: %s is missing", place.name, self.root / place.pack)
            self._packs.forget(place)
        return None

    def _set_aside(self, place: Place, error: Exception) -> None:
        """Move the segment of a damaged answer to the damaged ones. Its other answers stay in the archive."""
        folder = Path(tempfile.mkdtemp(prefix=f"{Path(place.pack).stem}-", dir=_made(self.root / _DAMAGED)))
        lost = self._packs.set_aside(place.pack, folder)
        write_whole(folder / _LOST, "".join(f"{name}\n" for name in lost).encode())
        _log.warning(
            "the segment %s of the archive is damaged (%s); it is now in %s. Lost answers: %s",
            self.root / place.pack,
            error,
            folder,
            ", ".join(lost) or "none",
        )

    def damage(self, *, every_byte: bool) -> Iterator[str]:
        """Find what is damaged: the index, and with ``every_byte`` the segments. Changes nothing."""
        try:
            self._packs.check_index()
            places = self._packs.places()
        except DatabaseError as error:
            yield str(error)
            return
        damaged: dict[str, int] = {}
        for place in places if every_byte else ():
            try:
                _checked(place, self._packs.read(place))
            except (DamagedPiece, KeyError, ValueError, TypeError, OSError):
                damaged[place.pack] = damaged.get(place.pack, 0) + 1
        for pack, answers in damaged.items():
            yield f"{self.root / pack}: {answers:,} answers in it cannot be read"

    def set_damaged_aside(self) -> int:
        """Read all answers, set damaged segments aside and return how many answers could not be read."""
        return sum(1 for place in self._packs.places() if self._at(place) is None)

    def lost(self) -> list[str]:
        """Return the digests of answers that were in damaged segments and were not fetched again."""
        named = (path.read_text().split() for path in (self.root / _DAMAGED).glob(f"*/{_LOST}"))
        return sorted({digest for digests in named for digest in digests if digest not in self})


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def as_of_text(as_of: datetime | str | None) -> str:
    """What an answer is true as of, as text: a partition value, words of the caller's, or nothing."""
    return partition_text(as_of) if isinstance(as_of, datetime) else as_of or ""


def _is_since(place: Place, since: datetime | None) -> bool:
    return since is None or place.fetched_at >= since.isoformat()


def _sent(request: Request) -> dict[str, Any]:
    return {"method": request.method, "path": request.path, "query": request.query, "body": request.body}


def _about(one: NewAnswer) -> dict[str, Any]:
    return {
        "digest": one.key,
        "provider": one.provider_id,
        "as_of": one.as_of,
        "fetched_at": one.fetched_at.isoformat(),
        "sha256": hashlib.sha256(one.raw).hexdigest(),
        "request": _sent(one.request),
    }


def _checked(place: Place, piece: Piece) -> ArchivedAnswer:
    if piece.about["sha256"] != hashlib.sha256(piece.raw).hexdigest():
        raise DamagedPiece("its hash is another")
    if (piece.about.get("digest", place.name), piece.about["sha256"]) != (place.name, place.sha256):
        raise DamagedPiece("it is another answer than the index says")
    return _answer(place.name, piece)


def _answer(key: str, piece: Piece) -> ArchivedAnswer:
    about = piece.about
    at = datetime.fromisoformat(about["fetched_at"])
    return ArchivedAnswer(piece.raw, at, key, about["sha256"], about["provider"], about["as_of"], about["request"])
