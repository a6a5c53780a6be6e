"""Iceberg tables of a lake in a bucket: data and metadata lie there, and another host reads them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from holderlake.core.contract.tables import TABLES
from holderlake.core.lake.lake import Lake
from holderlake.scale.bucket.storage import BucketStorage
from holderlake.scale.bucket.sync import push
from tests.helpers.lakes import DAYS, write_holders
from tests.helpers.s3 import KEYS, require_s3, s3_bucket, s3_server
from tests.scale.iceberg.test_publish import TOKEN, IcebergTables, fill, loaded, published, rows

require_s3()

from holderlake.scale.bucket.home import open_bucket  # noqa: E402
from holderlake.scale.iceberg import lake_files, snapshots  # noqa: E402 - only with its packages

pytestmark = pytest.mark.integration

_numbers = count(1)
READER = """
import json, sys
import polars as pl
from pyiceberg.catalog import load_catalog

catalog = load_catalog("holderlake", type=sys.argv[1], uri=sys.argv[2])
publication = catalog.load_namespace_properties("holderlake")["holderlake.publication"]
for name in ("holders", "maps"):
    table = catalog.load_table(f"holderlake.{name}")
    snapshot_id = table.refs()[publication].snapshot_id
    pyiceberg = table.scan(snapshot_id=snapshot_id).to_arrow().to_pylist()
    polars = pl.scan_iceberg(table, snapshot_id=snapshot_id).collect().to_arrow().to_pylist()
    for read in (pyiceberg, polars):
        print(json.dumps(sorted(json.dumps(row, default=str, sort_keys=True) for row in read)))
"""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server."""
    with s3_server() as url:
        yield url


@pytest.fixture
def url(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder in a new bucket; the keys are in the environment."""
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    for name, text in KEYS.items():
        monkeypatch.setenv(f"AWS_{name.upper()}", text)
    bucket = f"tables-{next(_numbers)}"
    s3_bucket(server, bucket)
    return f"s3://{bucket}/lake"


@pytest.fixture
def lake(url: str, server: str) -> Lake:
    """Two instants of October and two of November, of two chains."""
    bucket = open_bucket(url, server, "us-east-1")
    for place, day in enumerate((datetime(2026, 10, 1), datetime(2026, 10, 2), *DAYS[:2])):
        fill(bucket, "eth", day, place)
        fill(bucket, "bsc", day, place + 5)
    return bucket


@pytest.fixture
def tables(lake: Lake, server: str, tmp_path: Path) -> IcebergTables:
    return tables_on(lake, server, tmp_path / "iceberg")


def tables_on(lake: Lake, server: str, folder: Path, compact_bytes: int | None = None) -> IcebergTables:
    storage = {"s3.endpoint": server, "s3.region": "us-east-1"}
    return IcebergTables(lake, folder, compact_bytes=compact_bytes, storage=storage)


def store_of(lake: Lake) -> BucketStorage:
    assert isinstance(lake.storage, BucketStorage)
    return lake.storage


def parquet_files(lake: Lake) -> set[str]:
    return {one.name for one in store_of(lake).objects.list("") if one.name.endswith(".parquet")}


def test_data_and_metadata_lie_in_the_bucket_and_no_file_is_copied(
    lake: Lake, tables: IcebergTables, url: str, tmp_path: Path
) -> None:
    before = parquet_files(lake)
    assert tables.publish().unreadable == []
    assert parquet_files(lake) == before
    table = loaded(tables, "maps")
    addresses = [table.metadata_location, *table.inspect.all_files()["file_path"].to_pylist()]
    addresses += [snapshot.manifest_list for snapshot in table.snapshots()]
    assert len(addresses) == 1 + 8 + 1
    assert all(address.startswith(f"{url}/") for address in addresses)
    assert {path.name for path in (tmp_path / "iceberg").iterdir()} <= {
        *(".publish.lock", "catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm")
    }
    for name in TABLES:
        assert rows(published(tables, name)) == rows(lake.read(name))


@pytest.mark.long
def test_another_host_reads_a_publication_with_the_catalogues_address_only(
    lake: Lake, tables: IcebergTables, server: str, tmp_path: Path
) -> None:
    tables.publish()
    catalog = f"sqlite:///{tmp_path}/iceberg/catalog.sqlite"
    holders, maps = rows(lake.read("holders")), rows(lake.read("maps"))
    assert read_elsewhere("sql", catalog, server, tmp_path / "other") == [holders, holders, maps, maps]


def read_elsewhere(kind: str, catalog: str, storage: str, home: Path, **settings: str) -> list[list[str]]:
    """Return the rows of holders and maps that a process with another home reads, each with pyiceberg and with Polars.

    ``kind`` and ``catalog`` (its address) name the catalogue, and ``settings`` are its further settings. ``storage`` is
    the address of the S3 server.
    """
    environment = {"AWS_ENDPOINT_URL": storage, "AWS_REGION": "us-east-1", "HOME": str(home)}
    settings |= {"S3__ENDPOINT": storage, "S3__REGION": "us-east-1"}
    environment |= {f"PYICEBERG_CATALOG__HOLDERLAKE__{name}": text for name, text in settings.items()}
    read = subprocess.run(
        [sys.executable, "-c", READER, kind, catalog],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    assert read.returncode == 0, read.stderr
    return [json.loads(line) for line in read.stdout.splitlines()]


@pytest.mark.long
def test_a_host_publishes_without_downloading_the_files_of_another(
    lake: Lake, url: str, server: str, tmp_path: Path
) -> None:
    theirs = open_bucket(url, server, "us-east-1", folder=tmp_path / "copies")
    assert tables_on(theirs, server, tmp_path / "iceberg").publish().added["maps"] == 8
    assert not list((tmp_path / "copies").rglob("*.parquet"))


@pytest.mark.long
def test_files_of_a_publication_are_swept_only_after_it_was_deleted(
    lake: Lake, tables: IcebergTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, before = tables.publish().id, rows(lake.read("holders"))
    files = parquet_files(lake)
    write_holders(lake, "eth", DAYS[0], {TOKEN: {"0xc": 5}})
    assert store_of(lake).sweep(timedelta(days=-1)) == 0
    assert rows(published(tables, "holders", first)) == before
    tables.publish()
    for module in (lake_files, snapshots):
        monkeypatch.setattr(module, "ORPHAN_AGE", timedelta(days=-1))
    assert tables.clean_up() > 0
    assert store_of(lake).sweep(timedelta(days=-1)) == 1
    assert len(files - parquet_files(lake)) == 1
    for name in TABLES:
        assert rows(published(tables, name)) == rows(lake.read(name))


@pytest.mark.long
def test_small_files_are_merged_in_the_bucket(lake: Lake, server: str, tmp_path: Path) -> None:
    tables = tables_on(lake, server, tmp_path / "iceberg", compact_bytes=1_000_000)
    assert tables.publish().added["maps"] == 2 * (1 + 2)
    for name in TABLES:
        assert rows(published(tables, name)) == rows(lake.read(name))
    assert rows(published(tables_on(lake, server, tmp_path / "iceberg"), "maps")) == rows(lake.read("maps"))
    assert tables_on(lake, server, tmp_path / "iceberg").publish().removed["maps"] == 2


@pytest.mark.long
def test_a_missing_object_leaves_its_month_as_it_was_published(lake: Lake, tables: IcebergTables) -> None:
    tables.publish()
    before = rows(published(tables, "holders"))
    files = parquet_files(lake)
    write_holders(lake, "eth", DAYS[0], {TOKEN: {"0xc": 5}})
    (new_file,) = (name for name in parquet_files(lake) - files if name.startswith("holders/"))
    store = store_of(lake)
    store.objects.delete([new_file])
    manifest = lake.manifest("holders", "eth", DAYS[0])
    assert manifest and store.drop_copy(manifest, "holders")
    assert tables.publish().unreadable == ["holders of eth at 20261101T000000Z"]
    assert rows(published(tables, "holders")) == before


@pytest.mark.long
def test_tables_follow_a_lake_that_was_moved_to_a_bucket(url: str, server: str, tmp_path: Path) -> None:
    local = Lake(tmp_path / "lake")
    fill(local, "eth", DAYS[0], 1)
    IcebergTables(local, tmp_path / "iceberg").publish()
    bucket = open_bucket(url, server, "us-east-1")
    push(local, bucket)
    tables = tables_on(bucket, server, tmp_path / "iceberg")
    assert not tables.compare().is_current
    tables.publish()
    assert loaded(tables, "maps").location().startswith(url)
    assert rows(published(tables, "maps")) == rows(local.read("maps"))


@pytest.mark.long
def test_a_shared_folder_as_bucket_has_addresses_of_files(tmp_path: Path) -> None:
    lake = open_bucket(f"file://{tmp_path}/shared", folder=tmp_path / "copies")
    fill(lake, "eth", DAYS[0], 1)
    tables = IcebergTables(lake, tmp_path / "iceberg")
    tables.publish()
    assert loaded(tables, "maps").location().startswith(f"file://{tmp_path}/shared/_iceberg/maps-")
    assert rows(published(tables, "maps")) == rows(lake.read("maps"))
