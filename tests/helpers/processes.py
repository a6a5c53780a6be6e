"""Python processes that tests start, with text pipes, and waiting for what they do."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import httpx

ROOT: Final = Path(__file__).parents[2]
PIPE: Final = subprocess.PIPE
DEVNULL: Final = subprocess.DEVNULL
STDOUT: Final = subprocess.STDOUT
HOLDERLAKE: Final = "from holderlake.cli.main import main; main()"

PATIENCE: Final = 240.0
"""Seconds to wait for an event. On a busy machine, a process may need a minute to start. pytest ends a test later."""

_SHARED: Final = (
    "multiprocessing.resource_tracker",
    "multiprocessing.forkserver",
    "holderlake.presentation.mcp.sandbox",
    "pyspark-shell",
    "pyspark.daemon",
)
"""Processes that a test may start for all later ones. They end with the process that started them.

PySpark keeps one process of Java for all sessions of its process.
"""
_CATCHABLE: Final = set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGHUP}

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


async def event(found: Callable[[], T]) -> T:
    """Wait for the first true result of ``found`` as ``wait_until`` does, while other tasks run."""
    return await asyncio.to_thread(wait_until, found)


def restore_signals() -> None:
    """Give signals the actions and the mask of a process that a shell starts in the foreground.

    A process that a shell starts in the background ignores SIGINT, and so do the processes that it starts.
    SIGHUP stays ignored, so that ``nohup`` works.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in _CATCHABLE:
        if signal.getsignal(number) is signal.SIG_IGN and number not in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


@contextmanager
def ended_processes() -> Iterator[None]:
    """Kill the processes that were started in the block and still run at its end, and those that they started."""
    before = _own_descendants()
    try:
        yield
    finally:
        for process in _own_descendants() - before:
            if not any(name in _command(process) for name in _SHARED):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)


def _own_descendants() -> set[int]:
    """Return the processes that this process started, the ones that these started, and so on."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)  # a fast answer for most tests
    except ChildProcessError:
        return set()
    return _descendants(os.getpid())


def _descendants(process: int) -> set[int]:
    children: set[int] = set()
    for thread in Path(f"/proc/{process}/task").glob("*"):  # Linux only
        with suppress(OSError):  # the thread has ended
            children.update(map(int, (thread / "children").read_text().split()))
    return children.union(*map(_descendants, children))


def _command(process: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_text(errors="replace")
    return ""
