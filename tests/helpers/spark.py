"""A real Spark cluster of the tests' own: a master and two workers, each a process, on free ports of this machine.

It is started by what ``deploy/`` starts it with.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any, Final

from tests.helpers.real import missing

_SCRIPT: Final = Path(__file__).parents[2] / "deploy" / "spark.sh"
_START_SECONDS: Final = 300
WORKERS: Final = 2
SMALL_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of Java for processes that live for seconds."""


def require_spark() -> None:
    """Skips the test where Spark can't run, or fails it where real parts are required."""
    lacking = [name for name in ("pyspark", "sqlglot") if importlib.util.find_spec(name) is None]
    lacking += [] if shutil.which("java") or os.environ.get("JAVA_HOME") else ["java"]
    if lacking:
        missing(f"Spark can't run here, for {', '.join(lacking)} is missing: 'make extras', and Java 17 or later")


class SparkCluster:
    """A master and its workers, from ``start`` to ``stop``."""

    def __init__(self, memory: str = "1g") -> None:
        self._memory = memory
        self._folder = Path(tempfile.mkdtemp(prefix="holderlake-spark-"))
        self._port, self._page = _free_port(), _free_port()
        self.master = f"spark://127.0.0.1:{self._port}"
        self._processes: list[subprocess.Popen[bytes]] = []
        self.workers: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Returns when the master counts all workers."""
        self._run("master", "127.0.0.1", str(self._port))
        self.workers = [self._run("worker", self.master) for _ in range(WORKERS)]
        deadline = time.monotonic() + _START_SECONDS
        while self.alive() < WORKERS:
            if time.monotonic() > deadline or any(one.poll() is not None for one in self._processes):
                raise RuntimeError(f"the cluster did not start: {self.log()[-2_000:]}")
            time.sleep(0.1)

    def alive(self) -> int:
        """The workers that the master counts."""
        try:
            return sum(worker["state"] == "ALIVE" for worker in self.state()["workers"])
        except (OSError, ValueError):  # it does not listen yet, or has nothing to tell yet
            return 0

    def state(self) -> dict[str, Any]:
        """What the master tells of itself."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._page}/json/", timeout=5) as answer:
            told: dict[str, Any] = json.load(answer)
            return told

    def kill(self, worker: subprocess.Popen[bytes]) -> None:
        """Ends a worker and all that it started, as a machine that fails."""
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()

    def add_worker(self) -> None:
        """One more worker, in place of one that was killed."""
        self.workers = [worker for worker in self.workers if worker.poll() is None]
        self.workers.append(self._run("worker", self.master))

    def stop(self) -> None:
        """Ends all, and leaves nothing behind."""
        for process in self._processes:
            if process.poll() is None:
                self.kill(process)
        shutil.rmtree(self._folder, ignore_errors=True)

    def log(self) -> str:
        """What the processes wrote."""
        return "".join(path.read_text(errors="replace") for path in sorted(self._folder.glob("*.log")))

    def _run(self, *arguments: str) -> subprocess.Popen[bytes]:
        number = len(self._processes)
        own = {
            "SPARK_MASTER_WEBUI_PORT": str(self._page),
            "SPARK_WORKER_CORES": "1",
            "SPARK_WORKER_MEMORY": self._memory,
            "SPARK_WORKER_DIR": str(self._folder / f"work-{number}"),
            "SPARK_LOCAL_DIRS": str(self._folder / f"local-{number}"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_DAEMON_JAVA_OPTS": SMALL_JVM,
        }
        with (self._folder / f"{number}.log").open("wb") as log:
            process = subprocess.Popen(
                [str(_SCRIPT), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **own},
                start_new_session=True,
            )
        self._processes.append(process)
        return process


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port
