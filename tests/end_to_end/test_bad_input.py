"""Bad input: each kind has the right outcome, and nothing is half written."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import pytest
from pydantic import SecretStr

from holderlake.assets.holders import HOLDERS
from holderlake.assets.tokens import TOKENS
from holderlake.core.contract.requests import ChainsRequest
from holderlake.core.ingest.run import ingest
from holderlake.core.ingest.stream import IngestContext, PartitionResult, Stream
from holderlake.core.lake.lake import LakeError
from holderlake.core.provider.errors import Unavailable
from holderlake.core.workspace import Endpoint
from holderlake.operations.doctor.doctor import listed
from tests.helpers.filling import MakeWorkspace
from tests.helpers.misbehaving import Misbehaving, Step, answer, error, half, reset

MAY = datetime(2026, 5, 1)
GOOD, BAD = "0x" + "a" * 40, "0x" + "b" * 40
HOLDER = {"address": "0xh", "address_details": None, "holder_data": {"amount": 1.5, "rank": 1, "share": 0.5}}


def _fill(workspace: Any, family: Stream, server: Misbehaving) -> Any:
    async def run() -> list[PartitionResult]:
        async with server:
            endpoint = workspace._endpoint()
            workspace._endpoint = lambda: type(endpoint)(server.address, endpoint.api_key, "misbehaving")
            async with workspace.fetcher("run") as fetcher:
                return await ingest(IngestContext(fetcher, workspace), family, "eth", [MAY])

    return asyncio.run(run())


def _workspace(make_workspace: MakeWorkspace, *tokens: str) -> Any:
    settings = {"attempts": 1, "concurrency": 1}
    return make_workspace(watchlist={"eth": list(tokens)}, provider=settings)


@pytest.mark.parametrize("key", ["a key", "the key"])
def test_no_reason_repeats_the_key(make_workspace: MakeWorkspace, key: str) -> None:
    settings = {"attempts": 1}
    workspace = make_workspace(watchlist={"eth": [BAD, GOOD]}, provider=settings, secret=key)
    odd = HOLDER | {"holder_data": {"rank": key}}
    _fill(workspace, HOLDERS, Misbehaving([answer([odd]), answer(f"<html>{key}".encode())]))
    reasons = workspace.lake.read("failures", "eth", MAY)["reason"].to_pylist()
    assert len(reasons) == 2
    assert not any(key in reason for reason in reasons)


def test_a_bad_item_of_a_batch_costs_only_its_own_token(make_workspace: MakeWorkspace) -> None:
    key = {"chain": "eth", "address": GOOD}
    good = {"token_key": key, "metadata": {"name": "N", "symbol": "S", "is_indexed": True}}
    workspace = _workspace(make_workspace, BAD, GOOD)
    (landed,) = _fill(
        workspace, TOKENS, Misbehaving([answer([good | {"token_key": {"chain": 5, "address": BAD}}, good])])
    )
    assert landed.rows == {"tokens": 1}
    failures = workspace.lake.read("failures", "eth", MAY).to_pylist()
    assert [(row["subject"], row["code"], row["place"]) for row in failures] == [
        (BAD, "left_out", None),
        (BAD, "unreadable_row", "$[0].token_key.chain"),
    ]
    manifest = workspace.lake.manifest("tokens", "eth", MAY)
    assert manifest is not None
    assert manifest.covered == {GOOD}


def test_chains_are_listed_without_the_one_that_cannot_be_read(make_workspace: MakeWorkspace) -> None:
    workspace = _workspace(make_workspace, GOOD)

    async def ask() -> list[str]:
        async with Misbehaving([answer([{"id": "eth"}, {"name": "Nameless"}, {"id": "base"}])]) as server:
            workspace._endpoint = lambda: Endpoint(server.address, SecretStr("a key"), "misbehaving")
            async with workspace.fetcher("run") as fetcher:
                return listed(await fetcher.fetch(ChainsRequest(), "known"))

    assert asyncio.run(ask()) == ["eth", "base"]


@pytest.mark.parametrize(
    ("step", "code"), [(error(500), "unavailable"), (reset(), "unreachable"), (half([HOLDER]), "broken_answer")]
)
def test_error_for_one_token_fails_only_that_token(make_workspace: MakeWorkspace, step: Step, code: str) -> None:
    workspace = _workspace(make_workspace, BAD, GOOD)
    (landed,) = _fill(workspace, HOLDERS, Misbehaving([step, answer([HOLDER])]))
    assert [row["code"] for row in workspace.lake.read("failures", "eth", MAY).to_pylist()] == [code]
    assert landed.rows == {"holders": 1}


def test_run_fails_if_no_token_is_answered_and_the_next_run_resumes(
    make_workspace: MakeWorkspace,
) -> None:
    workspace = _workspace(make_workspace, BAD, GOOD)
    with pytest.raises(Unavailable):
        _fill(workspace, HOLDERS, Misbehaving([error(503)]))
    (landed,) = _fill(workspace, HOLDERS, Misbehaving([answer([HOLDER])]))
    assert (landed.rows, landed.failures) == ({"holders": 2}, 0)


def test_lake_refuses_answers_of_another_provider(make_workspace: MakeWorkspace) -> None:
    workspace = _workspace(make_workspace, GOOD)
    _fill(workspace, HOLDERS, Misbehaving([answer([HOLDER])]))
    with pytest.raises(LakeError, match="HOLDERLAKE_HOME"):
        make_workspace().check()
