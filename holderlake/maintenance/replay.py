"""Makes one commit again from the archive: the same requests, the very answers of then, and nobody is asked.

What the engine at hand told has no answers in the archive: it is computed anew, as of the same instant.

Which commits to make again, and where the lake then stands, is ``rebuild``'s and ``retries``' matter.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final, TypeVar

from holderlake.archive.archive import AnswerArchive, ArchivedAnswer
from holderlake.archive.provenance import Asked, Commit, Failed, Group
from holderlake.contract.requests import Request
from holderlake.ingest.options import Options, requested_options
from holderlake.ingest.run import ingest_partition
from holderlake.ingest.stream import IngestContext, Partition, Replay, Stream
from holderlake.ingest.streams.all import STREAMS
from holderlake.lake.lake import Lake, LakeError, Manifest
from holderlake.provider.client import ProviderClient
from holderlake.provider.errors import InvalidRequest
from holderlake.provider.fetcher import Provider
from holderlake.workspace import Endpoint, Workspace

T = TypeVar("T")

_FAMILY: Final[Mapping[str, Stream]] = {stream.name: stream for stream in STREAMS}
_NOWHERE: Final = "http://127.0.0.1"


class NotInArchive(InvalidRequest):
    """The archive does not hold the answer any more, or only damaged; nobody is asked for it."""

    code = "not_in_archive"


class _FailedThen(InvalidRequest):
    """A request failed when it was made; in the words of then."""

    def __str__(self) -> str:
        return self.detail


async def replay(workspace: Workspace, lake: Lake, commit: Commit) -> list[Asked]:
    """Makes a commit again in ``lake`` from the archive; the answers that are not there any more.

    One that was computed is computed anew by the workspace's engine, which must be at hand. Nobody is asked, and
    ``workspace``'s ledger and journal stay as they are. Raises ``LakeError`` on a family of another version.
    """
    stream = family_of(commit)
    archive = _AnswersOf(workspace.archive, commit)
    shadow = Workspace(workspace.settings, _nobody)
    shadow.lake, shadow.archive = lake, archive
    shadow.engine = workspace.engine if commit.is_computed else None
    partition = Partition(commit.chain, commit.as_of, commit.live)
    client = _Refusing(_NOWHERE, None)
    provider = Provider(client, workspace.ledger, archive, commit.provider, "rebuild")
    context = IngestContext(
        provider,
        shadow,
        again=True,
        replay=Replay(commit.at, _options(commit), commit.rules),
    )
    async with client:
        await ingest_partition(context, _as_then(stream, commit.groups), partition)
    return archive.missing


def family_of(one: Commit | Manifest) -> Stream:
    """The family that it is of. Raises ``LakeError`` where this version has none of that name."""
    if one.family not in _FAMILY:
        raise LakeError(f"{name_of(one)} is of a family that this version does not have")
    return _FAMILY[one.family]


def _options(commit: Commit) -> Options | None:
    """Return the options of a commit: as recorded, or those of its requests."""
    requests = (asked.request for group in commit.groups for asked in group.asked)
    return next(map(requested_options, requests), None) if commit.options is None else commit.options


class _AnswersOf(AnswerArchive):
    """The archive as a commit saw it: of each request the answer of then, or what went wrong then."""

    def __init__(self, archive: AnswerArchive, commit: Commit) -> None:
        super().__init__(archive.root)
        self._archive = archive
        self.missing: list[Asked] = []
        self._provider = commit.provider
        self._digests: dict[str, str] = {}
        self._then: dict[str, tuple[Asked, Failed | None]] = {}
        for group in commit.groups:
            for asked in group.asked:
                self._remember(asked, group)

    def _remember(self, asked: Asked, group: Group) -> None:
        plain = super().key(self._provider, asked.request, None)
        digest = self._digests[plain] = asked.digest or plain
        self._then[digest] = (asked, group.failures[0] if group.failures else None)

    def key(self, provider_id: str, request: Request, as_of: datetime | str | None) -> str:
        """The name that the answer has: the settings and the day of then do not matter."""
        return self._digests[super().key(provider_id, request, None)]

    def get(self, key: str, since: datetime | None = None) -> ArchivedAnswer | None:
        """The answer of then. Raises ``ProviderError`` where there was none, or is none any more."""
        asked, failed = self._then[key]
        if asked.digest is None or asked.sha256 is None:
            raise _FailedThen(failed.reason if failed else "it was not asked", failed.code if failed else None)
        answer = self.version(asked.digest, asked.sha256, asked.fetched_at)
        if answer is None:
            self.missing.append(asked)
            raise NotInArchive(f"the answer {asked.digest} is not in the archive")
        return answer

    def version(self, key: str, sha256: str, fetched_at: datetime | None = None) -> ArchivedAnswer | None:
        return self._archive.version(key, sha256, fetched_at)


class _Refusing(ProviderClient):
    """A client that sends nothing."""

    async def retried(self, work: Callable[[], Awaitable[T]]) -> T:
        raise NotInArchive("nobody is asked while the lake is made again")


@dataclass(frozen=True)
class _AsThen(Stream):
    """A family whose subjects are asked for in the groups of then."""

    groups: tuple[Sequence[str], ...] = ()

    def batches(self, subjects: Sequence[str]) -> list[Sequence[str]]:
        return list(self.groups)


def _as_then(stream: Stream, groups: Sequence[Group]) -> Stream:
    """The family with the subjects and the requests of then."""
    asked = {group.subjects: [one.request for one in group.asked] for group in groups}
    subjects = [subject for group in groups for subject in group.subjects]
    same: dict[str, Any] = {one.name: getattr(stream, one.name) for one in fields(Stream)}
    same["subjects"] = lambda workspace, partition: subjects
    same["requests"] = lambda settings, partition, group, refresh: asked[tuple(group)]
    return _AsThen(**same, groups=tuple(asked))


def _nobody() -> Endpoint:
    raise NotInArchive("nobody is asked while the lake is made again")


def name_of(one: Commit | Manifest) -> str:
    """Family, chain and instant, for people."""
    return f"{one.family} {one.chain} {one.timestamp}"
