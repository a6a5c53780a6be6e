"""Replay of one commit: the same requests, answered from the archive. No request is sent.

The local engine computes its own commits again, as of the same instant. ``rebuild`` and ``retry`` choose the commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final

from holderlake.assets import STREAMS
from holderlake.core.archive.archive import AnswerArchive, ArchivedAnswer
from holderlake.core.archive.provenance import Asked, Commit, Failed
from holderlake.core.contract.requests import Request
from holderlake.core.ingest.run import ingest_partition
from holderlake.core.ingest.stream import ChainInstant, IngestContext, Replay, Stream
from holderlake.core.lake.lake import Lake, LakeError, Manifest
from holderlake.core.provider.attempts import Attempts
from holderlake.core.provider.client import ProviderClient
from holderlake.core.provider.errors import InvalidRequest
from holderlake.core.provider.fetcher import Fetcher
from holderlake.core.workspace import Endpoint, OwnStore, Workspace

_STREAMS: Final = {stream.name: stream for stream in STREAMS}
_NO_ADDRESS: Final = "http://127.0.0.1"
_NO_REQUESTS: Final = "a replay sends no requests"


class NotInArchive(InvalidRequest):
    """A replay needs an answer that is missing or damaged in the archive. It is not requested from the provider."""

    code = "not_in_archive"


class _RecordedFailure(InvalidRequest):
    """Raised in a replay for a request that failed when the commit was made, with the recorded message and code."""

    def __str__(self) -> str:
        return self.detail


async def replay(workspace: Workspace, lake: Lake, commit: Commit) -> list[Asked]:
    """Repeat a commit in ``lake`` with answers from the archive, and return the requests whose answers are missing.

    A commit of the local engine is computed by ``workspace.filler``. Ledger and commit records do not change. Raises
    ``LakeError`` for a stream that this version does not have.
    """
    stream = stream_of(commit)
    archive = _RecordedAnswers(workspace.archive, commit)
    engine = workspace.filler if commit.is_computed else None
    target = Workspace(workspace.settings, _no_endpoint, store=OwnStore(lambda: engine), lake=lake, archive=archive)
    client = _SilentClient(_NO_ADDRESS, None)
    provider = Fetcher(client, workspace.ledger, archive, commit.provider, "rebuild")
    recorded = Replay(commit.at, commit.options, commit.rules)
    context = IngestContext(provider, target, again=True, replay=recorded)
    async with client:
        partition = ChainInstant(commit.chain, commit.as_of, commit.live, commit.store_change)
        await ingest_partition(context, _recorded_stream(stream, commit), partition)
    return archive.missing


def stream_of(partition: Commit | Manifest) -> Stream:
    """Return the stream of a commit or manifest. Raises ``LakeError`` if this version has no such stream."""
    if partition.family not in _STREAMS:
        raise LakeError(
            f"{name_of(partition)}: this version has no family {partition.family}; install the version that wrote it"
        )
    return _STREAMS[partition.family]


class _RecordedAnswers(AnswerArchive):
    """Archive that returns the recorded answer of each request of one commit, or raises its recorded failure.

    ``missing`` collects the requests whose answers are not in the archive.
    """

    def __init__(self, archive: AnswerArchive, commit: Commit) -> None:
        super().__init__(archive.root)
        self._archive = archive
        self.missing: list[Asked] = []
        self._provider = commit.provider
        self._digests: dict[str, str] = {}
        self._recorded: dict[str, tuple[Asked, Failed | None]] = {}
        for group in commit.groups:
            for call in group.asked:
                plain = super().key(self._provider, call.request, None)
                digest = self._digests[plain] = call.digest or plain
                self._recorded[digest] = (call, group.failures[0] if group.failures else None)

    def key(self, provider_id: str, request: Request, as_of: datetime | str | None) -> str:
        """Return the recorded archive key of the request's answer. Arguments other than ``request`` do not matter."""
        return self._digests[super().key(provider_id, request, None)]

    def get(self, key: str, since: datetime | None = None) -> ArchivedAnswer | None:
        """Return the recorded answer. Raises ``ProviderError`` if the request failed or its answer is missing."""
        call, failed = self._recorded[key]
        if call.digest is None or call.sha256 is None:
            raise _RecordedFailure(failed.reason if failed else "it was not requested", failed.code if failed else None)
        answer = self.version(call.digest, call.sha256, call.fetched_at)
        if answer is None:
            self.missing.append(call)
            raise NotInArchive(
                f"the answer {call.digest} is missing or damaged in the archive; restore it from a backup"
            )
        return answer

    def version(self, key: str, sha256: str, fetched_at: datetime | None = None) -> ArchivedAnswer | None:
        return self._archive.version(key, sha256, fetched_at)


class _SilentClient(ProviderClient):
    """A provider client that sends no request: each attempt raises ``NotInArchive``."""

    def attempts(self) -> Attempts:
        raise NotInArchive(_NO_REQUESTS)


@dataclass(frozen=True)
class _RecordedStream(Stream):
    """A stream that requests its subjects in the same groups as a recorded commit."""

    groups: tuple[Sequence[str], ...] = ()

    def batches(self, subjects: Sequence[str]) -> list[Sequence[str]]:
        return list(self.groups)


def _recorded_stream(stream: Stream, commit: Commit) -> Stream:
    """Return a copy of the stream that has the subjects of a commit, and its requests unless it was computed."""
    requests = {group.subjects: [call.request for call in group.asked] for group in commit.groups}
    subjects = [subject for group in commit.groups for subject in group.subjects]
    stream_fields: dict[str, Any] = {field.name: getattr(stream, field.name) for field in fields(Stream)}
    stream_fields["subjects"] = lambda workspace, partition: subjects
    if not commit.is_computed:
        stream_fields["requests"] = lambda settings, partition, group, refresh: requests[tuple(group)]
    return _RecordedStream(**stream_fields, groups=tuple(requests))


def _no_endpoint() -> Endpoint:
    raise NotInArchive(_NO_REQUESTS)


def name_of(partition: Commit | Manifest) -> str:
    """Return family, chain and timestamp of a commit or manifest as one text."""
    return f"{partition.family} {partition.chain} {partition.timestamp}"
