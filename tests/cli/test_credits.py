"""The report of ``holderlake credits``."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from holderlake.cli.main import app
from holderlake.core.provider.ledger.entries import IMPLAUSIBLE, MarkBroken, Settle
from tests.core.provider.credit_ledger import OneCallLedger


def test_unusable_answers_may_have_wasted_charged_and_reserved_credits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with OneCallLedger(tmp_path / "ledger.sqlite") as ledger:
        entries = [ledger.reserve("run", "map", None, cost) for cost in (2500, 1000)]
        ledger.apply([MarkBroken(entries[0], "timeout"), Settle(entries[1], 1000, problem="timeout")])
        ledger.apply([Settle(ledger.reserve("run", "map", None, 500), 500, problem=IMPLAUSIBLE)])
    monkeypatch.setenv("HOLDERLAKE_HOME", str(tmp_path))
    printed = CliRunner().invoke(app, ["credits"]).output
    assert "Possibly wasted: 35.00 credits in 2 calls" in " ".join(printed.split())
    assert "named credits that cannot be true" in " ".join(printed.split())
