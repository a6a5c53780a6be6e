"""The lake in object storage, on a real S3 server: whole partitions, one winner, nothing lost."""

from __future__ import annotations

import http.client
import json
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import pytest

from holderlake.lake.lake import Lake, LakeError
from tests.lake.test_lake import FOREIGN_NAMES
from tests.lakes import DAYS, write_holders, write_maps
from tests.s3 import KEYS, require_s3, s3_server

_numbers = count(1)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server."""
    require_s3()
    with s3_server() as url:
        yield url


def new_bucket(server: str, by_way_of: str | None = None) -> Any:
    """A new bucket, with the lake in a folder of it."""
    from holderlake.lake.object_store import open_bucket

    name = f"bucket-{next(_numbers)}"
    urllib.request.urlopen(urllib.request.Request(f"{server}/{name}", method="PUT")).close()
    return open_bucket(f"s3://{name}/lake", by_way_of or server, "us-east-1", KEYS)


@pytest.fixture
def bucket(server: str) -> Any:
    return new_bucket(server)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake of three partitions, two of them of one instant."""
    lake = Lake(tmp_path / "lake")
    write_holders(lake, "eth", DAYS[0], {"0xa": {"x": 5, "y": 3}})
    write_maps(lake, "eth", DAYS[0], {"0xa": [["x", "y"]]})
    write_holders(lake, "bsc", DAYS[1], {"0xb": {"z": 1}})
    return lake


@pytest.fixture
def other(tmp_path: Path) -> Lake:
    """Another lake, empty."""
    return Lake(tmp_path / "other")


def test_a_lake_that_is_pulled_is_the_one_that_was_pushed(bucket: Any, lake: Lake, other: Lake) -> None:
    from holderlake.lake.object_store import pull, push

    pushed = push(lake, bucket)
    assert (pushed.partitions, pushed.alike, pushed.conflicts) == (3, 0, [])
    pulled = pull(other, bucket)
    assert (pulled.partitions, pulled.bytes) == (3, pushed.bytes)
    assert list(other.manifests()) == list(lake.manifests())
    assert other.provider == lake.provider
    for table in ("holders", "maps", "cluster_members"):
        assert other.read(table).equals(lake.read(table))
        assert bucket.read(table).equals(lake.read(table))


def test_pushing_and_pulling_again_moves_nothing(bucket: Any, lake: Lake, other: Lake) -> None:
    from holderlake.lake.object_store import pull, push

    push(lake, bucket)
    pull(other, bucket)
    for moved in (push(lake, bucket), pull(other, bucket), push(other, bucket), pull(lake, bucket)):
        assert (moved.partitions, moved.alike, moved.conflicts) == (0, 3, [])


def test_what_one_side_changed_comes_to_the_other_and_leaves_nothing_behind(
    bucket: Any, lake: Lake, other: Lake
) -> None:
    import obstore

    from holderlake.lake.object_store import pull, push

    push(lake, bucket)
    pull(other, bucket)
    write_holders(other, "eth", DAYS[0], {"0xc": {"w": 9}})
    assert push(other, bucket).partitions == 1
    assert pull(lake, bucket).partitions == 1
    assert lake.read("holders").equals(other.read("holders"))
    objects = [one["path"] for some in obstore.list(bucket.store, "holders") for one in some]
    assert sorted(objects) == sorted(bucket.files("holders"))


def test_what_both_sides_changed_is_a_conflict_and_stays_as_it_is(bucket: Any, lake: Lake, other: Lake) -> None:
    from holderlake.lake.object_store import pull, push

    push(lake, bucket)
    pull(other, bucket)
    write_holders(other, "eth", DAYS[0], {"0xc": {"w": 9}})
    write_holders(lake, "eth", DAYS[0], {"0xd": {"v": 7}})
    push(other, bucket)
    ours = lake.read("holders")
    name = "_manifests/chain=eth/timestamp=20261101T000000Z/holders.json"
    assert push(lake, bucket).conflicts == [name]
    assert pull(lake, bucket).conflicts == [name]
    assert lake.read("holders").equals(ours)
    assert bucket.read("holders").equals(other.read("holders"))


def test_of_writers_that_push_different_rows_at_once_one_wins_and_the_others_know(bucket: Any, tmp_path: Path) -> None:
    from holderlake.lake.object_store import push

    lakes = [Lake(tmp_path / str(number)) for number in range(4)]
    for number, lake in enumerate(lakes):
        write_holders(lake, "eth", DAYS[0], {"0xa": {f"holder {number}": 1}})
    with ThreadPoolExecutor(len(lakes)) as pool:
        moved = list(pool.map(lambda lake: push(lake, bucket), lakes))
    (winner,) = [lake for lake, one in zip(lakes, moved, strict=True) if one.partitions]
    assert [len(one.conflicts) for one in moved].count(1) == 3
    assert bucket.read("holders").equals(winner.read("holders"))


@pytest.mark.parametrize("puts", range(1, 6))
def test_a_push_that_is_killed_shows_no_half_and_goes_on(
    bucket: Any, lake: Lake, monkeypatch: pytest.MonkeyPatch, puts: int
) -> None:
    from holderlake.lake.object_store import Bucket, push

    push_one, left = Bucket._put, count(puts, -1)

    def dying(*given: Any) -> Any:
        if next(left) <= 0:
            raise KeyboardInterrupt
        return push_one(*given)

    with monkeypatch.context() as patch:
        patch.setattr(Bucket, "probe", lambda _: None)
        patch.setattr(Bucket, "_put", dying)
        with pytest.raises(KeyboardInterrupt):
            push(lake, bucket)
    for one in bucket.manifests():
        assert all(bucket.data(one.manifest, name) for name, file in one.manifest.tables.items() if file.bytes)
    moved = push(lake, bucket)
    assert moved.partitions + moved.alike == 3
    assert bucket.read("maps").equals(lake.read("maps"))


def test_a_damaged_file_is_reported_and_the_rest_is_pushed(bucket: Any, lake: Lake) -> None:
    from holderlake.lake.object_store import push

    path = lake.path("holders", "eth", DAYS[0])
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    pushed = push(lake, bucket)
    assert pushed.partitions == 2
    assert pushed.refused == [f"{path} does not match its manifest; 'holderlake rebuild --damaged' repairs it"]


@pytest.mark.parametrize("names", FOREIGN_NAMES.values(), ids=FOREIGN_NAMES)
def test_a_pull_refuses_foreign_names_and_deletes_nothing(
    bucket: Any, lake: Lake, other: Lake, names: Mapping[str, Any], tmp_path: Path
) -> None:
    import obstore

    from holderlake.lake.object_store import pull, push

    for victim in (tmp_path / "x", other.root / "x"):
        victim.parent.mkdir(parents=True, exist_ok=True)
        victim.write_text("not ours")
    push(lake, bucket)
    name = "_manifests/chain=eth/timestamp=20261101T000000Z/holders.json"
    manifest = json.loads(bytes(obstore.get(bucket.store, name).bytes()))
    obstore.put(bucket.store, name, json.dumps({**manifest, **names}).encode())
    write_maps(other, "eth", DAYS[0], {"0xa": [["x", "y"]]})
    pulled = pull(other, bucket)
    assert [text.split(" ")[0] for text in pulled.refused] == [name]
    assert not pulled.is_complete
    assert [manifest.family for manifest in other.manifests()] == ["holders", "maps"]
    assert [path.read_text() for path in (tmp_path / "x", other.root / "x")] == ["not ours"] * 2


def test_a_lake_of_another_provider_is_not_mixed_in(bucket: Any, lake: Lake, other: Lake) -> None:
    from holderlake.lake.object_store import pull, push

    push(lake, bucket)
    other.claim("somebody else")
    with pytest.raises(LakeError, match="do not belong"):
        pull(other, bucket)


def test_storage_that_does_not_heed_conditions_is_refused_before_anything_is_written(server: str, lake: Lake) -> None:
    from holderlake.lake.object_store import BucketError, push

    with careless(server) as url:
        bucket = new_bucket(server, url)
        with pytest.raises(BucketError, match="does not heed conditional puts"):
            push(lake, bucket)
        assert list(bucket.manifests()) == []


def test_a_bucket_that_is_not_there_is_named(server: str, lake: Lake) -> None:
    from holderlake.lake.object_store import BucketError, open_bucket, push

    with pytest.raises(BucketError, match="s3://nowhere/lake") as told:
        push(lake, open_bucket("s3://nowhere/lake", server, "us-east-1", KEYS))
    assert KEYS["secret_access_key"] not in str(told.value).replace("s3://nowhere", "")


def test_duckdb_reads_the_committed_files_where_they_are(bucket: Any, server: str, lake: Lake) -> None:
    from obstore.fsspec import FsspecStore

    from holderlake.lake.object_store import push

    push(lake, bucket)
    connection = duckdb.connect()
    options = {"endpoint": server, "region": "us-east-1", "virtual_hosted_style_request": False, **KEYS}
    connection.register_filesystem(FsspecStore("s3", config=options, client_options={"allow_http": True}))
    files = [f"{bucket.url}/{name}" for name in bucket.files("holders")]
    found = connection.execute("SELECT address FROM read_parquet(?) ORDER BY 1", [files]).fetchall()
    assert found == [("x",), ("y",), ("z",)]


class careless:
    """A way to the server on which the conditions of puts get lost, as they do with several S3 servers."""

    def __init__(self, server: str) -> None:
        target = server.removeprefix("http://")

        class Way(BaseHTTPRequestHandler):
            def _pass_on(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                kept = {name: text for name, text in self.headers.items() if not name.lower().startswith("if-")}
                connection = http.client.HTTPConnection(target)
                connection.request(self.command, self.path, body, kept)
                answer = connection.getresponse()
                data = answer.read()
                self.send_response(answer.status)
                for name, text in answer.getheaders():
                    if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                        self.send_header(name, text)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
                connection.close()

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Way)

    def __enter__(self) -> str:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_port}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
