"""Push and pull between a lake and a bucket on a real S3 server: conflicts, kills, damage."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import pytest

from holderlake.cli.lake import chosen_side
from holderlake.core.lake.lake import Lake, LakeError
from holderlake.scale.bucket import objects
from holderlake.scale.bucket.objects import ObjectsError
from tests.core.lake.test_lake import FOREIGN_NAMES
from tests.helpers.lakes import DAYS, FETCHED_AT, holders, write, write_holders, write_maps
from tests.helpers.s3 import KEYS, require_s3, s3_bucket, s3_server

require_s3()

import obstore  # noqa: E402 - only if it is installed

from holderlake.scale.bucket.home import open_bucket  # noqa: E402
from holderlake.scale.bucket.storage import BucketError, BucketStorage  # noqa: E402
from holderlake.scale.bucket.sync import pull, push  # noqa: E402

pytestmark = pytest.mark.integration

HOLDERS_OF_ETH = "_manifests/chain=eth/timestamp=20261101T000000Z/holders.json"
LATER = FETCHED_AT + timedelta(days=1)
_numbers = count(1)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server."""
    with s3_server() as url:
        yield url


def new_bucket(server: str) -> Lake:
    """Make a bucket, and return a lake's folder in it."""
    name = f"bucket-{next(_numbers)}"
    s3_bucket(server, name)
    return open_bucket(f"s3://{name}/lake", server, "us-east-1", KEYS)


@contextmanager
def killed_after(puts: int) -> Iterator[None]:
    """Raise ``KeyboardInterrupt`` instead of each put of a lake's object after this number of puts."""
    left = count(puts, -1)

    def stopped(put: Any) -> Any:
        def write(bucket: objects.Bucket, name: str, *arguments: Any) -> Any:
            if not name.startswith("_probe/") and next(left) <= 0:
                raise KeyboardInterrupt
            return put(bucket, name, *arguments)

        return write

    with pytest.MonkeyPatch.context() as patch:
        for name in ("put", "put_if"):
            patch.setattr(objects.Bucket, name, stopped(getattr(objects.Bucket, name)))
        yield


def s3(bucket: Lake) -> Any:
    """Return the obstore store of a bucket."""
    assert isinstance(bucket.storage, BucketStorage)
    return bucket.storage.objects.store  # type: ignore[attr-defined]


@pytest.fixture
def bucket(server: str) -> Lake:
    return new_bucket(server)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake of three partitions, two of them at one instant."""
    lake = Lake(tmp_path / "lake")
    write_holders(lake, "eth", DAYS[0], {"0xa": {"x": 5, "y": 3}})
    write_maps(lake, "eth", DAYS[0], {"0xa": [["x", "y"]]})
    write_holders(lake, "bsc", DAYS[1], {"0xb": {"z": 1}})
    return lake


@pytest.fixture
def other(tmp_path: Path) -> Lake:
    """Another lake, empty."""
    return Lake(tmp_path / "other")


@pytest.mark.long
def test_a_pulled_lake_equals_the_pushed_one(bucket: Lake, lake: Lake, other: Lake) -> None:
    pushed = push(lake, bucket)
    assert (pushed.partitions, pushed.alike, pushed.conflicts) == (3, 0, [])
    pulled = pull(other, bucket)
    assert (pulled.partitions, pulled.bytes) == (3, pushed.bytes)
    assert list(other.manifests()) == list(lake.manifests())
    assert other.provider == lake.provider
    for table in ("holders", "maps", "cluster_members"):
        assert other.read(table).equals(lake.read(table))
        assert bucket.read(table).equals(lake.read(table))


@pytest.mark.long
def test_pushing_and_pulling_again_copies_nothing(bucket: Lake, lake: Lake, other: Lake) -> None:
    push(lake, bucket)
    pull(other, bucket)
    for moved in (push(lake, bucket), pull(other, bucket), push(other, bucket), pull(lake, bucket)):
        assert (moved.partitions, moved.alike, moved.conflicts) == (0, 3, [])


@pytest.mark.long
def test_a_change_of_one_side_is_copied(bucket: Lake, lake: Lake, other: Lake) -> None:
    push(lake, bucket)
    pull(other, bucket)
    write_holders(other, "eth", DAYS[0], {"0xc": {"w": 9}})
    assert push(other, bucket).partitions == 1
    assert pull(lake, bucket).partitions == 1
    assert lake.read("holders").equals(other.read("holders"))
    assert bucket.read("holders").equals(other.read("holders"))


def test_changes_on_both_sides_are_a_conflict_and_nothing_is_copied(bucket: Lake, lake: Lake, other: Lake) -> None:
    push(lake, bucket)
    pull(other, bucket)
    write_holders(other, "eth", DAYS[0], {"0xc": {"w": 9}})
    write_holders(lake, "eth", DAYS[0], {"0xd": {"v": 7}})
    push(other, bucket)
    ours = lake.read("holders")
    assert push(lake, bucket).conflicts == [HOLDERS_OF_ETH]
    assert pull(lake, bucket).conflicts == [HOLDERS_OF_ETH]
    assert lake.read("holders").equals(ours)
    assert bucket.read("holders").equals(other.read("holders"))


@pytest.mark.later(long=1)
@pytest.mark.parametrize(
    ("copy", "keep", "winner"),
    [
        (push, "ours", "0xd"),
        (push, "theirs", "0xc"),
        (push, "newest", "0xd"),
        (pull, "theirs", "0xc"),
        (pull, "ours", "0xd"),
        (pull, "newest", "0xd"),
    ],
)
def test_a_conflict_is_resolved_once_and_both_sides_are_equal(
    bucket: Lake, lake: Lake, other: Lake, copy: Any, keep: Any, winner: str
) -> None:
    push(lake, bucket)
    pull(other, bucket)
    write_holders(other, "eth", DAYS[0], {"0xc": {"w": 9}})
    write(lake, "holders", "eth", DAYS[0], {"holders": holders("eth", DAYS[0], {"0xd": {"v": 7}}, LATER)}, {"0xd"})
    push(other, bucket)
    moved = copy(lake, bucket, keep=keep)
    assert (moved.partitions, moved.resolved, moved.conflicts) == (1, [HOLDERS_OF_ETH], [])
    assert lake.read("holders").equals(bucket.read("holders"))
    assert winner in lake.read("holders")["token_address"].to_pylist()
    for again in (push(lake, bucket), pull(lake, bucket)):
        assert (again.partitions, again.conflicts) == (0, [])


@pytest.mark.long
def test_the_other_side_of_a_resolved_conflict_is_in_the_quarantine(bucket: Lake, lake: Lake, other: Lake) -> None:
    push(lake, bucket)
    pull(other, bucket)
    write_holders(other, "eth", DAYS[0], {"0xc": {"w": 9}})
    write_holders(lake, "eth", DAYS[0], {"0xd": {"v": 7}})
    push(other, bucket)
    lost = other.storage.path(other.manifest("holders", "eth", DAYS[0]), "holders").read_bytes()  # type: ignore[arg-type]
    push(lake, bucket, keep="ours")
    names = [one.name for one in bucket.storage.objects.list("_quarantine/") if one.name.endswith(".parquet")]
    assert [bucket.storage.objects.get(name)[0] for name in names] == [lost]
    write_holders(other, "eth", DAYS[0], {"0xe": {"u": 1}})
    lost = other.storage.path(other.manifest("holders", "eth", DAYS[0]), "holders").read_bytes()  # type: ignore[arg-type]
    pull(other, bucket, keep="theirs")
    assert [path.read_bytes() for path in other.root.glob("_quarantine/**/*.parquet")] == [lost]


def test_a_push_without_changes_leaves_newer_partitions_of_the_bucket(bucket: Lake, lake: Lake, other: Lake) -> None:
    push(lake, bucket)
    pull(other, bucket)
    write_holders(other, "eth", DAYS[0], {"0xc": {"w": 9}})
    push(other, bucket)
    moved = push(lake, bucket)
    assert (moved.partitions, moved.conflicts) == (0, [])
    assert bucket.read("holders").equals(other.read("holders"))


@pytest.mark.long
def test_one_of_several_writers_wins_and_the_others_report_a_conflict(bucket: Lake, tmp_path: Path) -> None:
    lakes = [Lake(tmp_path / str(number)) for number in range(4)]
    for number, lake in enumerate(lakes):
        write_holders(lake, "eth", DAYS[0], {"0xa": {f"holder {number}": 1}})
    with ThreadPoolExecutor(len(lakes)) as pool:
        moved = list(pool.map(lambda lake: push(lake, bucket), lakes))
    (winner,) = [lake for lake, one in zip(lakes, moved, strict=True) if one.partitions]
    assert [len(one.conflicts) for one in moved].count(1) == 3
    assert bucket.read("holders").equals(winner.read("holders"))


@pytest.mark.later(long=2)
@pytest.mark.parametrize("puts", [1, 3, 0, 2, 4])
def test_a_killed_push_leaves_complete_partitions_and_resumes(bucket: Lake, lake: Lake, puts: int) -> None:
    with killed_after(puts), pytest.raises(KeyboardInterrupt):
        push(lake, bucket)
    for one in bucket.manifests():
        assert bucket.intact_rows(one) is not None
    moved = push(lake, bucket)
    assert moved.partitions + moved.alike == 3
    assert bucket.read("maps").equals(lake.read("maps"))


def test_a_damaged_file_is_reported_and_the_rest_is_pushed(bucket: Lake, lake: Lake) -> None:
    path = lake.path("holders", "eth", DAYS[0])
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    pushed = push(lake, bucket)
    assert pushed.partitions == 2
    assert pushed.refused == [f"{path} does not match its manifest; 'holderlake home rebuild --damaged' repairs it"]


@pytest.mark.later(long=1)
@pytest.mark.parametrize("names", FOREIGN_NAMES.values(), ids=FOREIGN_NAMES)
def test_a_pull_refuses_foreign_names_and_deletes_nothing(
    bucket: Lake, lake: Lake, other: Lake, names: Mapping[str, Any], tmp_path: Path
) -> None:
    for victim in (tmp_path / "x", other.root / "x"):
        victim.parent.mkdir(parents=True, exist_ok=True)
        victim.write_text("untouched")
    push(lake, bucket)
    manifest = json.loads(bytes(obstore.get(s3(bucket), HOLDERS_OF_ETH).bytes()))
    obstore.put(s3(bucket), HOLDERS_OF_ETH, json.dumps({**manifest, **names}).encode())
    write_maps(other, "eth", DAYS[0], {"0xa": [["x", "y"]]})
    pulled = pull(other, bucket)
    assert [text.split(" ")[0] for text in pulled.refused] == [HOLDERS_OF_ETH]
    assert not pulled.is_complete
    assert [manifest.family for manifest in other.manifests()] == ["holders", "maps"]
    assert [path.read_text() for path in (tmp_path / "x", other.root / "x")] == ["untouched"] * 2


def test_a_lake_of_another_provider_is_refused(bucket: Lake, lake: Lake, other: Lake) -> None:
    push(lake, bucket)
    other.claim("others")
    with pytest.raises(LakeError, match="cannot mix"):
        pull(other, bucket)


def test_storage_that_ignores_conditional_puts_is_refused_before_any_write(lake: Lake) -> None:
    with s3_server(conditional_puts=False) as url:
        bucket = new_bucket(url)
        with pytest.raises(BucketError, match="ignores conditional puts"):
            push(lake, bucket)
        assert list(bucket.manifests()) == []


def test_an_error_about_a_missing_bucket_names_it_and_hides_the_key(server: str, lake: Lake) -> None:
    with pytest.raises(ObjectsError, match="s3://nowhere/lake") as error:
        push(lake, open_bucket("s3://nowhere/lake", server, "us-east-1", KEYS))
    assert KEYS["secret_access_key"] not in str(error.value).replace("s3://nowhere", "")


def test_duckdb_reads_the_committed_files_in_the_bucket(bucket: Lake, server: str, lake: Lake) -> None:
    from obstore.fsspec import FsspecStore

    push(lake, bucket)
    connection = duckdb.connect()
    options = {"endpoint": server, "region": "us-east-1", "virtual_hosted_style_request": False, **KEYS}
    connection.register_filesystem(FsspecStore("s3", config=options, client_options={"allow_http": True}))
    query = "SELECT address FROM read_parquet(?) ORDER BY 1"
    rows = connection.execute(query, [bucket.storage.files("holders")]).fetchall()
    assert rows == [("x",), ("y",), ("z",)]


def test_only_one_side_of_conflicts_can_be_chosen() -> None:
    assert chosen_side(ours=False, theirs=False, newest=True) == "newest"
    assert chosen_side(ours=False, theirs=False, newest=False) is None
    with pytest.raises(ValueError, match="cannot be combined"):
        chosen_side(ours=True, theirs=True, newest=False)
