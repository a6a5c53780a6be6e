"""Python processes that tests start, with text pipes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

ROOT: Final = Path(__file__).parents[1]
PIPE: Final = subprocess.PIPE
DEVNULL: Final = subprocess.DEVNULL
STDOUT: Final = subprocess.STDOUT
HOLDERLAKE: Final = "from pipelines.cli.main import main; main()"

Process = subprocess.Popen[str]
Ended = subprocess.CompletedProcess[str]
Stream = IO[str] | int | None


def start(
    code: str,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    cwd: Path = ROOT,
    stdin: Stream = None,
    stdout: Stream = None,
    stderr: Stream = None,
) -> Process:
    """Start ``python -c code``."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen(command, cwd=cwd, env=env, stdin=stdin, stdout=stdout, stderr=stderr, text=True)


def run(code: str, *arguments: str, env: Mapping[str, str] | None = None) -> Ended:
    """Run ``python -c code`` to its end."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=ROOT, env=env, stdin=DEVNULL, capture_output=True, text=True, check=False)


def start_holderlake(
    *arguments: str, env: Mapping[str, str], cwd: Path = ROOT, stdout: Stream = None, stderr: Stream = None
) -> Process:
    """Start the command ``holderlake``."""
    return start(HOLDERLAKE, *arguments, env=env, cwd=cwd, stdin=DEVNULL, stdout=stdout, stderr=stderr)
