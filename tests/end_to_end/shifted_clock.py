"""A clock that a test moves forward, and processes that live by it.

``shifted_clock.c`` is preloaded into each process and adds the seconds in a file to the time of day. Debian's package
``faketime`` cannot be used: with Python 3.11 its ``clock_nanosleep`` fails, and waiting threads use all of the CPU.

The monotonic clock stays real, so time-outs of connections do too. Pauses of Python follow the shifted clock: a daemon
that sleeps until the next minute wakes up when the test moves the clock past it.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from tests.helpers.real import missing

_SITE: Final = """\
import multiprocessing, os, threading, time

_wait, _context = threading.Event.wait, multiprocessing.get_context
_waiting = {}
_watched_by = None

def wait(event, timeout=None):
    global _watched_by
    if timeout is None:
        while not event.is_set():  # the watcher may wake it up
            _wait(event)
        return True
    if _watched_by != os.getpid():  # threads do not survive a fork
        _watched_by = os.getpid()
        threading.Thread(target=watch, daemon=True).start()
    end = time.time() + timeout
    _waiting[threading.get_ident()] = event
    try:
        while not event.is_set() and (left := end - time.time()) > 0:
            with event._cond:
                event._flag or event._cond.wait(left)
    finally:
        _waiting.pop(threading.get_ident(), None)
    return event.is_set()

def watch():
    shift, never = time.time() - time.monotonic(), threading.Event()
    while True:
        _wait(never, 0.1)
        before, shift = shift, time.time() - time.monotonic()
        for event in list(_waiting.values()) if shift - before > 0.1 else ():
            with event._cond:
                event._cond.notify_all()

def get_context(method=None):
    context = _context("forkserver" if method == "spawn" else method)
    if method == "spawn":
        context.set_forkserver_preload(["dagster._cli", "dagster._grpc.impl", "holderlake.pipelines.definitions"])
    return context

time.sleep = lambda seconds: wait(threading.Event(), seconds) and None
threading.Event.wait = wait
multiprocessing.get_context = get_context
"""
"""A sitecustomize.py. Dagster's code server starts a new interpreter for each run, whose imports cost 2.5 s of CPU."""


def _library(folder: Path) -> Path:
    """Compile the library into a folder."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        missing("there is no C compiler: apt-get install gcc libc6-dev")
    library = folder / "shifted_clock.so"
    source = Path(__file__).with_suffix(".c")
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, source, "-ldl", "-lm"], check=True)
    return library


@dataclass
class ShiftedClock:
    """A clock that begins at ``start`` (naive UTC) and only goes forward. ``folder`` has the file with its shift."""

    folder: Path
    start: datetime
    _shift: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        (self.folder / "sitecustomize.py").write_text(_SITE)
        self._environment = {"LD_PRELOAD": str(_library(self.folder)), "SHIFTED_CLOCK": str(self.folder / "shift")}
        self._set(self.start.replace(tzinfo=UTC).timestamp() - time.time())

    def environment(self, *paths: Path) -> dict[str, str]:
        """Return the variables of a process that lives by this clock. ``paths`` are further folders of modules."""
        return self._environment | {"PYTHONPATH": os.pathsep.join(map(str, (self.folder, *paths)))}

    def now(self) -> datetime:
        """Return the shifted time (naive UTC)."""
        return datetime.fromtimestamp(time.time() + self._shift, UTC).replace(tzinfo=None)

    def advance(self, by: timedelta) -> None:
        self._set(self._shift + by.total_seconds())

    def advance_to(self, when: datetime) -> None:
        """Move the clock forward to a time; a time that has passed changes nothing."""
        self.advance(max(when - self.now(), timedelta(0)))

    def _set(self, shift: float) -> None:
        self._shift = shift
        handle = os.open(self.folder / "shift", os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.pwrite(handle, struct.pack("d", shift), 0)
        finally:
            os.close(handle)
