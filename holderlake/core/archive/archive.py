"""The archive of paid answers. An answer's name, its ``digest``, is a hash of provider, request and as-of instant.

Answers are kept undecoded, so decoding them again costs no credits. Each is checked against its hash when it is read.
A superseded answer, which a later one of the same name replaced, is kept too: partitions may be made from it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import tempfile
from asyncio import AbstractEventLoop
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

from holderlake.core.archive.segments import DamagedPiece, Piece, PieceLocation, Segments
from holderlake.core.contract.requests import Request
from holderlake.core.contract.times import partition_text
from holderlake.core.storage.atomic_files import write_whole
from holderlake.core.storage.batches import Batches
from holderlake.core.storage.sqlite import DatabaseError
from holderlake.core.units import counted

_log = logging.getLogger(__name__)
_DAMAGED: Final = "damaged"
_LOST_FILE: Final = "lost.txt"
"""Name of the file next to a damaged segment that lists the digests of its unreadable answers, one a line."""
_UNREADABLE: Final = (DamagedPiece, KeyError, ValueError, TypeError)
PartitionName: TypeAlias = tuple[str, str, str]
"""Family, chain and timestamp of a partition of the lake."""
OtherRecords: TypeAlias = Callable[[PartitionName | None], Iterable[tuple[PartitionName, Sequence[bytes]]]]
"""Function that returns the records of commits of one partition, or of all (None), by partition."""


@dataclass(frozen=True)
class ArchivedAnswer:
    """An undecoded answer from the archive. ``digest`` is its name, ``sha256`` the hash of ``raw``.

    ``fetched_at`` is naive UTC. ``as_of`` is a partition value such as ``20261120T000000Z``; for an endpoint without
    history mode ``known`` and the day of the call; empty for the latest data. ``request`` has its ``method``, ``path``,
    ``query`` and ``body``.
    """

    raw: bytes = field(repr=False)
    fetched_at: datetime
    digest: str
    sha256: str
    provider_id: str
    as_of: str
    request: Mapping[str, Any]


@dataclass(frozen=True)
class NewAnswer:
    """An answer to be archived under the digest ``key``. ``fetched_at`` is naive UTC."""

    key: str
    request: Request
    raw: bytes = field(repr=False)
    fetched_at: datetime
    provider_id: str
    as_of: str


@dataclass(frozen=True)
class ArchiveSize:
    """Number of current answers, and their compressed bytes on disk."""

    answers: int
    stored_bytes: int


@dataclass(frozen=True)
class StoredAnswer:
    """Metadata of an archived answer. ``digest`` is its name, ``sha256`` the hash of its bytes.

    ``fetched_at`` is naive UTC. ``superseded`` is True if a later answer with this name replaced it.
    """

    place: PieceLocation
    digest: str
    sha256: str
    fetched_at: datetime
    request: Mapping[str, Any]
    stored_bytes: int
    superseded: bool


class AnswerArchive:
    """The archive in the folder ``root``, for any number of threads and processes.

    ``name`` is its folder or URL. If its ``segments`` are elsewhere, ``root`` is the folder of this host's index.
    ``may_be_old`` is called before each paid call of a provider. It returns True if another host may have archived
    answers since it was last called, and raises ``LakeError`` if this host may not write. ``other_records`` returns the
    commit records that a lake in a bucket keeps in its manifests.
    """

    def __init__(
        self,
        root: Path | str,
        segments: Segments | None = None,
        may_be_old: Callable[[], bool] = lambda: True,
        other_records: OtherRecords = lambda place: (),
    ) -> None:
        self.root = Path(root)
        self.other_records = other_records
        self.is_local = segments is None
        """True if the answers lie in the folder ``root``."""
        self._segments = segments or Segments(self.root)
        self.name = self._segments.name
        self._may_be_old = may_be_old
        self._refreshes: WeakKeyDictionary[AbstractEventLoop, Batches[None, None]] = WeakKeyDictionary()

    def check_format(self) -> None:
        """Raise ``DatabaseError`` for an archive of another format than this version reads."""
        self._segments.check_format()

    def key(self, provider_id: str, request: Request, as_of: datetime | str | None) -> str:
        """Return the digest that names the answer to a request in the archive.

        ``as_of`` is the answer's instant (naive UTC), None for the latest data, or a text such as ``known 2026-11-20``
        for an endpoint without history mode. The request's option ``refresh`` does not change the digest.
        """
        return hashlib.sha256(_key_text(provider_id, request, as_of).encode()).hexdigest()

    def keys(self, provider_id: str, request: Request, paths: Iterable[str], as_of: datetime | str | None) -> list[str]:
        """Return the digests of requests that differ from ``request`` only in their percent-encoded ``paths``."""
        head, _, tail = _key_text(provider_id, request, as_of).partition(json.dumps(request.path))
        return [hashlib.sha256(f'{head}"{path}"{tail}'.encode()).hexdigest() for path in paths]

    def put_all(self, answers: Sequence[NewAnswer]) -> list[ArchivedAnswer]:
        """Archive all answers or none, with one sync to disk, and return them in order. Raises ``OSError``.

        Earlier answers of the same names are superseded.
        """
        pieces = [Piece(_about(answer), answer.raw) for answer in answers]
        self._segments.add(pieces)
        return [_answer(answer.key, piece) for answer, piece in zip(answers, pieces, strict=True)]

    def get(self, key: str, since: datetime | None = None) -> ArchivedAnswer | None:
        """Return the current answer of a key; None if it is missing, damaged or fetched before ``since`` (naive UTC).

        The segment of a damaged answer is moved away with a warning.
        """
        place = self._segments.find(key)
        answer = self._at(place) if place and _is_since(place, since) else None
        if answer is None and place is not None and not self.is_local:  # another host has moved it
            place = self._segments.find(key)
            answer = self._at(place) if place and _is_since(place, since) else None
        return answer

    def holds(self, key: str, since: datetime | None = None) -> bool:
        """Return whether the archive has an answer of a key, fetched at or after ``since`` (naive UTC)."""
        place = self._segments.find(key)
        return place is not None and _is_since(place, since)

    async def holds_now(self, key: str, since: datetime | None = None) -> bool:
        """Return what ``holds`` returns, from any host: of a bucket, first add the latest segments of other hosts.

        Concurrent callers of an event loop share this step.
        """
        if not self.is_local and self._may_be_old():
            loop = asyncio.get_running_loop()
            if loop not in self._refreshes:
                self._refreshes[loop] = Batches(self._refresh, None)
            await self._refreshes[loop].submit(None)
        return self.holds(key, since)

    def _refresh(self, callers: Sequence[None]) -> Sequence[None]:
        self._segments.refresh()
        return callers

    def held(self, keys: Sequence[str], since: datetime | None = None) -> set[str]:
        """Return the keys for which ``holds`` is True, with one query. Much faster than ``holds`` for each key."""
        return self._segments.current(keys, since.isoformat() if since else "")

    def version(self, key: str, sha256: str, fetched_at: datetime | None = None) -> ArchivedAnswer | None:
        """Return the answer of a key with this SHA-256 and fetch time (naive UTC, None for any), superseded or not."""
        at = fetched_at and fetched_at.isoformat()
        places = [place for place in self._segments.all_of(key) if place.sha256 == sha256]
        answers = (self._at(place) for place in places if at in (None, place.fetched_at))
        return next((answer for answer in answers if answer), None)

    def __contains__(self, key: str) -> bool:
        return self.holds(key)

    def __iter__(self) -> Iterator[ArchivedAnswer]:
        """Iterate over the current answers by digest. Segments with damaged answers are moved away."""
        places = (place for place in self._segments.places() if not place.superseded)
        return (answer for place in places if (answer := self._at(place)))

    def stored(self) -> Iterator[StoredAnswer]:
        """Yield the metadata of all readable answers, including superseded ones."""
        for place in self._segments.places():
            with suppress(FileNotFoundError, DamagedPiece, KeyError):
                request = self._segments.about(place)["request"]
                at = datetime.fromisoformat(place.fetched_at)
                yield StoredAnswer(place, place.name, place.sha256, at, request, place.length, bool(place.superseded))

    def remove(self, answers: Sequence[StoredAnswer]) -> None:
        """Delete answers from the archive. To fetch them again costs credits."""
        self._segments.remove(answer.place for answer in answers)

    def copy_from(self, local_archive: AnswerArchive) -> int:
        """Copy the segments of ``local_archive`` that this archive in a bucket lacks. Return their number."""
        return self._segments.copy_from(local_archive._segments)

    def newest_day(self) -> str | None:
        """Return the day (YYYY-MM-DD, UTC) on which the newest answer was fetched; None in an empty archive."""
        newest = self._segments.newest()
        return None if newest is None else newest[:10]

    def size(self) -> ArchiveSize:
        """Return the size of the archive without reading the answers."""
        return ArchiveSize(*self._segments.sizes())

    def _at(self, place: PieceLocation) -> ArchivedAnswer | None:
        try:
            return _checked(place, self._segments.read(place))
        except _UNREADABLE as error:
            self._set_aside(place, error)
        except FileNotFoundError:
            self._segments.refresh(all_segments=True)
            if place in self._segments.all_of(place.name):
                _log.warning(
                    "the archived answer %s is lost: %s is missing. The answer is paid again when it is needed",
                    place.name,
                    self.root / place.segment,
                )
                self._segments.forget(place)
        return None

    def _set_aside(self, place: PieceLocation, error: Exception) -> None:
        """Move the segment of a damaged answer away. The readable answers of the segment stay in the archive."""
        (self.root / _DAMAGED).mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{Path(place.segment).stem}-", dir=self.root / _DAMAGED))
        lost_digests = self._segments.set_aside(place.segment, folder)
        write_whole(folder / _LOST_FILE, "".join(f"{name}\n" for name in lost_digests).encode())
        _log.warning(
            "the archive's segment %s is damaged (%s); it was moved to %s. Lost answers: %s",
            self.root / place.segment,
            error,
            folder,
            ", ".join(lost_digests) or "none",
        )

    def damage(self, *, every_byte: bool) -> Iterator[str]:
        """Yield texts that describe damage in the index, and with ``every_byte`` in the segments. Changes nothing."""
        try:
            self._segments.check_index()
        except DatabaseError as error:
            yield str(error)
            return
        damaged: Counter[str] = Counter()
        for place in self._segments.places() if every_byte else ():
            try:
                _checked(place, self._segments.read(place))
            except (*_UNREADABLE, OSError):
                damaged[place.segment] += 1
        for segment, answers in damaged.items():
            yield f"{self.root / segment}: {counted(answers, 'answer')} in it cannot be read"

    def set_damaged_aside(self) -> int:
        """Read all answers, move damaged segments away and return the number of unreadable answers."""
        return sum(1 for place in self._segments.places() if self._at(place) is None)

    def lost(self) -> list[str]:
        """Return the digests of answers that were in damaged segments and were not fetched again."""
        digest_lists = (path.read_text("utf-8").split() for path in (self.root / _DAMAGED).glob(f"*/{_LOST_FILE}"))
        return sorted({digest for digests in digest_lists for digest in digests if digest not in self})


def as_of_text(as_of: datetime | str | None) -> str:
    """Return an as-of value as text: a datetime as a partition value, a text unchanged, None as an empty text."""
    return partition_text(as_of) if isinstance(as_of, datetime) else as_of or ""


def _is_since(place: PieceLocation, since: datetime | None) -> bool:
    return since is None or place.fetched_at >= since.isoformat()


def _request_fields(request: Request) -> dict[str, Any]:
    return {"method": request.method, "path": request.path, "query": request.query, "body": request.body}


def _key_text(provider_id: str, request: Request, as_of: datetime | str | None) -> str:
    """Return the text whose hash names the answer of a request."""
    parts = _request_fields(request)
    parts["query"] = {name: value for name, value in parts["query"].items() if name != "refresh"}
    fields = {"provider": provider_id, "as_of": as_of_text(as_of), **parts}
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))


def _about(answer: NewAnswer) -> dict[str, Any]:
    return {
        "digest": answer.key,
        "provider": answer.provider_id,
        "as_of": answer.as_of,
        "fetched_at": answer.fetched_at.isoformat(),
        "sha256": hashlib.sha256(answer.raw).hexdigest(),
        "request": _request_fields(answer.request),
    }


def _checked(place: PieceLocation, piece: Piece) -> ArchivedAnswer:
    if piece.about["sha256"] != hashlib.sha256(piece.raw).hexdigest():
        raise DamagedPiece("the SHA-256 of an archived answer differs from the recorded one")
    if (piece.about.get("digest", place.name), piece.about["sha256"]) != (place.name, place.sha256):
        raise DamagedPiece("the metadata of an archived answer differ from those in the index")
    return _answer(place.name, piece)


def _answer(key: str, piece: Piece) -> ArchivedAnswer:
    about = piece.about
    at = datetime.fromisoformat(about["fetched_at"])
    return ArchivedAnswer(piece.raw, at, key, about["sha256"], about["provider"], about["as_of"], about["request"])
