"""The journal: a commit comes back as it was noted, with its requests as they were asked."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from holderlake.core.archive import provenance
from holderlake.core.archive.archive import AnswerArchive
from holderlake.core.archive.provenance import Archived, Asked, Commit, Failed, Group, group_of
from holderlake.core.contract.models import TokenKey
from holderlake.core.contract.requests import (
    AddressesMetadataRequest,
    ChainsRequest,
    HoldersOptions,
    HoldersRequest,
    MapOptions,
    MapRequest,
    Request,
    SubgraphRequest,
    TokensMetadataRequest,
)

TOKEN = "0x00000000000000000000000000000000000000aa"
KEY = TokenKey(chain="eth", address=TOKEN)
AT = datetime(2026, 11, 20, 12, 0, 0, 123456)

REQUESTS: list[Request] = [
    ChainsRequest(),
    HoldersRequest(chain="eth", token_address=TOKEN, options=HoldersOptions(limit=250, timestamp=1)),
    MapRequest(chain="eth", token_address=TOKEN, options=MapOptions(return_nodes=True)),
    TokensMetadataRequest(tokens=(KEY,), return_token_stats=True),
    SubgraphRequest(addresses=(TOKEN, "b"), context_token_key=KEY),
    AddressesMetadataRequest(addresses=(TOKEN, "b")),
]


def a_commit(at: datetime = AT, timestamp: str = "20260501T000000Z") -> Commit:
    group = group_of(["eth"], REQUESTS, [Archived("digest", "hash", AT)], [])
    return Commit("chains", "eth", timestamp, "provider", False, at, (group,))


def test_a_commit_comes_back_with_its_requests(tmp_path: Path) -> None:
    archive, commit = AnswerArchive(tmp_path), a_commit()
    provenance.note(archive, commit)
    (found,) = provenance.commits(archive)
    assert found == commit
    assert [asked.request for asked in found.groups[0].asked] == REQUESTS
    assert [asked.digest for asked in found.groups[0].asked] == ["digest", *[None] * 5]
    assert found.as_of == datetime(2026, 5, 1)


def test_the_wish_to_refresh_is_not_repeated() -> None:
    request = MapRequest(chain="eth", token_address=TOKEN, options=MapOptions(refresh=True, limit=250))
    failed = {"subject": TOKEN, "code": "no_holders", "reason": "none", "answer_hash": None, "endpoint": "map"}
    group = group_of([TOKEN], [request], [], [failed])
    assert group == Group((TOKEN,), group.asked, (Failed(TOKEN, "no_holders", "none"),))
    again = group.asked[0].request
    assert isinstance(again, MapRequest)
    assert (again.options.refresh, again.options.limit) == (False, 250)


def test_commits_of_a_partition_come_in_their_order(tmp_path: Path) -> None:
    archive = AnswerArchive(tmp_path)
    later = datetime(2026, 11, 20, 12, 0, 1)
    for at, timestamp in ((later, "20260501T000000Z"), (AT, "20260601T000000Z"), (AT, "20260501T000000Z")):
        provenance.note(archive, a_commit(at, timestamp))
    assert [(one.timestamp[4:6], one.at) for one in provenance.commits(archive)] == [
        ("05", AT),
        ("05", later),
        ("06", AT),
    ]


def test_a_damaged_file_is_none(tmp_path: Path) -> None:
    archive = AnswerArchive(tmp_path)
    provenance.note(archive, a_commit())
    (path,) = provenance.records(archive)
    path.write_bytes(path.read_bytes()[:-3])
    assert provenance.read(path) is None
    assert list(provenance.commits(archive)) == []


def test_an_endpoint_that_the_contract_lost_is_named() -> None:
    with pytest.raises(ValueError, match="'tea'"):
        _ = Asked("tea", {}).request
