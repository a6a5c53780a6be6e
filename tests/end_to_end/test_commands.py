"""The command in its own process, with all its output."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
