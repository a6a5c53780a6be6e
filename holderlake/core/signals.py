"""Signals that stop a process: SIGTERM and Ctrl-C (SIGINT) have the same effect in all commands that run long."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final

STOPS: Final = (signal.SIGINT, signal.SIGTERM)
_POLL_SECONDS: Final = 0.2
Handler = Callable[[int, FrameType | None], Any]


@contextmanager
def handling(handler: Handler, *extra_signals: signal.Signals) -> Iterator[None]:
    """In the ``with`` block, call ``handler`` on SIGINT, SIGTERM and ``extra_signals``. Then restore the handlers.

    It replaces a disposition that the process inherited, such as an ignored SIGINT of a job in a script's background.
    Outside the main thread it does nothing, because Python allows handlers only there.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {number: signal.signal(number, handler) for number in (*STOPS, *extra_signals)}
    try:
        yield
    finally:
        for number, old_handler in previous.items():
            signal.signal(number, signal.SIG_DFL if old_handler is None else old_handler)


@contextmanager
def until_stopped(*extra_signals: signal.Signals) -> Iterator[None]:
    """Leave the ``with`` block without an error on SIGINT, SIGTERM or one of the signals ``extra_signals``.

    SIGINT raises ``KeyboardInterrupt`` in the main thread. The others raise SIGINT, so that libraries that replace only
    its handler, as asyncio does, treat them as Ctrl-C.
    """
    with handling(_as_interrupt, *extra_signals):
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.default_int_handler)  # asyncio replaces only this handler
        with suppress(KeyboardInterrupt):
            yield


def run_until_stopped(commands: Iterable[Sequence[str] | None]) -> int | None:
    """Run commands side by side with all their child processes, until one ends or this process is stopped.

    Return the exit code of the first that ends, or None if this process was stopped. The commands are in a process
    group of their own. When this process is stopped, loses its terminal (SIGHUP), or a command ends, the others get
    SIGTERM, the last one first, and end their children in their own order. Then the rest of the group gets SIGTERM too.

    A command is taken from ``commands`` when those before it have started; None is a pause before the next.
    """
    processes: list[subprocess.Popen[bytes]] = []
    is_stopped = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal is_stopped
        is_stopped = True  # an exception instead would lose a process that has started, but is not yet known here

    with handling(stop, signal.SIGHUP):
        ended, waiting = None, iter(commands)
        while ended is None and not is_stopped:
            if command := next(waiting, None):
                group = processes[0].pid if processes else 0
                processes.append(subprocess.Popen(command, process_group=group))  # noqa: S603 - the caller's own commands
            else:
                time.sleep(_POLL_SECONDS)
                ended = next((process for process in processes if process.poll() is not None), None)
        for process in reversed(processes):
            process.terminate()
            process.wait()
        if processes:
            _terminate_group(processes[0])  # what the commands left behind
    return None if is_stopped or ended is None else ended.returncode


def _terminate_group(leader: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader.pid, signal.SIGTERM)


def _as_interrupt(number: int, frame: FrameType | None) -> None:
    signal.raise_signal(signal.SIGINT)
