"""Exit codes: each error of a command ends it with the code that ``--help`` and the docs give."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.cli import exit_code
from pipelines.errors import RunFailed, SomeFailed
from pipelines.exit_codes import EXIT_CODES
from resources.errors import InvalidKey
from resources.settings import SettingsError

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SomeFailed("2 of 3 partitions failed"), 3),
        (RunFailed("no connection"), 1),
        (InvalidKey("the key is revoked"), 1),
        (SettingsError("home is a file"), 1),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad byte"), 1),
        (ValueError("--token needs --chain"), 2),
    ],
)
def test_an_error_maps_to_its_exit_code(error: Exception, code: int) -> None:
    assert exit_code(error) == code


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["plan", "--from", "tomorrow"], 2),
        (["ingest", "--no-such-option"], 2),
        (["ingest", "--token", "0x6ba6f2207e343923ba692e5cae646fb0f566db8d"], 2),
        (["ingest", "--chain", "eth", "--token", "0x123"], 2),
        (["ingest", "--chain", "eth", "--token", "0x5aaEb6053F3E94C9b9A09f33669435E7Ef1BeAed"], 2),
        (["sql", "SELECT nothing FROM nowhere"], 1),
    ],
)
def test_a_refused_command_exits_with_its_code(arguments: list[str], code: int, tmp_path: Path) -> None:
    ended = holderlake(tmp_path, *arguments)
    assert (ended.returncode, ended.stdout) == (code, "")
    assert "Traceback" not in ended.stderr


def test_help_lists_the_exit_codes(tmp_path: Path) -> None:
    said = " ".join(holderlake(tmp_path, "--help").stdout.split())
    assert all(f"{code} {sentence}" in said for code, sentence in EXIT_CODES.items())


def holderlake(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLDERLAKE_")}
    return subprocess.run(
        [sys.executable, "-m", "pipelines.cli", *arguments],
        cwd=ROOT,
        env=environment | {"HOLDERLAKE_HOME": str(home), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
