"""Size of the archive by endpoint and month, and removal of old answers whose rows are in the lake.

A partition cannot be rebuilt from the archive after its answers are removed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import unquote

from holderlake.core.archive import provenance
from holderlake.core.archive.archive import AnswerArchive, StoredAnswer
from holderlake.core.archive.provenance import Commit
from holderlake.core.contract.times import utc_now
from holderlake.core.lake.lake import FAILURES
from holderlake.core.workspace import Workspace


@dataclass(frozen=True)
class Share:
    """Size of one endpoint's archived answers of one month (YYYY-MM): their number and compressed bytes.

    ``superseded`` is the number of those that a refresh replaced by later answers.
    """

    endpoint: str
    month: str
    answers: int
    stored_bytes: int
    superseded: int


@dataclass(frozen=True)
class Prunable:
    """Answers that may be removed, and the names of the partitions that can't be rebuilt without them."""

    answers: list[StoredAnswer]
    partitions: list[str]

    @property
    def stored_bytes(self) -> int:
        return sum(answer.stored_bytes for answer in self.answers)


def shares(archive: AnswerArchive) -> list[Share]:
    """Return the size of the archive by endpoint and month, sorted by both."""
    answers: Counter[tuple[str, str]] = Counter()
    stored_bytes: Counter[tuple[str, str]] = Counter()
    superseded: Counter[tuple[str, str]] = Counter()
    for answer in archive.stored():
        kind = (_endpoint(answer), f"{answer.fetched_at:%Y-%m}")
        answers[kind] += 1
        stored_bytes[kind] += answer.stored_bytes
        superseded[kind] += answer.superseded
    return [Share(*kind, answers[kind], stored_bytes[kind], superseded[kind]) for kind in sorted(answers)]


def prunable(workspace: Workspace, age: timedelta, only_superseded: bool = False) -> Prunable:
    """Return the answers older than ``age`` whose rows are in the lake.

    Answers are kept if a row of the table ``failures`` refers to them, or if no commit used them. With
    ``only_superseded``, only replaced answers are returned.
    """
    oldest = utc_now() - age
    used: dict[str, list[Commit]] = {}
    for commit in provenance.commits(workspace.archive):
        for digest in {call.digest for group in commit.groups for call in group.asked if call.digest}:
            used.setdefault(digest, []).append(commit)
    lake = {(manifest.family, manifest.chain, manifest.timestamp): manifest for manifest in workspace.lake.manifests()}
    hashes = {
        value
        for manifest in lake.values()
        if manifest.failures
        for value in workspace.lake.rows(manifest, FAILURES)["answer_hash"].to_pylist()
        if value
    }
    answers = [
        answer
        for answer in workspace.archive.stored()
        if answer.fetched_at < oldest
        and (answer.superseded or not only_superseded)
        and answer.sha256 not in hashes
        and answer.digest in used
        and all((commit.family, commit.chain, commit.timestamp) in lake for commit in used[answer.digest])
    ]
    names = {
        f"{commit.family} {commit.chain} {commit.timestamp}" for answer in answers for commit in used[answer.digest]
    }
    return Prunable(answers, sorted(names))


def prune(archive: AnswerArchive, removable: Prunable) -> None:
    """Remove the answers of ``removable`` from the archive permanently."""
    archive.remove(removable.answers)


def _endpoint(answer: StoredAnswer) -> str:
    """Return an answer's HTTP method and path without chain and address, as in ``GET tokens/map``."""
    parts = unquote(str(answer.request["path"])).strip("/").split("/")
    return f"{answer.request['method']} {'/'.join(parts[1:3])}"
