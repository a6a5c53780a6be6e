"""Python processes that tests start, with text pipes, and waiting for what they do."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import httpx

ROOT: Final = Path(__file__).parents[1]
PIPE: Final = subprocess.PIPE
DEVNULL: Final = subprocess.DEVNULL
STDOUT: Final = subprocess.STDOUT
HOLDERLAKE: Final = "from pipelines.cli.main import main; main()"

PATIENCE: Final = 300.0
"""Seconds to wait for another process: on a machine that also runs other tests, a start can take a minute."""

T = TypeVar("T")
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


def wait_until(
    found: Callable[[], T], process: subprocess.Popen[Any] | None = None, log: Callable[[], str] = lambda: ""
) -> T:
    """Return the first true result of ``found``. A refused connection counts as false.

    Raises ``AssertionError`` if the process ends, and ``TimeoutError`` after ``PATIENCE``, with the text of ``log``.
    """
    give_up_at = time.monotonic() + PATIENCE
    while time.monotonic() < give_up_at:
        assert process is None or process.poll() is None, f"the process ended: {log()}"
        try:
            if result := found():
                return result
        except httpx.TransportError:
            pass
        time.sleep(0.02)
    raise TimeoutError(log())
