"""Commands against a provider over HTTP: what they print, and how they end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.conftest import RunningService
from tests.processes import HOLDERLAKE, ROOT

TOKEN = "native"


def command(home: Path, address: str, key: str, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a new interpreter, one that also exits like a user's."""
    home.mkdir(exist_ok=True)
    (home / "holderlake.toml").write_text(f'[watchlist]\neth = ["{TOKEN}"]\n')
    own: Mapping[str, str] = {
        "HOLDERLAKE_HOME": str(home / "data"),
        "HOLDERLAKE_PROVIDER__URL": address,
        "HOLDERLAKE_API_KEY": key,
        "PYTHONPATH": str(ROOT),
        **settings,
    }
    code = [sys.executable, "-c", HOLDERLAKE, *arguments]
    return subprocess.run(code, cwd=home, env={**os.environ, **own}, capture_output=True, text=True, check=False)


def test_a_command_over_http_leaves_standard_error_empty(sample_service: RunningService, tmp_path: Path) -> None:
    done = command(tmp_path, sample_service.base_url, sample_service.secret, "ingest", "--at", "2026-05-01")
    assert (done.returncode, done.stderr) == (0, "")
