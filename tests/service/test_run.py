"""Start and stop of the service, in one process or several."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from holderlake.service.billing.keys import KeyStore
from holderlake.service.run import BackgroundApp, BackgroundService
from holderlake.service.runtime.server import listen
from tests.helpers import processes as started
from tests.helpers.processes import PATIENCE, PIPE, run, start
from tests.service.served import BROKEN

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM to send")
_SMALL_APP = "import sys; from tests.service import served; sys.exit(served.main())"


_SERVE = """
import sys
from pathlib import Path
from holderlake.engine.store.store import Store
from holderlake.service.app import create_app
from holderlake.service.billing.keys import KeyStore
from holderlake.service.runtime.server import listen, serve_app
from holderlake.service.settings import ServiceSettings
with Store(Path(sys.argv[1])) as store, KeyStore(Path(sys.argv[2])) as keys:
    settings = ServiceSettings()
    serve_app(create_app(store, keys, settings), listen("127.0.0.1", int(sys.argv[3])), settings, "off")
print("closed in order")
"""


@dataclass(frozen=True)
class Process:
    """A small app on the service's server, in one separate process or several."""

    running: started.Process
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str) -> httpx.Response:
        """Return the answer of any of the processes, over a new connection."""
        return httpx.get(f"{self.url}{path}", timeout=None, verify=False)

    def wait_until(self, true: Callable[[], Any]) -> Any:
        """Return the first true result of the function."""
        return started.wait_until(true, self.running, self.log.read_text)

    def processes(self) -> set[int]:
        """Return the ids of processes that answer a few requests."""
        return {int(self.get("/process").text) for _ in range(20)}

    def metric(self, sample: str) -> float:
        """Return a sample's value, 0 if it does not exist yet."""
        lines = self.get("/metrics").text.splitlines()
        return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{sample} ")), 0.0)

    def is_refused(self) -> bool:
        """Return whether the port refuses connections."""
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
        except ConnectionError:
            return True
        return False

    def ended(self) -> tuple[int, str]:
        """Return the exit code and standard output."""
        message, _ = self.running.communicate(timeout=600)
        return self.running.wait(), (message or "").strip()


Serve = Callable[..., Process]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def serving(folder: Path, processes: int = 0, **settings: Any) -> Iterator[Process]:
    port, log_path = free_port(), folder / "log"
    arguments = (str(port), str(processes), json.dumps(settings))
    with (
        log_path.open("w") as errors,
        start(_SMALL_APP, *arguments, stdout=PIPE, stderr=errors) as running,
    ):
        made = Process(running, port, log_path)
        try:
            made.wait_until(lambda: made.get("/process").status_code == 200)
            yield made
        finally:
            running.terminate()
            running.wait(PATIENCE)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start a server that ends with the test."""
    with ExitStack() as stack:
        yield lambda *args, **settings: stack.enter_context(serving(tmp_path, *args, **settings))


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A server of two running processes."""
    with serving(tmp_path_factory.mktemp("two"), 2) as made:
        made.wait_until(lambda: len(made.processes()) == 2)
        yield made


def test_background_service_runs_within_the_block(world, tmp_path):
    before = set(threading.enumerate())
    with KeyStore(tmp_path / "keys.sqlite") as keys:
        with BackgroundService(world.store, keys) as service:
            assert httpx.get(f"{service.base_url}/v0/chains", timeout=None, verify=False).status_code == 401
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{service.base_url}/v0/chains", timeout=None, verify=False)
    assert {thread for thread in threading.enumerate() if thread.name == "service"} <= before


def test_two_services_run_on_their_own_ports(start):
    first = start()
    second = start(first.keys)
    assert first.base_url != second.base_url
    caller = first.caller()
    assert caller.http.get(f"{second.base_url}/v0/chains").status_code == 200


def test_failed_start_raises_an_error():
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        raise OSError("no room")
        yield

    with (
        pytest.raises(RuntimeError, match="could not start: see the log"),
        BackgroundApp(FastAPI(lifespan=lifespan)),
    ):
        pass


def test_sigterm_stops_the_service_in_order(world: Any, tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "log"
    arguments = (str(world.store.root), str(tmp_path / "keys.sqlite"), str(port))
    with (
        log.open("w") as errors,
        start(_SERVE, *arguments, stdout=PIPE, stderr=errors) as running,
    ):
        process = Process(running, port, log)
        process.wait_until(lambda: process.get("/v0/chains").status_code == 401)
        running.terminate()
        assert process.ended() == (0, "closed in order")
    assert log.read_text() == ""  # no request is logged unless an operator wants it


@pytest.mark.long
@pytest.mark.parametrize(("processes", "stop"), [(0, signal.SIGINT), (2, signal.SIGTERM)])
def test_running_request_is_answered_before_the_end(
    serve: Serve, tmp_path: Path, processes: int, stop: signal.Signals
) -> None:
    process, awaited = serve(processes), tmp_path / "awaited"
    with ThreadPoolExecutor() as callers:
        slow = callers.submit(process.get, f"/slow?until={awaited}")
        process.wait_until(lambda: process.metric("holderlake_requests_in_progress") == 2)
        process.running.send_signal(stop)
        started.wait_until(process.is_refused)
        assert not slow.done()
        awaited.touch()
        assert slow.result().text == "answered in full"
    assert process.ended() == (0, "" if processes else "closed in order")
    assert process.log.read_text() == ""


@pytest.mark.long
def test_long_request_is_cut_off_at_shutdown(serve: Serve) -> None:
    process = serve(shutdown_seconds=1)
    with ThreadPoolExecutor() as callers:
        slow = callers.submit(process.get, "/thread")
        process.wait_until(lambda: process.metric("holderlake_requests_in_progress") == 2)
        process.running.terminate()
        assert process.ended() == (0, "closed in order")
        assert slow.exception() is not None or slow.result().status_code == 500


@pytest.mark.long
def test_second_interrupt_ends_at_once(serve: Serve) -> None:
    process = serve(0)
    with ThreadPoolExecutor() as callers:
        callers.submit(process.get, "/thread")
        process.wait_until(lambda: process.metric("holderlake_requests_in_progress") == 2)
        process.running.send_signal(signal.SIGINT)
        started.wait_until(process.is_refused)
        process.running.send_signal(signal.SIGINT)
        assert process.ended()[0] == 130


@pytest.mark.long
def test_metrics_sum_all_processes(two: Process) -> None:
    sample = 'holderlake_requests_total{code="",method="GET",route="unmatched",status="404"}'
    before = two.metric(sample)
    for _ in range(20):
        two.get("/nothing")
    two.wait_until(lambda: {two.metric(sample) for _ in range(10)} == {before + 20})  # counted after the answer


@pytest.mark.long
def test_killed_process_is_replaced(two: Process) -> None:
    sample = 'holderlake_requests_total{code="",method="GET",route="/process",status="200"}'
    killed, kept = two.wait_until(lambda: len(found := two.processes()) == 2 and found)
    counted = two.metric(sample)
    os.kill(killed, signal.SIGKILL)
    now = two.wait_until(lambda: len(found := two.processes()) == 2 and killed not in found and found)
    assert kept in now
    assert two.metric(sample) > counted  # counters of an ended process stay


@pytest.mark.long
def test_processes_end_with_their_supervisor(serve: Serve) -> None:
    process = serve(1)
    process.running.kill()
    started.wait_until(process.is_refused)


@pytest.mark.long
def test_processes_that_cannot_start_end_the_service() -> None:
    broken = {**os.environ, BROKEN: "yes"}
    ended = run(_SMALL_APP, str(free_port()), "1", "{}", env=broken)
    assert ended.returncode == 1


def test_used_port_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=rf"can't listen on 127\.0\.0\.1, port {port}: Address already in use"):
            listen("127.0.0.1", port)


def test_unknown_host_is_reported() -> None:
    with pytest.raises(ValueError, match=r"can't listen on host\.invalid, port 80: "):
        listen("host.invalid", 80)
