"""The running service: starts, stops, describes itself, and keeps keys out of its logs."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from contract.requests import ENDPOINTS
from service.keys import KeyStore
from service.run import BackgroundService

ROOT = Path(__file__).parents[2]

_SERVE = """
import sys
from pathlib import Path
from engine.store import Store
from service.keys import KeyStore
from service.run import serve
with Store(Path(sys.argv[1])) as store, KeyStore(Path(sys.argv[2])) as keys:
    serve(store, keys, "127.0.0.1", int(sys.argv[3]))
print("closed in order")
"""


def test_the_service_is_ready_when_the_block_begins_and_gone_when_it_ends(world, tmp_path):
    before = set(threading.enumerate())
    with KeyStore(tmp_path / "keys.sqlite") as keys:
        with BackgroundService(world.store, keys) as service:
            assert httpx.get(f"{service.base_url}/v0/chains").status_code == 401
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{service.base_url}/v0/chains")
    assert {thread for thread in threading.enumerate() if thread.name == "service"} <= before


def test_two_services_run_side_by_side_on_ports_of_their_own(start):
    first = start()
    second = start(first.keys)
    assert first.base_url != second.base_url
    caller = first.caller()
    assert caller.http.get(f"{second.base_url}/v0/chains").status_code == 200


def test_a_service_that_can_not_start_says_so(world, tmp_path):
    keys = KeyStore(tmp_path / "keys.sqlite")
    keys.close()
    with pytest.raises(RuntimeError, match="could not start"), BackgroundService(world.store, keys):
        pass


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM to send")
@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_serving_ends_in_order_when_told_to_stop(world, tmp_path, stop):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    arguments = [str(world.store.root), str(tmp_path / "keys.sqlite"), str(port)]
    with subprocess.Popen(
        [sys.executable, "-c", _SERVE, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        _wait_until_open(port)
        process.send_signal(stop)
        said, log = process.communicate(timeout=30)
    assert (process.returncode, said.strip()) == (0, "closed in order"), log
    assert "Traceback" not in log
    assert "GET" not in log  # no access log unless an operator wants one


def _wait_until_open(port: int) -> None:
    for _ in range(600):
        try:
            httpx.get(f"http://127.0.0.1:{port}/v0/chains")
            return
        except httpx.TransportError:
            time.sleep(0.05)
    raise TimeoutError("the service did not open its port")


def test_no_log_holds_anything_of_a_key(service, world, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    caller = service.caller(allowance=100)
    unknown = "hl_deadbeef_" + "5" * 48
    caller.http.get(f"/v0/tokens/holders/eth/{world.token}")
    caller.http.get(f"/v0/tokens/map/eth/{world.token}")
    caller.http.get("/v0/tokens/map/eth/nothing?limit=7")
    caller.http.post("/v0/relationships/subgraph", content=b"{")
    caller.http.get("/v0/chains", headers={"X-ApiKey": unknown})
    written = caplog.text + "".join(capfd.readouterr())
    for secret in (caller.secret, unknown):
        for part in (secret, secret.split("_")[1], secret.split("_")[2]):
            assert part not in written


def test_the_description_names_every_endpoint_its_errors_and_its_key(service):
    description = httpx.get(f"{service.base_url}/openapi.json").json()
    described = {
        (method.upper(), path): operation
        for path, operations in description["paths"].items()
        for method, operation in operations.items()
    }
    assert len([path for _, path in described if path.startswith("/v0")]) == len(ENDPOINTS) - 1  # no screenshot yet
    for (_, path), operation in described.items():
        if path.startswith("/v0"):
            assert operation["security"] == [{"APIKeyHeader": []}]
            assert {"200", "401", "422", "429", "500", "503"} <= set(operation["responses"])
    assert description["components"]["securitySchemes"]["APIKeyHeader"]["name"] == "X-ApiKey"
    errors = described["GET", "/v0/tokens/map/{chain}/{token_address}"]["responses"]
    assert "no_holders" in errors["404"]["description"]
    assert errors["404"]["content"]["application/json"]["schema"]["$ref"].endswith("/ErrorBody")
    names = {item["name"]: item for item in described["GET", "/v0/tokens/map/{chain}/{token_address}"]["parameters"]}
    assert names["limit"]["schema"]["enum"] == [80, 250, 500]
    assert ("GET", "/chains") in described
