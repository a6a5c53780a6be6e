"""The archive in a bucket: answers of all hosts, found with few requests and never lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from holderlake.core.archive.archive import AnswerArchive, NewAnswer
from holderlake.core.contract.requests import MapRequest
from holderlake.core.storage.sqlite import DatabaseError
from holderlake.scale.bucket import segments
from holderlake.scale.bucket.objects import Folder, Objects
from holderlake.scale.bucket.segments import BucketSegments, footer_bytes
from tests.helpers.s3 import require_s3

require_s3()

from tests.helpers.buckets import Counted  # noqa: E402 - only with obstore

pytestmark = pytest.mark.integration

NOON = datetime(2026, 11, 20, 12)
REQUEST = MapRequest(chain="eth", token_address="0x" + "0" * 40)

MakeHost = Callable[..., AnswerArchive]


@pytest.fixture
def bucket() -> Counted:
    return Counted()


@pytest.fixture
def host(bucket: Counted, tmp_path: Path) -> MakeHost:
    """Make the archive of a host; hosts share the bucket."""

    def make(name: str, objects: Objects = bucket) -> AnswerArchive:
        return AnswerArchive(tmp_path / name, BucketSegments(tmp_path / name, objects))

    return make


def key(number: int) -> str:
    return f"{number:064x}"


def answer(number: int, raw: bytes = b"", minutes: int = 0) -> NewAnswer:
    at = NOON + timedelta(minutes=minutes)
    return NewAnswer(key(number), REQUEST, raw or b"answer %d" % number, at, "them", "20261120T000000Z")


def raws(archive: AnswerArchive, *numbers: int) -> list[bytes | None]:
    found = [archive.get(key(number)) for number in numbers]
    return [one.raw if one else None for one in found]


@pytest.mark.parametrize("place", ["memory", "folder"])
def test_another_host_reads_the_answers_of_one_host(
    host: MakeHost, bucket: Counted, tmp_path: Path, place: str
) -> None:
    objects: Objects = {"memory": bucket, "folder": Folder(tmp_path / "b")}[place]
    ours = host("ours", objects)
    ours.put_all([answer(1), answer(2)])
    ours.put_all([answer(3)])
    theirs = host("theirs", objects)
    assert raws(theirs, 1, 2, 3, 4) == [b"answer 1", b"answer 2", b"answer 3", None]
    assert list(theirs) == list(ours)
    assert theirs.size() == ours.size()
    assert list(theirs.damage(every_byte=True)) == []


def test_many_answers_are_one_object(host: MakeHost, bucket: Counted) -> None:
    host("ours").put_all([answer(number) for number in range(500)])
    assert len([name for name in bucket.puts if name.startswith("packs/")]) == 1


def test_an_index_is_built_with_one_request_for_a_segment(host: MakeHost, bucket: Counted) -> None:
    ours = host("ours")
    for first in range(0, 200, 40):
        ours.put_all([answer(number) for number in range(first, first + 40)])
    bucket.requests.clear()
    theirs = host("theirs")
    assert all(theirs.holds(key(number)) for number in range(200))
    assert not any(theirs.holds(key(number)) for number in range(200, 400))
    assert bucket.requests == {"list": 1, "part": 5, "get": 1}  # one reads the archive's format
    bucket.requests.clear()
    again = host("theirs")
    assert all(again.holds(key(number)) for number in range(200))
    assert bucket.requests == {"list": 1, "get": 1}
    bucket.requests.clear()
    assert raws(theirs, *range(40)) == [b"answer %d" % number for number in range(40)]
    assert bucket.requests == {"get": 1}


def test_a_long_footer_is_read_completely(host: MakeHost, bucket: Counted) -> None:
    host("ours").put_all([answer(number) for number in range(2_000)])
    theirs = host("theirs")
    assert sum(theirs.holds(key(number)) for number in range(2_000)) == 2_000
    assert bucket.requests["part"] == 2


def test_concurrent_questions_share_a_refresh_and_see_new_answers(host: MakeHost, bucket: Counted) -> None:
    ours, theirs = host("ours"), host("theirs")
    assert not theirs.holds(key(1))
    ours.put_all([answer(number) for number in range(100)])
    bucket.requests.clear()

    async def ask() -> list[bool]:
        return await asyncio.gather(*(theirs.holds_now(key(number)) for number in range(200)))

    assert sum(asyncio.run(ask())) == 100
    assert bucket.requests["list"] <= 2
    assert bucket.requests["part"] == 1


def test_a_missing_answer_is_looked_for_again_after_a_minute(host: MakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = host("ours"), host("theirs")
    assert not theirs.holds(key(1))
    ours.put_all([answer(1)])
    assert not theirs.holds(key(1))
    monkeypatch.setattr(segments, "_STALE_SECONDS", -1.0)
    assert theirs.holds(key(1))


def test_the_answer_that_was_fetched_last_is_current_on_each_host(host: MakeHost) -> None:
    ours, theirs = host("ours"), host("theirs")
    assert raws(ours, 1) == raws(theirs, 1) == [None]
    ours.put_all([answer(1, b"old", minutes=1)])
    theirs.put_all([answer(1, b"new", minutes=2)])
    for one in (ours, theirs):
        one._segments.refresh()  # type: ignore[attr-defined]
    assert raws(ours, 1) == raws(theirs, 1) == raws(host("third"), 1) == [b"new"]
    assert [one.superseded for one in host("third").stored()] == [False, True]


def test_an_answer_is_kept_if_its_host_is_killed_before_the_index_has_it(
    host: MakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = host("ours")
    ours.put_all([answer(1)])
    with monkeypatch.context() as patch:
        patch.setattr("holderlake.core.archive.segments.enter", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            ours.put_all([answer(2)])
    assert raws(host("theirs"), 1, 2) == raws(host("ours"), 1, 2) == [b"answer 1", b"answer 2"]


def test_a_killed_put_leaves_no_part_of_an_answer(host: MakeHost, bucket: Counted) -> None:
    def kill(name: str) -> None:
        raise KeyboardInterrupt

    ours = host("ours")
    ours.put_all([answer(1)])
    bucket.before_put = kill
    with pytest.raises(KeyboardInterrupt):
        ours.put_all([answer(2)])
    assert raws(host("theirs"), 1, 2) == [b"answer 1", None]


def test_a_segment_with_a_damaged_footer_is_read_completely(host: MakeHost, bucket: Counted) -> None:
    host("ours").put_all([answer(1), answer(2)])
    (name,) = [name for name in bucket.puts if name.startswith("packs/")]
    stored, _ = bucket.get(name) or (b"", None)
    size = footer_bytes(stored)
    assert size
    bucket.put(name, stored[:-size] + b"x" * 20 + stored[20 - size :])
    assert raws(host("theirs"), 1, 2) == [b"answer 1", b"answer 2"]
    bucket.put(name, stored[: -size - 5])  # the second answer lacks bytes
    assert raws(host("third"), 1, 2) == [b"answer 1", None]


def test_a_damaged_segment_is_moved_away_and_its_other_answers_stay(host: MakeHost, bucket: Counted) -> None:
    host("ours").put_all([answer(1), answer(2), answer(3)])
    (name,) = [name for name in bucket.puts if name.startswith("packs/")]
    third = host("third")
    assert raws(third, 1) == [b"answer 1"]
    stored, _ = bucket.get(name) or (b"", None)
    place = host("ours")._segments.find(key(2))
    assert place
    spoilt = bytearray(stored)
    spoilt[place.start + place.length - 1] ^= 1
    bucket.put(name, bytes(spoilt))
    theirs = host("theirs")
    assert raws(theirs, 2, 1, 3) == [None, b"answer 1", b"answer 3"]
    assert theirs.lost() == [key(2)]
    third._segments._recent.clear()  # type: ignore[attr-defined]
    assert raws(third, 1, 2, 3) == [b"answer 1", None, b"answer 3"]
    assert [one.name for one in bucket.list("damaged/")]


def test_answers_that_one_host_removes_are_gone_on_the_others(host: MakeHost) -> None:
    ours, theirs = host("ours"), host("theirs")
    ours.put_all([answer(1), answer(2)])
    theirs._segments.refresh(all_segments=True)  # type: ignore[attr-defined]
    ours.remove([one for one in ours.stored() if one.digest == key(1)])
    assert raws(theirs, 1, 2) == raws(host("third"), 1, 2) == [None, b"answer 2"]


def test_an_archive_of_a_later_format_is_refused(host: MakeHost, bucket: Counted) -> None:
    host("ours").put_all([answer(1)])
    bucket.put("format.json", b'{"format":99}')
    with pytest.raises(DatabaseError, match="has format 99"):
        host("theirs").holds(key(1))
