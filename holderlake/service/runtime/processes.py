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
from typing import Final

from uvicorn.config import STARTUP_FAILURE, Config
from uvicorn.supervisors import Multiprocess

from holderlake.service.observability import Log, log_config
from holderlake.service.observability.prometheus import FOLDER_VARIABLE, forget_process
from holderlake.service.runtime.server import server_config
from holderlake.service.settings import ServiceSettings

_HUNG_SECONDS: Final = 30
"""Seconds after which a process that does not respond is replaced. Its imports may take seconds on a busy machine."""


def serve_processes(
    factory: str, processes: int, sockets: list[socket.socket], settings: ServiceSettings, log: Log
) -> int:
    """Serve at listening sockets until SIGTERM or Ctrl-C, then close them. Return an exit code.

    ``factory`` is the text ``module:function`` of a function that reads its settings itself and returns the app. It
    exits with ``STARTUP_FAILURE`` if it can't. SIGHUP replaces the processes one after another, so that they reload the
    settings. Call this in the main thread.
    """
    options = {"factory": True, "workers": processes, "timeout_worker_healthcheck": _HUNG_SECONDS}
    with tempfile.TemporaryDirectory(prefix="holderlake-metrics-") as folder:
        os.environ[FOLDER_VARIABLE] = folder
        config = server_config(factory, settings, log_config=log_config(log), **options)
        supervisor = _Supervisor(config, sockets, folder)
        supervisor.run()
    return int(any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes))


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
    """uvicorn's supervisor that also closes the port, and removes the metrics of ended processes from ``folder``."""

    def __init__(self, config: Config, sockets: list[socket.socket], folder: str) -> None:
        super().__init__(config, sockets)
        self._folder = folder
        self._pids: set[int] = set()

    def keep_subprocess_alive(self) -> None:
        super().keep_subprocess_alive()
        pids = {process.pid for process in self.processes if process.pid is not None}
        for pid in self._pids - pids:
            forget_process(self._folder, pid)
        self._pids = pids

    def terminate_all(self) -> None:
        for listening in self.sockets:
            listening.close()  # otherwise new connections would wait without an answer
        super().terminate_all()
