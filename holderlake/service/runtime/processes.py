"""Runs the service in several processes at one port, under uvicorn's supervisor, which replaces processes that end.

Each process creates the app by importing a function.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Callable
from typing import Final

from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from holderlake.service.observability import Log, log_config
from holderlake.service.observability.metrics import FOLDER_VARIABLE, forget_process
from holderlake.service.runtime.server import INTERRUPTED, ServerConfig
from holderlake.service.settings import ServiceSettings

_POLL_SECONDS: Final = 0.1
_HUNG_SECONDS: Final = 30
"""Seconds after which a process that does not respond is replaced. Its imports may take seconds on a busy machine."""


def serve_processes(
    factory: str, processes: int, sockets: list[socket.socket], settings: ServiceSettings, log: Log
) -> int:
    """Serve at listening sockets until SIGTERM or Ctrl-C, then close them. Return an exit code.

    ``factory`` is the text ``module:function`` of a function that reads its settings itself and returns the app. SIGHUP
    replaces the processes one after another, so that they reload the settings. Call this in the main thread.
    """
    with tempfile.TemporaryDirectory(prefix="holderlake-metrics-") as folder:
        os.environ[FOLDER_VARIABLE] = folder
        config = ServerConfig(
            factory,
            settings,
            factory=True,
            workers=processes,
            log_config=log_config(log),
            timeout_worker_healthcheck=_HUNG_SECONDS,
        )
        supervisor = _Supervisor(config, sockets, lambda pid: forget_process(folder, pid))
        supervisor.run()
    return supervisor.exit_code


def follow_supervisor() -> None:
    """Ignore Ctrl-C in this process, and stop this process when its supervisor ends. The factory of the app calls it.

    A terminal sends Ctrl-C to all processes, but only the supervisor decides what to do.
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
    """uvicorn's supervisor that also reports ended processes, closes the port and handles a second Ctrl-C."""

    def __init__(self, config: ServerConfig, sockets: list[socket.socket], on_end: Callable[[int], None]) -> None:
        super().__init__(config, sockets)
        self._on_end = on_end
        self._pids: set[int] = set()
        self.exit_code = 0

    def keep_subprocess_alive(self) -> None:
        super().keep_subprocess_alive()
        pids = {process.pid for process in self.processes if process.pid is not None}
        for pid in self._pids - pids:
            self._on_end(pid)
        self._pids = pids

    def terminate_all(self) -> None:
        for listening in self.sockets:
            listening.close()  # otherwise new connections would wait without an answer
        super().terminate_all()

    def handle_int(self) -> None:
        if self.should_exit.is_set():
            self.exit_code = INTERRUPTED
        super().handle_int()

    def join_all(self) -> None:
        while any(process.process.is_alive() for process in self.processes):
            if self.exit_code == INTERRUPTED or signal.SIGINT in self.signal_queue:
                self._kill_all()
            for process in self.processes:
                process.process.join(_POLL_SECONDS)
        if any(process.exitcode == STARTUP_FAILURE for process in self.processes):
            self.exit_code = 1

    def _kill_all(self) -> None:
        self.exit_code = INTERRUPTED
        for process in self.processes:
            process.process.kill()
