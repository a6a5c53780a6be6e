"""Pruning of the archive: only old answers of committed partitions without failures."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from holderlake.assets.holders import HOLDERS
from holderlake.core.contract.exact_json import MalformedAnswer
from holderlake.operations.maintenance.rebuild_lake import rebuild
from holderlake.operations.maintenance.retention import prunable
from tests.helpers.filling import MakeWorkspace, fill

MAY = datetime(2026, 5, 1)
NOW = timedelta(0)


def unread(*_: Any) -> Any:
    raise MalformedAnswer("our decoder is wrong")


def test_only_old_answers_of_committed_partitions_are_prunable(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    fill(workspace, HOLDERS, "eth", MAY)
    answers = workspace.archive.size().answers
    assert prunable(workspace, timedelta(days=1)).answers == []
    found = prunable(workspace, NOW)
    assert (len(found.answers), found.partitions) == (answers, ["holders eth 20260501T000000Z"])
    workspace.settings.lake_folder.rename(workspace.settings.home / "elsewhere")
    assert prunable(workspace, NOW).answers == []


def test_an_answer_of_a_failure_is_kept(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    fill(workspace, replace(HOLDERS, decode=unread), "eth", MAY)
    assert prunable(workspace, NOW).answers == []


@pytest.mark.long
def test_a_rebuild_after_pruning_copies_rows_from_the_lake(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    fill(workspace, HOLDERS, "eth", MAY)
    before = workspace.lake.read("holders")
    workspace.archive.remove(prunable(workspace, NOW).answers)
    assert workspace.archive.size().answers == 0
    report = rebuild(workspace)
    assert all(one.kept for one in report.missing)
    assert workspace.lake.read("holders") == before
