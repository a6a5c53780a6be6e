"""The archive: an answer is there whole or not at all, and what is damaged is never handed out."""

from __future__ import annotations

import gc
import hashlib
import logging
import os
import random
import signal
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from holderlake.core.archive import segments
from holderlake.core.archive.archive import AnswerArchive, ArchivedAnswer, NewAnswer, as_of_text
from holderlake.core.contract.requests import HoldersRequest, MapOptions, MapRequest, Request, SubgraphRequest
from tests.helpers.damage import KINDS, damage
from tests.helpers.filling import spoil
from tests.helpers.processes import PIPE, start

NOON = datetime(2026, 11, 20, 12, 0, 0, 123456)
LATER = datetime(2026, 11, 21)
AS_OF = datetime(2026, 11, 20)
TOKEN = "0x00000000000000000000000000000000000000aa"


def a_map(token: str = TOKEN, limit: int = 80, refresh: bool = False, timestamp: int | None = None) -> MapRequest:
    options = MapOptions.model_validate({"limit": limit, "refresh": refresh, "timestamp": timestamp})
    return MapRequest(chain="eth", token_address=token, options=options)


def kept(archive: AnswerArchive, raw: bytes, request: Request | None = None) -> ArchivedAnswer:
    request = request or a_map()
    key = archive.key("provider", request, AS_OF)
    return archive.put_all([NewAnswer(key, request, raw, NOON, "provider", as_of_text(AS_OF))])[0]


def the_file(archive: AnswerArchive) -> Path:
    (path,) = archive.root.glob("packs/*/*.zst")
    return path


def test_an_answer_is_returned_unchanged(tmp_path: Path) -> None:
    archive = AnswerArchive(tmp_path / "archive")
    put = kept(archive, b'{"a":\n1}\n')
    got = archive.get(put.digest)
    assert got == put
    assert (put.raw, put.fetched_at, put.provider_id, put.as_of) == (
        b'{"a":\n1}\n',
        NOON,
        "provider",
        "20261120T000000Z",
    )
    assert put.sha256 == hashlib.sha256(put.raw).hexdigest()
    assert put.request == {"method": "GET", "path": f"/v0/tokens/map/eth/{TOKEN}", "query": {}, "body": None}
    assert the_file(archive).parent.name == f"{NOON:%Y-%m-%d}"
    assert put.digest in archive


def test_a_missing_answer_is_none(tmp_path: Path) -> None:
    archive = AnswerArchive(tmp_path / "archive")
    assert archive.get("0" * 64) is None
    assert "0" * 64 not in archive
    assert list(archive) == []
    assert archive.size().answers == 0


def test_an_answer_counts_if_it_was_fetched_at_an_instant_or_later(tmp_path: Path) -> None:
    archive = AnswerArchive(tmp_path)
    key = kept(archive, b"answer").digest
    for microseconds, counts in ((-1, True), (0, True), (1, False)):
        since = NOON + timedelta(microseconds=microseconds)
        assert (archive.holds(key, since), archive.get(key, since) is not None) == (counts, counts)
        assert archive.held([key], since) == ({key} if counts else set())


def test_the_key_depends_on_everything_that_changes_the_answer(tmp_path: Path) -> None:
    archive = AnswerArchive(tmp_path)
    names = [
        archive.key("provider", a_map(), AS_OF),
        archive.key("another", a_map(), AS_OF),
        archive.key("provider", a_map(), None),
        archive.key("provider", a_map(), "known 2026-11-20"),
        archive.key("provider", a_map(), datetime(2026, 11, 21)),
        archive.key("provider", a_map(limit=250), AS_OF),
        archive.key("provider", a_map(timestamp=1), AS_OF),
        archive.key("provider", a_map("0xbb"), AS_OF),
        archive.key("provider", HoldersRequest(chain="eth", token_address=TOKEN), AS_OF),
        archive.key("provider", SubgraphRequest(addresses=("a", "b")), AS_OF),
        archive.key("provider", SubgraphRequest(addresses=("a", "c")), AS_OF),
    ]
    assert len(set(names)) == len(names)
    assert archive.key("provider", a_map(refresh=True), AS_OF) == names[0]
    assert archive.key("provider", a_map(), "20261120T000000Z") == names[0]


def test_keys_are_stable() -> None:
    """Another name for the same request would make us pay for all of the archive again."""
    key = AnswerArchive("unused").key("provider", a_map(limit=250, timestamp=1), AS_OF)
    assert key == "8780219e26ec09aedde42c1aaec61c7442db90d70efa18ce0eb2b628d2a8b060"


def test_a_refreshed_answer_replaces_the_earlier_one(tmp_path: Path) -> None:
    archive = AnswerArchive(tmp_path)
    old = kept(archive, b"old")
    new = kept(archive, b"new", a_map(refresh=True))
    assert old.digest == new.digest
    got = archive.get(new.digest)
    assert got is not None
    assert got.raw == b"new"
    assert got.request["query"] == {"refresh": "true"}
    assert len(list(archive)) == 1


@given(raw=st.binary(max_size=3000))
@settings(max_examples=20, deadline=None)
def test_any_bytes_are_returned_unchanged(raw: bytes) -> None:
    with TemporaryDirectory() as folder:
        archive = AnswerArchive(folder)
        got = archive.get(kept(archive, raw).digest)
        assert got is not None
        assert got.raw == raw


@pytest.mark.integration
@given(place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
@settings(max_examples=50, deadline=None)
def test_a_changed_byte_is_always_detected(place: float, flip: int) -> None:
    with TemporaryDirectory() as folder:
        archive = AnswerArchive(folder)
        put = kept(archive, b'[{"address": "0xaa", "share": 0.25}]' * 20)
        file = the_file(archive)
        stored = bytearray(file.read_bytes())
        stored[int(place * len(stored))] ^= flip
        file.write_bytes(stored)
        got = archive.get(put.digest)
        assert got is None or got == put


@pytest.mark.parametrize("length", [0, 1, 10, 60, -1])
def test_a_damaged_file_is_moved_away_and_counts_as_missing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, length: int
) -> None:
    archive = AnswerArchive(tmp_path)
    put = kept(archive, random.Random(1).randbytes(500))
    file = the_file(archive)
    file.write_bytes(file.read_bytes()[:length])
    with caplog.at_level(logging.WARNING):
        assert archive.get(put.digest) is None
    assert put.digest in caplog.text
    assert not file.exists()
    assert archive.lost() == [put.digest]
    assert archive.size().answers == 0
    assert archive.get(put.digest) is None
    kept(archive, put.raw)
    assert archive.get(put.digest) == put


def test_an_answer_whose_header_lost_a_field_is_damaged(tmp_path: Path) -> None:
    archive = AnswerArchive(tmp_path)
    put = kept(archive, b"{}")
    the_file(archive).write_bytes(zstandard.ZstdCompressor().compress(b'{"sha256": 1}\n{}'))
    assert archive.get(put.digest) is None


def test_all_answers_are_listed_and_measured(tmp_path: Path) -> None:
    archive = AnswerArchive(tmp_path)
    put = {kept(archive, b"%d" % number, a_map(f"0x{number:x}")).digest for number in range(20)}
    (archive.root / "packs" / f"{NOON:%Y-%m-%d}" / ".torn.part").write_bytes(b"half")
    for reader in (archive, AnswerArchive(tmp_path)):
        assert {answer.digest for answer in reader} == put
        assert reader.size().answers == 20
        assert reader.size().stored_bytes == sum(path.stat().st_size for path in tmp_path.glob("packs/*/*.zst"))


def test_a_failed_write_leaves_the_earlier_answer_and_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = AnswerArchive(tmp_path)
    put = kept(archive, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        kept(archive, b"new")
    assert archive.get(put.digest) == put
    assert [path for path in tmp_path.glob("packs/**/*") if path.is_file()] == [the_file(archive)]


def test_threads_may_write_the_same_answer(tmp_path: Path) -> None:
    archive = AnswerArchive(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        digests = set(pool.map(lambda number: kept(archive, b"%d" % number * 1000).digest, range(40)))
    (digest,) = digests
    got = archive.get(digest)
    assert got is not None
    assert got.raw in {b"%d" % number * 1000 for number in range(40)}


WRITE_FOR_EVER = """
import random
import sys
from datetime import datetime, timedelta
from holderlake.core.contract.requests import ChainsRequest
from holderlake.core.archive.archive import AnswerArchive, NewAnswer, as_of_text
archive = AnswerArchive(sys.argv[1])
request = ChainsRequest()
number = 0
while True:
    number += 1
    raw = random.Random(number).randbytes(200_000)
    key = archive.key("provider", request, str(number % 5))
    archive.put_all([NewAnswer(key, request, raw, datetime(2026, 1, 1), "provider", as_of_text(str(number % 5)))])
    print("one", flush=True)
"""


@pytest.mark.integration
def test_a_killed_writer_leaves_only_whole_answers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    archive = AnswerArchive(tmp_path)
    for pause in (0.02, 0.05, 0.08):
        writer = start(WRITE_FOR_EVER, str(tmp_path), stdout=PIPE)
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(pause)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        answers = list(archive)
        assert answers
        assert all(len(answer.raw) == 200_000 for answer in answers)
        assert archive.lost() == []
    assert not caplog.records


def test_a_superseded_answer_is_found_by_its_hash(tmp_path: Path) -> None:
    archive = AnswerArchive(tmp_path)
    old = kept(archive, b"old")
    new = kept(archive, b"new")
    assert archive.version(old.digest, old.sha256) == old
    assert archive.version(new.digest, new.sha256, NOON) == new
    assert archive.version(old.digest, old.sha256, datetime(2026, 1, 1)) is None
    assert archive.version("0" * 64, old.sha256) is None


def test_of_two_answers_with_the_same_words_the_instant_tells_which(tmp_path: Path) -> None:
    archive = AnswerArchive(tmp_path)
    first = kept(archive, b"same")
    archive.put_all([NewAnswer(first.digest, a_map(), b"same", LATER, "provider", as_of_text(AS_OF))])
    assert archive.version(first.digest, first.sha256, NOON) == first
    found = archive.version(first.digest, first.sha256, LATER)
    assert found is not None
    assert found.fetched_at == LATER


def test_headers_tell_of_each_file_and_damaged_ones_are_left_out(tmp_path: Path) -> None:
    archive = AnswerArchive(tmp_path)
    old, new = kept(archive, b"old" * 100_000), kept(archive, b"new")
    assert [(one.digest, one.sha256, one.fetched_at, one.superseded) for one in archive.stored()] == [
        (new.digest, new.sha256, NOON, False),
        (old.digest, old.sha256, NOON, True),
    ]
    present = next(archive.stored())
    (tmp_path / present.place.segment).write_bytes(b"torn")
    assert [one.superseded for one in archive.stored()] == [True]


def test_all_answers_are_listed_once_over_several_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = AnswerArchive(tmp_path / "archive")
    for _ in range(4):  # of each request, three answers are superseded
        current = [kept(archive, b"{}", a_map(f"0x{number:040x}")) for number in range(7)]
    monkeypatch.setattr(segments, "_NAMES_AT_ONCE", 3)
    stored = list(archive.stored())
    names = sorted(one.digest for one in current)
    assert [one.digest for one in stored if not one.superseded] == [one.digest for one in stored[:7]] == names
    assert [one.digest for one in stored[7:]] == sorted(names * 3)
    assert len({one.place.id for one in stored}) == 28


def test_a_removed_answer_is_gone(tmp_path: Path) -> None:
    archive = AnswerArchive(tmp_path)
    put = kept(archive, b"one")
    stored = [*archive.stored()]
    archive.remove(stored)
    archive.remove(stored)
    assert archive.get(put.digest) is None
    assert list(archive.stored()) == []
    assert list(tmp_path.glob("packs/*/*")) == []


# ---------------------------------------------------------------------- answers that share a file


def kept_together(archive: AnswerArchive, *raws: bytes) -> list[ArchivedAnswer]:
    requests = [a_map(f"0x{number:x}") for number, _ in enumerate(raws)]
    keys = [archive.key("provider", request, AS_OF) for request in requests]
    return archive.put_all(
        [
            NewAnswer(key, request, raw, NOON, "provider", as_of_text(AS_OF))
            for key, request, raw in zip(keys, requests, raws, strict=True)
        ]
    )


def test_answers_that_came_together_share_a_file(tmp_path: Path) -> None:
    archive = AnswerArchive(tmp_path)
    put = kept_together(archive, b"one", b"two", b"three")
    assert the_file(archive)
    assert [archive.get(one.digest) for one in put] == put


def test_of_answers_of_one_name_that_came_together_the_last_counts(tmp_path: Path) -> None:
    archive = AnswerArchive(tmp_path)
    key = archive.key("provider", a_map(), AS_OF)
    archive.put_all([NewAnswer(key, a_map(), raw, NOON, "provider", as_of_text(AS_OF)) for raw in (b"one", b"two")])
    found = archive.get(key)
    assert found is not None
    assert found.raw == b"two"
    assert archive.version(key, hashlib.sha256(b"one").hexdigest()) is not None


def test_a_damaged_answer_takes_none_of_its_file_along(tmp_path: Path) -> None:
    archive = AnswerArchive(tmp_path)
    put = kept_together(archive, *(random.Random(seed).randbytes(500) for seed in range(3)))
    stored = {one.digest: one for one in archive.stored()}
    spoil(archive, stored[put[1].digest])
    (archive.root / "index.sqlite").unlink()
    for reader in (archive, AnswerArchive(tmp_path)):  # one that knows the file, one that has to look into it
        assert [reader.get(one.digest) for one in put] == [put[0], None, put[2]]
    assert len(list((tmp_path / "damaged").iterdir())) == 1


def test_removing_answers_of_a_segment_keeps_the_others(tmp_path: Path) -> None:
    archive = AnswerArchive(tmp_path)
    put = kept_together(archive, b"one", b"two", b"three")
    before = the_file(archive).stat().st_size
    archive.remove([one for one in archive.stored() if one.digest == put[0].digest])
    for reader in (archive, AnswerArchive(tmp_path)):
        assert [reader.get(one.digest) for one in put] == [None, *put[1:]]
    assert the_file(archive).stat().st_size < before


def test_an_index_that_is_lost_is_made_of_the_files_again(tmp_path: Path) -> None:
    archive = AnswerArchive(tmp_path)
    old = kept(archive, b"old")
    archive.put_all([NewAnswer(old.digest, a_map(), b"new", LATER, "provider", as_of_text(AS_OF))])
    put = kept_together(archive, b"one", b"two")
    for file in tmp_path.glob("index.sqlite*"):
        file.unlink()
    found = AnswerArchive(tmp_path)
    assert [found.get(one.digest) for one in put] == put
    present = found.get(old.digest)
    assert present is not None
    assert present.raw == b"new"
    assert found.version(old.digest, old.sha256) == old


def test_a_segment_of_a_killed_writer_is_added_to_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = AnswerArchive(tmp_path)
    (first,) = kept_together(archive, b"one")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(segments, "enter", killed)
    with pytest.raises(KeyboardInterrupt):
        kept_together(archive, b"two")
    monkeypatch.undo()
    got = AnswerArchive(tmp_path).get(first.digest)
    assert got is not None
    assert got.raw == b"two"


def test_an_unwritable_index_loses_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = AnswerArchive(tmp_path)

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(segments, "enter", full)
    with pytest.raises(OSError, match=r"index\.sqlite cannot be written: its disk is full"):
        kept_together(archive, b"one")
    monkeypatch.undo()
    assert [answer.raw for answer in AnswerArchive(tmp_path)] == [b"one"]


def test_a_file_that_somebody_deleted_counts_as_none(tmp_path: Path) -> None:
    archive = AnswerArchive(tmp_path)
    put = kept(archive, b"one")
    the_file(archive).unlink()
    assert archive.get(put.digest) is None
    assert archive.size().answers == 0


def test_an_index_that_names_another_file_never_removes_it(tmp_path: Path) -> None:
    archive = AnswerArchive(tmp_path / "archive")
    kept(archive, b"{}")
    (tmp_path / "x.zst").write_bytes(b"not ours")
    with closing(sqlite3.connect(archive.root / "index.sqlite")) as index, index:
        index.execute("UPDATE pieces SET pack = '../x.zst'")
    damaged = AnswerArchive(archive.root)
    damaged.remove(list(damaged.stored()))
    assert (tmp_path / "x.zst").read_bytes() == b"not ours"


def test_an_index_that_points_to_another_answer_never_gives_it(tmp_path: Path) -> None:
    archive = AnswerArchive(tmp_path / "archive")
    first, second = kept(archive, b"[1]"), kept(archive, b"[2]", a_map(limit=250))
    with closing(sqlite3.connect(archive.root / "index.sqlite")) as index, index:
        places = dict(index.execute("SELECT name, pack FROM pieces").fetchall())
        index.execute("DELETE FROM pieces WHERE name = ?", (second.digest,))
        index.execute("UPDATE pieces SET pack = ?", (places[second.digest],))
    assert archive.get(first.digest) is None
    reopened = AnswerArchive(archive.root)
    assert (reopened.get(first.digest), reopened.get(second.digest)) == (first, second), "both are paid and stay"


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_index_is_made_again_from_the_segments(tmp_path: Path, kind: str) -> None:
    archive = AnswerArchive(tmp_path / "archive")
    answers = [kept(archive, b"[%d]" % number, a_map(f"0x{number:x}")) for number in range(60)]
    del archive
    gc.collect()  # closes the index
    damage(tmp_path / "archive" / "index.sqlite", random.Random(7), kind)
    reopened = AnswerArchive(tmp_path / "archive")
    assert [reopened.get(one.digest) for one in answers] == answers
    assert reopened.size().answers == len(answers)


@pytest.mark.parametrize("place", ["schema", "value"])
def test_an_index_with_text_that_is_not_unicode_is_made_again(tmp_path: Path, place: str) -> None:
    archive = AnswerArchive(tmp_path)
    answer = kept(archive, b"[1]")
    wanted = b"fetched_at TEXT" if place == "schema" else answer.sha256.encode()
    del archive
    gc.collect()  # closes the index
    index = tmp_path / "index.sqlite"
    stored = index.read_bytes()
    assert wanted in stored
    index.write_bytes(stored.replace(wanted, wanted[:3] + b"\xed" + wanted[4:]))
    assert AnswerArchive(tmp_path).get(answer.digest) == answer


def test_keys_of_many_paths_equal_those_of_single_requests(tmp_path: Path) -> None:
    archive = AnswerArchive(tmp_path)
    requests = [MapRequest(chain="eth", token_address=f"0x{number:040x}") for number in range(3)]
    expected = [archive.key("a provider", one, AS_OF) for one in requests]
    assert archive.keys("a provider", requests[0], [one.path for one in requests], AS_OF) == expected
    archive.put_all([NewAnswer(expected[1], requests[1], b"{}", AS_OF, "a provider", as_of_text(AS_OF))])
    assert archive.held(expected, AS_OF) == {expected[1]}
    assert archive.held(expected, AS_OF + timedelta(seconds=1)) == set()
