"""The answer archive: each paid answer, compressed, under a name made of the request and its as-of instant.

Answers are kept as they came, before anybody reads them: reading them anew costs nothing. A file is there whole or not
at all, and is checked against its hash whenever it is read. An answer that a refreshed one took the place of is kept
aside, for partitions of the lake may be made of it. What to ask, and when to ask again, stands in ``provider``; which
commit was made of which answers, in ``journal``.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import logging
import os
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Final

import zstandard

from contract.requests import Request
from contract.times import partition_text

_log = logging.getLogger(__name__)
_LEVEL: Final = 3
_SUFFIX: Final = ".zst"
_DAMAGED: Final = "damaged"
_SUPERSEDED: Final = "superseded"
_CLAIMS: Final = "claims"
_CLAIM_SECONDS: Final = 0.02


@dataclass(frozen=True)
class ArchivedAnswer:
    """An answer as it came, and where it came from. ``digest`` names the file, ``sha256`` is the hash of ``raw``."""

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
class Arrived:
    """An answer to be kept under ``key``: what was asked, what came, when (naive UTC), of whom, as of when."""

    key: str
    request: Request
    raw: bytes = field(repr=False)
    fetched_at: datetime
    provider_id: str
    as_of: str


@dataclass(frozen=True)
class ArchiveSize:
    """How many answers there are and what they take on disk, and how many damaged files were set aside."""

    answers: int
    stored_bytes: int
    damaged: int


@dataclass(frozen=True)
class StoredAnswer:
    """A file of the archive, by what its header tells. ``superseded``: a refreshed answer took its place."""

    path: Path
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

    def key(self, provider_id: str, request: Request, as_of: datetime | str | None) -> str:
        """The digest under which the answer is kept. A refreshed answer takes the place of the one before."""
        parts = _sent(request)
        parts["query"] = {name: value for name, value in request.query.items() if name != "refresh"}
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
        (kept,) = self.put_all([Arrived(key, request, raw, fetched_at, provider_id, as_of_text(as_of))])
        if isinstance(kept, Exception):
            raise kept
        return kept

    def put_all(self, arrived: Sequence[Arrived]) -> list[ArchivedAnswer | Exception]:
        """Keeps answers as ``put`` does, with fewer waits for the disk; for each the answer, or its ``OSError``."""
        abouts = [_about(one) for one in arrived]
        packer = zstandard.ZstdCompressor(_LEVEL, write_checksum=True)
        files = {}
        for one, about in zip(arrived, abouts, strict=True):
            header = json.dumps(about, separators=(",", ":")).encode()
            files[self._path(one.key)] = packer.compress(header + b"\n" + one.raw)
        failed = write_all(files, self._keep_aside)
        return [
            failed.get(self._path(one.key)) or _answer(one.key, about, one.raw)
            for one, about in zip(arrived, abouts, strict=True)
        ]

    def get(self, key: str) -> ArchivedAnswer | None:
        """The answer, or None. A damaged file is set aside with a warning, and counts as none."""
        path = self._path(key)
        try:
            stored = path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            return _read(key, stored)
        except (zstandard.ZstdError, ValueError, KeyError, TypeError) as error:
            self._set_aside(path, error)
            return None

    def version(self, key: str, sha256: str, fetched_at: datetime | None = None) -> ArchivedAnswer | None:
        """The answer of that hash (and of that instant, naive UTC), whether or not a newer one took its place."""
        found = [self.get(key)]
        found += [self._looked_at(path) for path in sorted(self._aside(key).glob(f"{key}-*{_SUFFIX}"))]
        fitting = (answer for answer in found if answer and answer.sha256 == sha256)
        return next((answer for answer in fitting if fetched_at in (None, answer.fetched_at)), None)

    @asynccontextmanager
    async def claimed(self, key: str) -> AsyncIterator[None]:
        """Holds the right to ask for an answer: of several processes one asks, the others wait for what it keeps.

        A process that dies lets go of it. One file stands for many keys, so that there are no more than 4,096.
        """
        folder = self.root / _CLAIMS
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / key[:3]).open("a") as file:
            while not _is_locked(file):  # without a thread: those of both processes might all wait for each other
                await asyncio.sleep(_CLAIM_SECONDS)
            yield

    def __contains__(self, key: str) -> bool:
        """Whether there is a file of that name; only ``get`` looks into it."""
        return self._path(key).exists()

    def __iter__(self) -> Iterator[ArchivedAnswer]:
        """All answers by digest; damaged ones are set aside."""
        for path in self._files():
            answer = self.get(path.stem)
            if answer is not None:
                yield answer

    def stored(self) -> Iterator[StoredAnswer]:
        """What the headers of all files tell, superseded ones' too; files whose header can't be read are left out."""
        for path in [*self._files(), *self._superseded()]:
            with suppress(FileNotFoundError, zstandard.ZstdError, ValueError, KeyError, TypeError):
                yield _told(path)

    def remove(self, stored: StoredAnswer) -> None:
        """Removes a file for good. Asking for that answer again will cost what it costs."""
        stored.path.unlink(missing_ok=True)

    def size(self) -> ArchiveSize:
        """Counts and bytes, without reading the answers; superseded ones are not counted."""
        sizes = [path.stat().st_size for path in self._files()]
        damaged = sum(1 for _ in (self.root / _DAMAGED).glob("*"))
        return ArchiveSize(len(sizes), sum(sizes), damaged)

    def _path(self, key: str) -> Path:
        return self.root / key[:2] / f"{key}{_SUFFIX}"

    def _files(self) -> list[Path]:
        return sorted(path for path in self.root.glob(f"[0-9a-f][0-9a-f]/*{_SUFFIX}") if not path.name.startswith("."))

    def _superseded(self) -> list[Path]:
        return sorted((self.root / _SUPERSEDED).glob(f"??/*{_SUFFIX}"))

    def _aside(self, key: str) -> Path:
        return self.root / _SUPERSEDED / key[:2]

    def _keep_aside(self, path: Path) -> None:
        """A second name for the answer that is about to be replaced: at no instant it has none."""
        if not path.exists():
            return
        aside = self._aside(path.stem)
        aside.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # set aside as damaged meanwhile
            os.link(path, aside / f"{path.stem}-{uuid.uuid4().hex[:8]}{_SUFFIX}")

    def _looked_at(self, path: Path) -> ArchivedAnswer | None:
        """A superseded answer; None where it is damaged."""
        try:
            return _read(path.stem.partition("-")[0], path.read_bytes())
        except (FileNotFoundError, zstandard.ZstdError, ValueError, KeyError, TypeError):
            return None

    def _set_aside(self, path: Path, error: Exception) -> None:
        aside = self.root / _DAMAGED
        aside.mkdir(exist_ok=True)
        kept = Path(tempfile.mkdtemp(prefix=f"{path.stem}-", dir=aside)) / path.name
        try:
            path.replace(kept)
        except FileNotFoundError:  # another process was quicker
            kept.parent.rmdir()
            return
        _log.warning(
            "the archived answer %s is damaged (%s) and will be asked for again; it was set aside in %s",
            path.stem,
            error,
            kept,
        )


def as_of_text(as_of: datetime | str | None) -> str:
    """What an answer is true as of, as text: a partition value, words of the caller's, or nothing."""
    return partition_text(as_of) if isinstance(as_of, datetime) else as_of or ""


def _is_locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sent(request: Request) -> dict[str, Any]:
    return {"method": request.method, "path": request.path, "query": request.query, "body": request.body}


def _read(key: str, stored: bytes) -> ArchivedAnswer:
    """The answer in a file's bytes. Raises ``ZstdError``, ``ValueError``, ``KeyError``, ``TypeError`` on damage."""
    reader = zstandard.ZstdDecompressor().decompressobj()  # trusts no size that a damaged file may claim
    text = reader.decompress(stored)
    if not reader.eof:
        raise ValueError("it ends too early")
    header, _, raw = text.partition(b"\n")
    about = json.loads(header)
    if about["sha256"] != hashlib.sha256(raw).hexdigest():
        raise ValueError("its hash is another")
    return _answer(key, about, raw)


def _told(path: Path) -> StoredAnswer:
    """What a file's header tells; the answer behind it is not unpacked. Raises as ``_read``."""
    with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as reader:
        text = b""
        while b"\n" not in text and (more := reader.read(65_536)):
            text += more
    about = json.loads(text.partition(b"\n")[0])
    fetched_at = datetime.fromisoformat(about["fetched_at"])
    digest, _, version = path.stem.partition("-")
    return StoredAnswer(
        path, digest, about["sha256"], fetched_at, about["request"], path.stat().st_size, superseded=bool(version)
    )


def _answer(key: str, about: Mapping[str, Any], raw: bytes) -> ArchivedAnswer:
    fetched_at = datetime.fromisoformat(about["fetched_at"])
    return ArchivedAnswer(raw, fetched_at, key, about["sha256"], about["provider"], about["as_of"], about["request"])


def _about(one: Arrived) -> dict[str, Any]:
    return {
        "provider": one.provider_id,
        "as_of": one.as_of,
        "fetched_at": one.fetched_at.isoformat(),
        "sha256": hashlib.sha256(one.raw).hexdigest(),
        "request": _sent(one.request),
    }


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file that is there whole or not at all, and there to stay. Raises ``OSError``."""
    failed = write_all({path: content})
    if failed:
        raise failed[path]


def write_all(files: Mapping[Path, bytes], before: Callable[[Path], None] = lambda _: None) -> dict[Path, OSError]:
    """Writes files beside their places, to the disk, and then renames: no reader and no crash ever sees a part.

    ``before`` is called with each place when its file is written and nothing is replaced yet. What failed is told by
    place. All are written before the first is synced: what one sync brings to disk, the next need not.
    """
    failed: dict[Path, OSError] = {}
    parts: dict[Path, Path] = {}
    try:
        for path, content in files.items():
            with _noting(failed, path):
                parts[path] = _part(path, content)
        for path, part in parts.items():
            with _noting(failed, path):
                _sync(part)
                before(path)
                part.replace(path)
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)
    for folder in {path.parent for path in parts}:
        with _noting(failed, *(path for path in parts if path.parent == folder)):
            _sync(folder)
    return failed


@contextmanager
def _noting(failed: dict[Path, OSError], *paths: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        for path in paths:
            failed.setdefault(path, error)


def _part(path: Path, content: bytes) -> Path:
    """A file beside its place, written and not yet synced."""
    if not path.parent.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        _sync(path.parent.parent)
    handle, name = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)


def _sync(path: Path) -> None:
    """Makes a file's content, or the names in a folder, last through a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
