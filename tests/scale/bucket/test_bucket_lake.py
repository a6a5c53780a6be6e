"""A lake in a bucket: several hosts commit to it, readers see complete commits, and few requests are made."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holderlake.core.contract.tables import MAP_TABLES, TABLES
from holderlake.core.lake.lake import Lake, LakeError, PartitionUpdate
from holderlake.core.warehouse.warehouse import Warehouse
from holderlake.scale.bucket.cache import BucketCache
from holderlake.scale.bucket.objects import Bucket, Folder, Objects, ObjectsError, Version
from holderlake.scale.bucket.storage import BucketStorage
from holderlake.scale.bucket.writer_lease import WriterLease
from tests.helpers.examples import some
from tests.helpers.lakes import DAYS, FETCHED_AT, count, failures, write, write_holders, write_maps
from tests.helpers.s3 import require_s3

require_s3()

from tests.helpers.buckets import Counted  # noqa: E402 - only with obstore

pytestmark = pytest.mark.integration

OLD = {"0xa": [["0x1", "0x2"]]}
NEW = {"0xa": [["0x1", "0x2", "0x9"], ["0x7", "0x8"]]}


class Host:
    """Makes lakes of hosts that share a place of objects, each with its own folder."""

    def __init__(self, objects: Objects, folder: Path) -> None:
        self.objects = objects
        self._folder = folder
        self._hosts = 0

    def __call__(self, **chosen: Any) -> Lake:
        self._hosts += 1
        folder = self._folder / f"host {self._hosts}"
        folder.mkdir(parents=True)
        (folder / "probed").touch()  # a bucket in memory has conditional puts
        return Lake(folder, BucketStorage(self.objects, folder, **chosen))


@pytest.fixture
def bucket() -> Counted:
    return Counted()


@pytest.fixture
def host(bucket: Counted, tmp_path: Path) -> Host:
    return Host(bucket, tmp_path)


@pytest.fixture(params=["folder", "memory"])
def any_host(request: pytest.FixtureRequest, bucket: Counted, tmp_path: Path) -> Host:
    return Host(Folder(tmp_path / "shared") if request.param == "folder" else bucket, tmp_path)


def contents(lake: Lake) -> dict[str, list[dict[str, Any]]]:
    return {name: lake.read(name).to_pylist() for name in (*MAP_TABLES, "failures")}


def test_another_host_reads_what_one_host_commits(any_host: Host, tmp_path: Path) -> None:
    ours, theirs, local = any_host(), any_host(), Lake(tmp_path / "local")
    for lake in (ours, local):
        write_maps(lake, "eth", DAYS[0], OLD)
        write_holders(lake, "bsc", DAYS[1], {"0xb": {"z": 1}})
        write_maps(lake, "eth", DAYS[0], NEW)
    assert contents(theirs) == contents(local)
    assert theirs.provider == "tests"
    assert [one.place for one in theirs.manifests()] == [one.place for one in local.manifests()]
    assert [one.place for one in theirs.complete("eth", DAYS[:1])] == [("maps", "eth", "20261101T000000Z")]
    assert theirs.manifest("maps", "eth", DAYS[0]) == ours.manifest("maps", "eth", DAYS[0])
    assert theirs.manifest("maps", "eth", DAYS[1]) is None


def test_hosts_that_commit_the_same_partition_keep_the_rows_of_both(any_host: Host) -> None:
    hosts = [any_host() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda at: write_holders(hosts[at], "eth", DAYS[0], {f"0x{at}": {"x": at + 1}}), range(4)))
    assert any_host().read("holders")["token_address"].to_pylist() == [f"0x{at}" for at in range(4)]


def test_a_commit_puts_each_changed_file_once_and_one_manifest(bucket: Counted, host: Host) -> None:
    lake, needed = host(), 0
    for day in DAYS[:10]:
        write_maps(lake, "eth", day, OLD)
        write_holders(lake, "eth", day, {"0xa": {"x": 5}})
        needed += 6 + 2
    write(lake, "holders", "eth", DAYS[0], {}, set(), failures("eth", DAYS[0], ("holders", "0xb")))
    needed += 2  # the table failures and the manifest: the holders did not change
    assert len(bucket.puts) <= needed + 1  # one names the provider of the lake
    assert len(set(bucket.puts)) == len(bucket.puts) - 1


def test_the_record_of_a_commit_is_in_its_manifest(bucket: Counted, host: Host) -> None:
    lake = host()
    for number, held in enumerate(({"0xa": {"x": 5}}, {"0xb": {"x": 6}})):
        rows = {"holders": TABLES["holders"].schema.empty_table()}
        lake.write(
            PartitionUpdate(
                *("holders", "eth", DAYS[0], rows),
                **{
                    "provider": "tests",
                    "by": "token",
                    "requested": set(held),
                    "covered": dict.fromkeys(held, FETCHED_AT),
                },
                record=b"record %d" % number,
                options={},
            )
        )
    assert isinstance(lake.storage, BucketStorage)
    assert list(lake.storage.records()) == [(("holders", "eth", "20261101T000000Z"), (b"record 0", b"record 1"))]
    assert len(bucket.puts) == 1 + 2 + 1  # the second commit has the same rows, so only its manifest is new


def test_unchanged_manifests_and_files_are_not_downloaded_again(bucket: Counted, host: Host) -> None:
    ours, theirs = host(), host()
    for day in DAYS[:20]:
        write_holders(ours, "eth", day, {"0xa": {"x": 5}})
    theirs.read("holders")
    bucket.requests.clear()
    theirs.read("holders")
    assert bucket.requests == {"list": 1}
    write_holders(ours, "eth", DAYS[3], {"0xb": {"x": 5}})
    bucket.requests.clear()
    theirs.read("holders")
    assert bucket.requests == {"list": 1, "get": 2}


def test_recent_manifests_of_a_chain_need_one_listing(bucket: Counted, host: Host) -> None:
    ours, theirs = host(), host()
    for day in DAYS[:20]:
        write_holders(ours, "eth", day, {"0xa": {"x": 5}})
    found = [theirs.storage.recent(("holders", "eth", one.timestamp)) for one in ours.manifests()]
    assert found == list(ours.manifests())
    bucket.requests.clear()
    assert [theirs.storage.recent(one.place) for one in found if one] == found
    assert theirs.storage.recent(("maps", "eth", "20261101T000000Z")) is None
    assert not bucket.requests
    written = write_holders(theirs, "eth", DAYS[0], {"0xb": {"x": 5}})
    assert theirs.storage.recent(written.place) == written


@pytest.mark.later(long=1)
@pytest.mark.parametrize("puts", range(7))
def test_readers_see_all_tables_of_a_killed_commit_or_none(bucket: Counted, host: Host, puts: int) -> None:
    ours, theirs = host(), host()
    write_maps(ours, "eth", DAYS[0], OLD)
    before, started = contents(theirs), len(bucket.puts)

    def kill(name: str) -> None:
        if len(bucket.puts) - started >= puts:
            raise KeyboardInterrupt

    bucket.before_put = kill
    with pytest.raises(KeyboardInterrupt) if puts < 6 else nullcontext():  # 4 files, revisions, manifest
        write_maps(ours, "eth", DAYS[0], NEW)
    bucket.before_put = lambda name: None
    assert contents(theirs) == before or puts == 6
    write_maps(theirs, "eth", DAYS[0], NEW)
    assert contents(host()) == contents(theirs) != before
    store = theirs.storage
    assert isinstance(store, BucketStorage)
    store.sweep(timedelta(days=-1))
    held = {one.name for table in TABLES for one in bucket.list(f"{table}/")}
    assert held == {name.removeprefix("memory://lake/") for table in TABLES for name in store.files(table)}
    assert contents(host()) == contents(theirs)


@pytest.mark.long
@given(st.lists(st.tuples(st.integers(0, 1), st.sampled_from("abc"), st.integers(1, 9)), max_size=12))
@settings(max_examples=some(30))
def test_two_hosts_write_what_one_local_lake_would(tmp_path_factory: Any, writes: list[tuple[int, str, int]]) -> None:
    folder = tmp_path_factory.mktemp("lakes")
    host = Host(Counted(), folder)
    hosts, local = [host(), host()], Lake(folder / "local")
    for number, token, amount in writes:
        for lake in (hosts[number], local):
            write_holders(lake, "eth", DAYS[0], {token: {"x": amount}})
    assert host().read("holders").equals(local.read("holders"))
    assert {one.covered for one in hosts[0].manifests()} == {one.covered for one in local.manifests()}


def test_a_put_whose_answer_was_lost_is_found_to_have_succeeded(
    bucket: Counted, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_if = Counted.put_if

    def lost(self: Counted, name: str, data: bytes, version: Version | None) -> Version | None:
        put_if(self, name, data, version)  # the client repeats it, and the condition does not hold any more
        return put_if(self, name, data, version)

    monkeypatch.setattr(Counted, "put_if", lost)
    lake = host()
    written = write_holders(lake, "eth", DAYS[0], {"0xa": {"x": 5}})
    assert lake.manifest("holders", "eth", DAYS[0]) == written
    assert sum(name.startswith("_manifests/") for name in bucket.puts) == 2


@pytest.mark.long
def test_the_warehouse_loads_only_new_and_changed_partitions(bucket: Counted, host: Host, tmp_path: Path) -> None:
    ours, theirs, warehouse = host(), host(), Warehouse(tmp_path / "warehouse.duckdb")
    for day in DAYS[:5]:
        write_holders(ours, "eth", day, {"0xa": {"x": 5}})
    assert warehouse.load(theirs).partitions == 5
    bucket.requests.clear()
    assert warehouse.load(theirs).partitions == 0
    assert bucket.requests == {"list": 1}
    write_holders(ours, "eth", DAYS[2], {"0xb": {"x": 5}})
    assert warehouse.load(theirs).partitions == 1
    assert count(warehouse, "holders") == 6


@pytest.mark.long
def test_a_host_does_not_download_what_it_wrote(bucket: Counted, host: Host, tmp_path: Path) -> None:
    lake = host()
    write_maps(lake, "eth", DAYS[0], OLD)
    bucket.requests.clear()
    assert Warehouse(tmp_path / "warehouse.duckdb").load(lake).partitions == 1
    assert "get" not in bucket.requests


def test_the_copies_of_files_stay_below_their_limit(host: Host) -> None:
    ours, theirs = host(), host(cache_bytes=20_000)
    for day in DAYS:
        write_holders(ours, "eth", day, {"0xa": {"x": 5}})
    rows = theirs.read("holders")
    copies = [path.stat().st_size for path in theirs.root.glob("files/*/*")]
    assert 0 < sum(copies) <= 22_000
    assert rows.num_rows == len(DAYS)


def test_the_copies_that_were_used_longest_ago_are_deleted(tmp_path: Path) -> None:
    cache, names = BucketCache(tmp_path, 1_000), [f"{place:064x}" for place in range(10)]
    for used_at, name in enumerate(names[:9]):
        cache.add({name: bytes(100)})
        os.utime(cache.path(name), (used_at, used_at))
    assert cache.use(names[0])
    cache.add({names[9]: bytes(200)})
    assert [name for name in names if cache.path(name).exists()] == [names[0], *names[4:]]


@pytest.mark.long
def test_a_damaged_copy_is_downloaded_again(host: Host, tmp_path: Path) -> None:
    lake, warehouse = host(), Warehouse(tmp_path / "warehouse.duckdb")
    write_holders(lake, "eth", DAYS[0], {"0xa": {"x": 5}})
    (copy,) = lake.root.glob("files/*/*")
    copy.write_bytes(b"damaged")
    assert lake.read("holders").num_rows == 1
    copy.write_bytes(b"damaged")
    assert warehouse.load(lake).partitions == 1
    (lake.root / "manifests.sqlite").write_bytes(b"damaged" * 1000)
    assert host().read("holders").equals(Lake(lake.root, BucketStorage(host.objects, lake.root)).read("holders"))


def test_a_damaged_partition_of_a_bucket_is_kept_aside_and_written_again(bucket: Counted, host: Host) -> None:
    lake = host()
    write_holders(lake, "eth", DAYS[0], {"0xa": {"x": 5}})
    (name,) = [name for name in bucket.puts if name.startswith("holders/")]
    bucket.put(name, b"damaged")
    other = host()
    with pytest.raises(LakeError, match="does not match its manifest"):
        other.read("holders")
    write_holders(other, "eth", DAYS[0], {"0xb": {"y": 1}})
    assert host().read("holders")["token_address"].to_pylist() == ["0xb"]
    kept = [one.name for one in bucket.list("_quarantine/")]
    assert sorted(name.split("/", 2)[2] for name in kept) == sorted([manifest_of("holders"), name])


def manifest_of(family: str) -> str:
    return f"_manifests/chain=eth/timestamp=20261101T000000Z/{family}.json"


def test_only_one_home_writes_without_a_common_ledger(bucket: Counted, tmp_path: Path, monkeypatch: Any) -> None:
    now = 1_800_000_000.0
    monkeypatch.setattr("holderlake.scale.bucket.writer_lease.time.time", lambda: now)
    ours, again, theirs = (WriterLease(bucket, tmp_path / name) for name in ("a", "a", "b"))
    ours.hold()
    again.hold()
    with pytest.raises(LakeError, match="is written by another home"):
        theirs.hold()
    now += 301
    ours.hold()
    now += 400
    with pytest.raises(LakeError, match="is written by another home"):
        theirs.hold()
    now += 300
    theirs.hold()
    with pytest.raises(LakeError, match="is written by another home"):
        WriterLease(bucket, tmp_path / "a").hold()


def test_a_home_without_the_lease_writes_nothing(bucket: Counted, host: Host, tmp_path: Path) -> None:
    WriterLease(bucket, tmp_path / "a").hold()
    other = host(check_writer=WriterLease(bucket, tmp_path / "b").hold)
    before = list(bucket.puts)
    with pytest.raises(LakeError, match="is written by another home"):
        write_holders(other, "eth", DAYS[0], {"0xa": {"x": 5}})
    assert bucket.puts == before


def test_an_outage_of_the_bucket_is_a_transient_error(tmp_path: Path) -> None:
    from obstore.store import S3Store

    options = {"retry_config": {"max_retries": 0}, "client_options": {"allow_http": True}}
    keys = {"access_key_id": "x", "secret_access_key": "secret word", "region": "us-east-1"}
    gone = Bucket(S3Store("lake", endpoint="http://127.0.0.1:1", **keys, **options), "s3://lake")
    with pytest.raises(ObjectsError, match="s3://lake can't be read") as error:
        Lake(tmp_path, BucketStorage(gone, tmp_path)).read("holders")
    assert "secret word" not in str(error.value)
