"""Provenance of commits: the requests of each commit to the lake, and the archived answers that it was made from.

Each commit is a small file in the archive, so the lake can be rebuilt from the archive alone. It is recorded before the
commit is made. If the process is killed in between, the commit is made again and recorded again.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import zstandard

from holderlake.archive.archive import AnswerArchive
from holderlake.contract.requests import ENDPOINTS, Request
from holderlake.contract.times import parse_partition
from holderlake.storage.atomic_files import write_whole
from holderlake.storage.names import BadName, chain_name, family_name, timestamp_name

UNREADABLE: Final = "malformed_answer"
"""The code of failures with a paid answer that could not be decoded; a later version may decode it."""

_LEVEL: Final = 6
_SUFFIX: Final = ".zst"
_REQUESTS: Final = {request.endpoint: request for request in ENDPOINTS}


class Archived(NamedTuple):
    """Reference to an archived answer: its name, the hash of its bytes, and when it was fetched (naive UTC)."""

    digest: str
    sha256: str
    fetched_at: datetime


@dataclass(frozen=True)
class Asked:
    """A request by endpoint and fields, and its archived answer, if there is one."""

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
    """A subject without rows: columns of the table ``failures``."""

    subject: str
    code: str
    reason: str
    answer_hash: str | None = None


@dataclass(frozen=True)
class Group:
    """Subjects that were fetched together, their requests and failures. The local engine needs no request."""

    subjects: tuple[str, ...]
    asked: tuple[Asked, ...]
    failures: tuple[Failed, ...]


@dataclass(frozen=True)
class Commit:
    """A commit of a partition. ``timestamp`` is the partition's text, ``at`` the time of the commit (naive UTC)."""

    family: str
    chain: str
    timestamp: str
    provider: str
    live: bool
    at: datetime
    groups: tuple[Group, ...]
    options: dict[str, Any] | None = None
    """Options of its requests; None in commits of version 0.1.0, where each request has them."""
    rules: str | None = None
    """The provider's rules as JSON, if known."""

    @property
    def as_of(self) -> datetime:
        """The partition's instant."""
        return parse_partition(self.timestamp)

    @property
    def is_computed(self) -> bool:
        """True if the local engine computed it, without requests."""
        return not any(group.asked for group in self.groups)


def group_of(
    subjects: Sequence[str],
    requests: Sequence[Request],
    answers: Sequence[Archived],
    failures: Sequence[Mapping[str, Any]],
) -> Group:
    """Return the group of a fetch. ``answers`` belong to the first of the ``requests``, in their order."""
    failed = tuple(Failed(row["subject"], row["code"], row["reason"], row["answer_hash"]) for row in failures)
    asked = []
    for place, request in enumerate(requests):
        fields = _fields(request)
        if place < len(answers):
            kept = answers[place]
            asked.append(Asked(request.endpoint, fields, kept.digest, kept.sha256, kept.fetched_at))
        else:
            asked.append(Asked(request.endpoint, fields))
    return Group(tuple(subjects), tuple(asked), failed)


def note(archive: AnswerArchive, commit: Commit) -> None:
    """Record a commit. Raises ``OSError``, and ``BadName`` if a name is unsafe in a path."""
    folder = _folder(archive).joinpath(*_place(commit))
    name = f"{commit.at:%Y%m%dT%H%M%S.%fZ}-{uuid.uuid4().hex[:8]}{_SUFFIX}"
    text = msgspec.json.encode(commit, order="sorted")
    write_whole(folder / name, zstandard.ZstdCompressor(_LEVEL, write_checksum=True).compress(text))


def records(archive: AnswerArchive) -> list[Path]:
    """Return the files of all commits by chain, timestamp and family, and in order of time."""
    return sorted(path for path in _folder(archive).glob(f"chain=*/timestamp=*/*/*{_SUFFIX}") if path.name[0] != ".")


def records_of(archive: AnswerArchive, place: tuple[str, str, str]) -> list[Path]:
    """Return the files of the commits of one partition (family, chain, timestamp) in order of time."""
    family, chain, timestamp = place
    folder = _folder(archive) / f"chain={chain_name(chain)}" / f"timestamp={timestamp_name(timestamp)}"
    return sorted(path for path in (folder / family_name(family)).glob(f"*{_SUFFIX}") if path.name[0] != ".")


def read(path: Path) -> Commit | None:
    """Return the commit in a file; None if it is damaged."""
    reader = zstandard.ZstdDecompressor().decompressobj()
    try:
        text = reader.decompress(path.read_bytes())
        commit = msgspec.json.decode(text, type=Commit) if reader.eof else None
        return commit if commit and _place(commit) == path.parts[-4:-1] else None
    except (zstandard.ZstdError, msgspec.DecodeError, UnicodeDecodeError, BadName):
        return None


def commits(archive: AnswerArchive) -> Iterator[Commit]:
    """Return all readable commits, in the order of ``records``."""
    found = (read(path) for path in records(archive))
    return (commit for commit in found if commit)


def _folder(archive: AnswerArchive) -> Path:
    return archive.root / "journal"


def _place(commit: Commit) -> tuple[str, str, str]:
    """Return the folders of a commit's file. Raises ``BadName``."""
    return (
        f"chain={chain_name(commit.chain)}",
        f"timestamp={timestamp_name(commit.timestamp)}",
        family_name(commit.family),
    )


def _fields(request: Request) -> dict[str, Any]:
    """Return the fields of a request without ``refresh``: a refreshed answer has the same name in the archive."""
    fields = request.model_dump(mode="json", exclude_defaults=True)
    if "options" in fields:
        fields["options"].pop("refresh", None)
    return fields
