"""Runs the service in several processes at one port, by uvicorn's supervisor: one that dies is replaced.

Each process makes the app for itself, by the name of a function that it imports.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Final

from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

from holderlake.service.observability import Log, log_config
from holderlake.service.observability.metrics import FOLDER_VARIABLE, forget_process
from holderlake.service.runtime.server import INTERRUPTED, ServerConfig
from holderlake.service.settings import ServiceSettings

_log = logging.getLogger(__name__)
_POLL_SECONDS: Final = 0.1
_HUNG_SECONDS: Final = 30.0
"""After which a process that does not answer is replaced. At the start of many on few cores, imports take seconds."""


def serve_processes(
    factory: str, processes: int, sockets: list[socket.socket], settings: ServiceSettings, log: Log
) -> int:
    """Serves at sockets that listen until the process is told to stop, and closes them. Returns an exit code.

    ``factory`` is ``module:function``, which makes the app; it finds its settings itself. SIGHUP replaces the processes
    one after another, so that they read settings anew. To be called in the main thread.
    """
    with tempfile.TemporaryDirectory(prefix="holderlake-metrics-") as folder:
        os.environ[FOLDER_VARIABLE] = folder
        config = ServerConfig(factory, settings, factory=True, workers=processes, log_config=log_config(log))
        supervisor = _Supervisor(config, sockets, lambda pid: forget_process(folder, pid))
        supervisor.run()
    return supervisor.exit_code


def heed_supervisor() -> None:
    """Has this process end by its supervisor's word alone, or when that is gone. To be called by what makes the app.

    Ctrl-C reaches all processes of a terminal; what it means is the supervisor's to say.
    """
    supervisor = multiprocessing.parent_process()
    if supervisor is None:
        return

    def wait() -> None:
        supervisor.join()
        os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=wait, name="supervisor", daemon=True).start()


class _Supervisor(Multiprocess):
    """uvicorn's, which also tells who is ``gone``, closes the port when it ends, and knows a second Ctrl-C."""

    def __init__(self, config: ServerConfig, sockets: list[socket.socket], gone: Callable[[int], None]) -> None:
        super().__init__(config, sockets)
        self._gone = gone
        self._present: set[int] = set()
        self.exit_code = 0

    def keep_subprocess_alive(self) -> None:
        """Replaces who died or hangs. Unlike uvicorn's own, it does not take who dies meanwhile for one that hangs."""
        for place, process in enumerate(self.processes):
            if not self.should_exit.is_set() and not self._answers(process):
                process.kill()
                process.join()
                if process.exitcode == STARTUP_FAILURE:
                    _log.error("a process could not start, and another would not either")
                    self.should_exit.set()
                else:
                    _log.warning("process %s ended and is replaced", process.pid)
                    self.processes[place] = Process(self.config, self.sockets)
                    self.processes[place].start()
        present = {process.pid for process in self.processes if process.pid is not None}
        for pid in self._present - present:
            self._gone(pid)
        self._present = present

    def terminate_all(self) -> None:
        for one in self.sockets:
            one.close()  # a port that stays open here would let callers in whom nobody answers
        super().terminate_all()

    def handle_int(self) -> None:
        if self.should_exit.is_set():
            self.exit_code = INTERRUPTED
        super().handle_int()

    def join_all(self) -> None:
        while any(process.process.is_alive() for process in self.processes):
            if self.exit_code == INTERRUPTED or signal.SIGINT in self.signal_queue:
                self._end_at_once()
            for process in self.processes:
                process.process.join(_POLL_SECONDS)
        if any(process.exitcode == STARTUP_FAILURE for process in self.processes):
            self.exit_code = 1

    def _answers(self, process: Process) -> bool:
        """Whether it lives; at its start it answers only when all is imported. A signal to us ends the waiting."""
        ends = time.monotonic() + _HUNG_SECONDS
        try:
            process.parent_conn.send(b"ping")
            while process.process.is_alive() and time.monotonic() < ends and not self.signal_queue:
                if process.parent_conn.poll(_POLL_SECONDS):
                    process.parent_conn.recv()
                    return True
        except (OSError, EOFError):
            return False
        return process.process.is_alive() and bool(self.signal_queue)

    def _end_at_once(self) -> None:
        self.exit_code = INTERRUPTED
        for process in self.processes:
            process.process.kill()
