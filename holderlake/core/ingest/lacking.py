"""Missing parts of a partition: requested subjects without an answer, by its manifest and its table ``failures``.

A request may have failed, or the run stopped before it. Facts about a token, such as that it has no holders, are
answers: a partition does not lack them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from holderlake.core.archive.provenance import INVALID_ADDRESS, UNREADABLE
from holderlake.core.contract.tables import MISSING_CONTENT
from holderlake.core.decoding.answers import PARTIAL
from holderlake.core.lake.lake import FAILURES, Lake
from holderlake.core.lake.manifests import Manifest

FACTS: Final = frozenset({"no_answer", "no_holders", "unknown_token", "unsupported_token", INVALID_ADDRESS})
"""Codes of failures that are facts about a subject."""
SETTLED: Final = FACTS | {"left_out", UNREADABLE} | PARTIAL
"""Codes of failures that are not requested again without a user's wish: facts, and answers that were paid."""
UNSENT: Final = "unsent"
"""Code of a subject whose request the run was stopped before."""
_WITHOUT_ROWS: Final = frozenset({"$", "$.nodes", "$.nodes.top_holders"})
"""Places of missing content that leave a subject without rows."""


def lacking(lake: Lake, manifest: Manifest) -> dict[str, str]:
    """Return the subjects that a partition was asked for and lacks, with the code of their failure.

    A subject that an answer leaves out while it has others is unknown to the provider: the partition does not
    lack it.
    """
    if not manifest.unanswered and not manifest.failures:
        return {}
    rows = lake.rows(manifest, FAILURES).to_pylist() if manifest.failures else []
    codes = {row["subject"]: row["code"] for row in rows}
    empty = {row["subject"] for row in rows if row["code"] == MISSING_CONTENT and row["place"] in _WITHOUT_ROWS}
    subjects = sorted(manifest.unanswered | empty)
    facts = FACTS | {"left_out"} if manifest.covered else FACTS
    return {subject: code for subject in subjects if (code := codes.get(subject, UNSENT)) not in facts}


def may_be_answered(lake: Lake, manifest: Manifest, subjects: Iterable[str]) -> list[str]:
    """Return those of the subjects without an answer whose failure in a partition is not settled."""
    rows = lake.rows(manifest, FAILURES).to_pylist() if manifest.failures else []
    settled = {row["subject"] for row in rows if row["code"] in SETTLED}
    return [subject for subject in subjects if subject not in settled]
