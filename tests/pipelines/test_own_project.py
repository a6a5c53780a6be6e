"""The user project of the Dagster page: its own package ``assets``, ours under a prefix, and an asset downstream."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from holderlake.core.lake.lake import Lake

ROOT = Path(__file__).parents[2]
FILES = re.compile(r"^`(\S+\.py)`[^\n]*\n\n```python\n(.*?)```", re.DOTALL | re.MULTILINE)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with the files of the page."""
    for name, text in FILES.findall((ROOT / "docs" / "dagster.md").read_text()):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.long
def test_a_user_project_adds_an_asset_downstream_of_holders(project: Path) -> None:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDERLAKE_", "DAGSTER_"))}
    command = ["-m", "dagster", "asset", "materialize", "-m", "definitions", "--select", "*"]
    ended = subprocess.run(
        [sys.executable, *command, "--partition", "solana|2026-05-01"],
        cwd=project,
        env=own | {"PYTHONPATH": str(ROOT)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    assert "onchain__holders" in ended.stderr
    shares = pq.read_table(project / "data" / "top_ten" / "solana-2026-05-01.parquet")
    holders = Lake(project / "data" / "lake").read("holders", "solana", datetime(2026, 5, 1))
    assert set(shares["token_address"].to_pylist()) == set(holders["token_address"].to_pylist()) != set()
    assert all(0 < share <= 1 for share in shares["share_sum"].to_pylist())
