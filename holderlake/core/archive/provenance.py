"""Provenance: for each commit to the lake, its requests and the archived answers that its rows were made from.

A small file in the archive records each commit, so the lake can be rebuilt from the archive alone. The file is written
before the commit. If the process is killed in between, the commit is made again and recorded again.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import zstandard

from holderlake.core.archive.archive import AnswerArchive, PartitionName
from holderlake.core.contract.requests import ENDPOINTS, Request
from holderlake.core.contract.times import parse_partition
from holderlake.core.storage.atomic_files import write_whole
from holderlake.core.storage.layout import ANY_PARTITION, Place, partition_folder
from holderlake.core.storage.names import BadName, chain_name, family_name, timestamp_name

UNREADABLE: Final = "malformed_answer"
"""Error code of a paid answer that could not be decoded. A later version may decode it."""
INVALID_ADDRESS: Final = "invalid_address"
"""Error code of an address that no request can name, for example one with a slash. It is not requested."""

_LEVEL: Final = 6
_SUFFIX: Final = ".zst"
_REQUESTS: Final = {request.endpoint: request for request in ENDPOINTS}


class Archived(NamedTuple):
    """An archived answer: its name (``digest``), the hash of its bytes, and its fetch time (naive UTC)."""

    digest: str
    sha256: str
    fetched_at: datetime


@dataclass(frozen=True)
class Asked:
    """A request, as its endpoint and fields, and its archived answer (``Archived``), None without one."""

    endpoint: str
    fields: dict[str, Any]
    digest: str | None = None
    sha256: str | None = None
    fetched_at: datetime | None = None

    @property
    def request(self) -> Request:
        """The request without ``refresh``. Raises ``ValueError`` for an endpoint that the contract no longer has."""
        if self.endpoint not in _REQUESTS:
            raise ValueError(
                f"the record of a commit names the endpoint {self.endpoint!r}, which this version does not know; "
                "ingest the partition again"
            )
        return _REQUESTS[self.endpoint].model_validate(self.fields)


@dataclass(frozen=True)
class Failed:
    """A subject whose request failed. The fields are columns of the table ``failures``."""

    subject: str
    code: str
    reason: str
    answer_hash: str | None = None


@dataclass(frozen=True)
class Group:
    """Subjects that a commit requested together. ``asked`` is empty if the local engine computed the rows."""

    subjects: tuple[str, ...]
    asked: tuple[Asked, ...]
    failures: tuple[Failed, ...]


@dataclass(frozen=True)
class Commit:
    """A commit, at the time ``at`` (naive UTC), to the partition of the instant ``timestamp``, a partition value.

    ``live`` is True if the requests had no timestamp. ``options`` are those of all requests. ``rules`` are the
    provider's rules (thresholds for maps) as JSON. ``store_change`` is the number of a change of the user's own store
    that the rows include, None for another provider.
    """

    family: str
    chain: str
    timestamp: str
    provider: str
    live: bool
    at: datetime
    groups: tuple[Group, ...]
    options: dict[str, Any] = field(default_factory=dict)
    rules: str | None = None
    store_change: int | None = None

    @property
    def place(self) -> Place:
        """The partition: its family, chain and timestamp."""
        return self.family, self.chain, self.timestamp

    @property
    def as_of(self) -> datetime:
        """The partition's instant (naive UTC)."""
        return parse_partition(self.timestamp)

    @property
    def is_computed(self) -> bool:
        """True if the local engine computed the commit's rows, without requests."""
        return not any(
            group.asked or INVALID_ADDRESS in {failure.code for failure in group.failures} for group in self.groups
        )


def group_of(
    subjects: Sequence[str],
    requests: Sequence[Request],
    answers: Sequence[Archived],
    failures: Sequence[Mapping[str, Any]],
) -> Group:
    """Return the ``Group`` of the subjects that ``requests`` are about. The last requests may lack an answer.

    ``failures`` are rows of the lake's table ``failures``.
    """
    failed = tuple(Failed(row["subject"], row["code"], row["reason"], row["answer_hash"]) for row in failures)
    without: list[tuple[None, None, None]] = [(None, None, None)] * (len(requests) - len(answers))
    references: list[tuple[str | None, str | None, datetime | None]] = [*answers, *without]
    calls = zip(requests, references, strict=True)
    asked = tuple(Asked(request.endpoint, _fields(request), *reference) for request, reference in calls)
    return Group(tuple(subjects), asked, failed)


def encoded(commit: Commit) -> bytes:
    """Return the commit record as compressed JSON."""
    return zstandard.ZstdCompressor(_LEVEL, write_checksum=True).compress(msgspec.json.encode(commit, order="sorted"))


def note(archive: AnswerArchive, commit: Commit) -> None:
    """Write a commit record to the journal. Raises ``OSError``, and ``BadName`` if a name is unsafe in a path."""
    archive.check_format()
    name = f"{commit.at:%Y%m%dT%H%M%S.%fZ}-{uuid.uuid4().hex[:8]}{_SUFFIX}"
    write_whole(_folder(archive) / _place(*commit.place) / name, encoded(commit))


def records(archive: AnswerArchive, place: PartitionName | None = None) -> list[Path]:
    """Return the files of the commit records of a partition, or of all, sorted by chain, timestamp, family and time.

    Records in the manifests of a lake in a bucket are first copied to this host's journal, unless they are there.
    """
    archive.check_format()
    for other_place, other_records in archive.other_records(place):
        folder = _folder(archive) / _place(*other_place)
        for number, record in enumerate(other_records):
            path = folder / f"{number:06d}-{hashlib.sha256(record).hexdigest()[:16]}{_SUFFIX}"
            if not path.exists():
                write_whole(path, record)
    folders = f"{ANY_PARTITION}/*" if place is None else _place(*place)
    return sorted(path for path in _folder(archive).glob(f"{folders}/*{_SUFFIX}") if path.name[0] != ".")


def read(path: Path) -> Commit | None:
    """Read a commit record from its file; None if the file is damaged."""
    reader = zstandard.ZstdDecompressor().decompressobj()
    try:
        text = reader.decompress(path.read_bytes())
        commit = msgspec.json.decode(text, type=Commit) if reader.eof else None
        return commit if commit and _place(*commit.place) == "/".join(path.parts[-4:-1]) else None
    except (zstandard.ZstdError, msgspec.DecodeError, UnicodeDecodeError, BadName):
        return None


def newest_answer(archive: AnswerArchive, place: PartitionName) -> tuple[Request, bytes] | None:
    """Return a request and its archived answer of a partition's newest commit; None if it has none."""
    for path in reversed(records(archive, place)):
        commit = read(path)
        for call in (call for group in (commit.groups if commit else ()) for call in group.asked):
            if call.digest and call.sha256 and (answer := archive.version(call.digest, call.sha256)):
                return call.request, answer.raw
    return None


def commits(archive: AnswerArchive) -> Iterator[Commit]:
    """Yield all readable commit records, in the order of ``records``."""
    records_read = (read(path) for path in records(archive))
    return (commit for commit in records_read if commit)


def _folder(archive: AnswerArchive) -> Path:
    return archive.root / "journal"


def _place(family: str, chain: str, timestamp: str) -> str:
    """Return the folder of a partition's commit records in the journal. Raises ``BadName``."""
    return f"{partition_folder(chain_name(chain), timestamp_name(timestamp))}/{family_name(family)}"


def _fields(request: Request) -> dict[str, Any]:
    """Return the fields of a request without ``refresh``: a refreshed answer has the same name in the archive."""
    fields = request.model_dump(mode="json", exclude_defaults=True)
    if "options" in fields:
        fields["options"].pop("refresh", None)
    return fields
