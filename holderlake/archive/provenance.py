"""The journal of commits: what each commit to the lake was asked for and which archived answers it was made of.

It stands beside the answers, a small file a commit, so that the archive alone is enough to make the lake again. A
commit is noted before it is made: one that was killed in between is asked for again, and noted again. The answers are
``archive``'s matter, replaying is ``holderlake.maintenance.replay``'s.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
import zstandard

from holderlake.archive.archive import AnswerArchive
from holderlake.contract.requests import ENDPOINTS, Request
from holderlake.contract.times import parse_partition
from holderlake.storage.atomic_files import write_whole
from holderlake.storage.names import BadName, chain_name, family_name, timestamp_name

UNREADABLE: Final = "malformed_answer"
"""The code of failures whose answer came, was paid, and could not be read: reading it again may help."""

_LEVEL: Final = 6
_SUFFIX: Final = ".zst"
_REQUESTS: Final = {request.endpoint: request for request in ENDPOINTS}


class Kept(Protocol):
    """An answer in the archive, as ``provider.fetcher.Response`` describes it."""

    @property
    def digest(self) -> str: ...
    @property
    def sha256(self) -> str: ...
    @property
    def fetched_at(self) -> datetime: ...


@dataclass(frozen=True)
class Asked:
    """A request by its endpoint and fields, and its answer in the archive; None where no answer came."""

    endpoint: str
    fields: dict[str, Any]
    digest: str | None = None
    sha256: str | None = None
    fetched_at: datetime | None = None

    @property
    def request(self) -> Request:
        """The request anew, without the wish to refresh. Raises ``ValueError`` on one that the contract lost."""
        if self.endpoint not in _REQUESTS:
            raise ValueError(f"the journal names the endpoint {self.endpoint!r}, which the contract does not have")
        return _REQUESTS[self.endpoint].model_validate(self.fields)


@dataclass(frozen=True)
class Failed:
    """Why a subject did not end in rows: columns of the table ``failures``."""

    subject: str
    code: str
    reason: str
    answer_hash: str | None = None


@dataclass(frozen=True)
class Group:
    """Subjects that were asked for together, the requests, and what failed. The engine at hand needs no request."""

    subjects: tuple[str, ...]
    asked: tuple[Asked, ...]
    failures: tuple[Failed, ...]


@dataclass(frozen=True)
class Commit:
    """A commit of a family's partition; ``timestamp`` is the partition's text, ``at`` when it was made (naive UTC)."""

    family: str
    chain: str
    timestamp: str
    provider: str
    live: bool
    at: datetime
    groups: tuple[Group, ...]
    options: dict[str, Any] | None = None
    """The options of its requests; None in a commit of version 0.1.0, whose requests have them all the same."""
    rules: str | None = None
    """JSON of the provider's rules in force, where they were known."""

    @property
    def as_of(self) -> datetime:
        """The partition's instant."""
        return parse_partition(self.timestamp)

    @property
    def is_computed(self) -> bool:
        """Whether the engine at hand told of it, and nobody was asked."""
        return not any(group.asked for group in self.groups)


def group_of(
    subjects: Sequence[str],
    requests: Sequence[Request],
    answers: Sequence[Kept],
    failures: Sequence[Mapping[str, Any]],
) -> Group:
    """A group as it was asked for: ``answers`` to the first of the ``requests``, in their order."""
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
    """Keep a commit in the journal. Raises ``OSError``, and ``BadName`` where it names no safe path."""
    folder = _folder(archive).joinpath(*_place(commit))
    name = f"{commit.at:%Y%m%dT%H%M%S.%fZ}-{uuid.uuid4().hex[:8]}{_SUFFIX}"
    text = msgspec.json.encode(commit, order="sorted")
    write_whole(folder / name, zstandard.ZstdCompressor(_LEVEL, write_checksum=True).compress(text))


def records(archive: AnswerArchive) -> list[Path]:
    """The files of all commits: by chain, timestamp and family, and of each partition in their order."""
    return sorted(path for path in _folder(archive).glob(f"chain=*/timestamp=*/*/*{_SUFFIX}") if path.name[0] != ".")


def records_of(archive: AnswerArchive, place: tuple[str, str, str]) -> list[Path]:
    """Return the files of one partition's commits (family, chain, timestamp), in their order."""
    family, chain, timestamp = place
    folder = _folder(archive) / f"chain={chain_name(chain)}" / f"timestamp={timestamp_name(timestamp)}"
    return sorted(path for path in (folder / family_name(family)).glob(f"*{_SUFFIX}") if path.name[0] != ".")


def read(path: Path) -> Commit | None:
    """A commit; None where the file is damaged."""
    reader = zstandard.ZstdDecompressor().decompressobj()
    try:
        text = reader.decompress(path.read_bytes())
        commit = msgspec.json.decode(text, type=Commit) if reader.eof else None
        return commit if commit and _place(commit) == path.parts[-4:-1] else None
    except (zstandard.ZstdError, msgspec.DecodeError, UnicodeDecodeError, BadName):
        return None


def commits(archive: AnswerArchive) -> Iterator[Commit]:
    """All commits that can be read, in the order of ``records``."""
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
    """The request's fields. The archive keeps one name for an answer and its refreshed one, so the wish is left out."""
    fields = request.model_dump(mode="json", exclude_defaults=True)
    if "options" in fields:
        fields["options"].pop("refresh", None)
    return fields
