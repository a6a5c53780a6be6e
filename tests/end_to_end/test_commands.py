"""The command in its own process, with all its output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from holderlake.core.archive.archive import AnswerArchive
from holderlake.core.provider.ledger.ledger import CreditLedger
from tests.helpers.processes import PATIENCE, PIPE, start_holderlake

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]


def test_command_stops_the_embedded_service_without_output(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLDERLAKE_")}
    ended = subprocess.run(
        [sys.executable, "-m", "holderlake.cli.main", "doctor"],
        cwd=ROOT,
        env=environment | {"HOLDERLAKE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "the embedded service over the sample world answers" in ended.stdout


def test_three_first_runs_at_once_share_a_new_home(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLDERLAKE_")}
    environment |= {
        "HOLDERLAKE_HOME": str(tmp_path),
        "HOLDERLAKE_WATCHLIST": json.dumps({"solana": ["native"]}),
        "HOLDERLAKE_PROVIDER__DIRECT": "false",
        "HOLDERLAKE_ADDRESSES__ENABLED": "false",
    }
    command = ("ingest", "--chain", "solana", "--at", "2026-05-01")
    with ExitStack() as started:
        runs = [
            started.enter_context(start_holderlake(*command, env=environment, stdout=PIPE, stderr=PIPE))
            for _ in range(3)
        ]
        ended = [(run.communicate(timeout=PATIENCE), run.returncode) for run in runs]
    assert [code for _, code in ended] == [0, 0, 0], ended
    assert "Traceback" not in str(ended)
    with CreditLedger(tmp_path / "ledger.sqlite") as ledger:
        calls = sum(line.calls for line in ledger.report("endpoint"))
    archived = AnswerArchive(tmp_path / "archive").size().answers
    assert calls == archived > 0, "each answer is paid once"
