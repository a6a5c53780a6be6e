"""Python processes that tests start: on Linux they are forked from one that has imported what they need.

What a process costs is mostly its imports: two seconds for Dagster, one for the service. A forked one has environment,
arguments, pipes, signals and an end of its own, as a started one has. What is imported at a start, and how much memory
is needed, is for tests that start a process themselves; so is what must not depend on the order of a set, for all that
are forked share one seed of hashes.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import IO, Final

from tests.warm import HEAD

ROOT: Final = Path(__file__).parents[1]
PIPE: Final = subprocess.PIPE
DEVNULL: Final = subprocess.DEVNULL
STDOUT: Final = subprocess.STDOUT
HOLDERLAKE: Final = "from pipelines.cli.main import main; main()"
DAGSTER: Final = ("pipelines.cli.main", "pipelines.definitions", "pipelines.runs", "pipelines.cli.ingest.outcome")
SERVICE: Final = ("holderlake.engine.store.store", "holderlake.service.billing.keys", "holderlake.service.run")

Stream = IO[str] | int | None


class Forked:
    """A process that was forked; what is here does what it does in ``subprocess.Popen``, with pipes of text."""

    def __init__(self, warm: _Warm, request: Mapping[str, object], streams: Sequence[Stream]) -> None:
        self._told, told = os.pipe()
        ours: list[IO[str] | None] = []
        theirs: list[int] = []
        for number, stream in enumerate(streams):
            if stream == PIPE:
                read, write = os.pipe()
                ours.append(os.fdopen(read) if number else os.fdopen(write, "w"))
                theirs.append(write if number else read)
            else:
                ours.append(None)
                theirs.append(_number(stream, number, theirs))
        self.stdin, self.stdout, self.stderr = ours
        try:
            warm.ask(request, [*theirs, told])
        finally:
            for pipe in {*theirs, told}:
                os.close(pipe)
        self.returncode: int | None = None
        self._lines = os.fdopen(self._told)
        self.pid = int(self._lines.readline())

    def poll(self) -> int | None:
        """How it ended, if it has."""
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._lines, selectors.EVENT_READ)
                if selector.select(0):
                    self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """How it ended, when it has. Raises ``TimeoutExpired``."""
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._lines, selectors.EVENT_READ)
                if not selector.select(timeout):
                    raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            self.returncode = int(self._lines.readline())
            self._lines.close()
        return self.returncode

    def communicate(self, given: str | None = None, timeout: float | None = None) -> tuple[str | None, str | None]:
        """Writes what is given, and returns what it said until it ended."""
        with ThreadPoolExecutor(2) as pool:
            said = [pool.submit(stream.read) if stream else None for stream in (self.stdout, self.stderr)]
            if self.stdin:
                self.stdin.write(given or "")
                self.stdin.close()
            self.wait(timeout)
            out, error = (one.result() if one else None for one in said)
        for stream in (self.stdout, self.stderr):
            if stream:
                stream.close()
        return out, error

    def send_signal(self, number: int) -> None:
        """Nothing, where it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream:
                stream.close()
        self.wait()


Process = subprocess.Popen[str] | Forked


def start(
    code: str,
    *arguments: str,
    imports: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    cwd: Path = ROOT,
    stdin: Stream = None,
    stdout: Stream = None,
    stderr: Stream = None,
) -> Process:
    """Starts ``python -c``; what it imports before anything else had better be named, for it is then imported once."""
    environment = dict(os.environ if env is None else env)
    if sys.platform != "linux":
        command = [sys.executable, "-c", code, *arguments]
        return subprocess.Popen(command, cwd=cwd, env=environment, stdin=stdin, stdout=stdout, stderr=stderr, text=True)
    request = {"imports": imports, "code": code, "arguments": arguments, "environment": environment, "folder": str(cwd)}
    return Forked(_warm(), request, (stdin, stdout, stderr))


def run(code: str, *arguments: str, imports: Sequence[str] = (), env: Mapping[str, str] | None = None) -> Ended:
    """Runs ``python -c`` to its end."""
    process = start(code, *arguments, imports=imports, env=env, stdin=DEVNULL, stdout=PIPE, stderr=PIPE)
    out, error = process.communicate()
    return subprocess.CompletedProcess([code, *arguments], process.returncode or 0, out or "", error or "")


Ended = subprocess.CompletedProcess[str]


def holderlake(*arguments: str, env: Mapping[str, str]) -> Ended:
    """Runs the command to its end."""
    return run(HOLDERLAKE, *arguments, imports=DAGSTER, env=env)


def start_holderlake(
    *arguments: str,
    env: Mapping[str, str],
    cwd: Path = ROOT,
    stdout: Stream = None,
    stderr: Stream = None,
) -> Process:
    """Starts the command."""
    return start(HOLDERLAKE, *arguments, imports=DAGSTER, env=env, cwd=cwd, stdin=DEVNULL, stdout=stdout, stderr=stderr)


def close() -> None:
    """Ends what processes are forked from, if there is any."""
    if _warm.cache_info().currsize:
        _warm().close()
        _warm.cache_clear()


class _Warm:
    """The process that others are forked from."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        code = "from tests import warm; warm.main()"
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code, str(theirs.fileno())],
                cwd=ROOT,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        self._turn = threading.Lock()

    def ask(self, request: Mapping[str, object], pipes: Sequence[int]) -> None:
        text = json.dumps(request).encode()
        with self._turn:
            socket.send_fds(self._socket, [len(text).to_bytes(HEAD)], pipes)
            self._socket.sendall(text)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


@cache
def _warm() -> _Warm:
    return _Warm()


def _number(stream: Stream, number: int, before: Sequence[int]) -> int:
    """A file descriptor that is the caller's to close."""
    if stream is None:
        return os.dup(number)
    if stream == DEVNULL:
        return os.open(os.devnull, os.O_RDWR)
    if stream == STDOUT:
        return os.dup(before[1])
    return os.dup(stream if isinstance(stream, int) else stream.fileno())
