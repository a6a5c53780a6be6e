"""Streams: a partition is filled once, a failing subject does not affect others, and nothing is paid twice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest

from holderlake.assets import STREAMS
from holderlake.assets.addresses import ADDRESSES
from holderlake.assets.chains import CHAINS
from holderlake.assets.holders import HOLDERS
from holderlake.assets.maps import MAPS
from holderlake.assets.subgraphs import SUBGRAPHS
from holderlake.assets.tokens import TOKENS
from holderlake.core.contract.requests import ChainsRequest
from holderlake.core.contract.tables import FAMILY_TABLES
from holderlake.core.dagster.runs import RunOptions, ingest_run
from holderlake.core.decoding.answers import Decoded
from holderlake.core.ingest.decode_queue import DecodeQueue, PendingDecode
from holderlake.core.provider.client import Response
from holderlake.core.provider.errors import BudgetExceeded, CreditsExhausted, Forbidden, InvalidKey
from holderlake.core.provider.limiter import Slots
from holderlake.operations.backfill.scope import within_plan
from holderlake.operations.maintenance.rebuild_lake import rebuild
from tests.core.contract.answers import details, holder
from tests.helpers.filling import MakeWorkspace, fill
from tests.helpers.lakes import rows
from tests.helpers.misbehaving import answer, error, scripted

MAY = datetime(2026, 5, 1)
JUNE = datetime(2026, 6, 1, 12, 30, 15)


def test_a_filled_partition_is_not_fetched_again(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    (first,) = fill(workspace, HOLDERS, "eth", MAY)
    (again,) = fill(workspace, HOLDERS, "eth", MAY)
    assert first.rows["holders"] > 0
    assert first.credits > 0
    assert (again.rows, again.credits, again.calls) == (first.rows, 0, 0)


def test_one_map_request_fills_all_five_tables(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    (landed,) = fill(workspace, MAPS, "eth", MAY)
    assert all(landed.rows[table] > 0 for table in MAPS.tables)
    assert landed.calls == len(workspace.settings.watchlist["eth"])


def test_a_past_instant_is_requested_in_history_mode(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    (landed,) = fill(workspace, HOLDERS, "eth", MAY)
    assert landed.credits == 51_00 * (landed.calls - landed.failures)


def test_an_unsupported_token_does_not_affect_others(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    (landed,) = fill(workspace, MAPS, "bsc", MAY)
    failures = workspace.lake.read("failures", "bsc", MAY).to_pylist()
    assert landed.rows["maps"] == len(workspace.settings.watchlist["bsc"]) - len(failures)
    assert "unsupported_token" in {row["code"] for row in failures}


def test_a_final_failure_is_not_requested_again(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    fill(workspace, MAPS, "bsc", MAY)
    (again,) = fill(workspace, MAPS, "bsc", MAY)
    assert again.calls == 0
    assert again.failures > 0


def test_an_unknown_token_fails_alone_and_is_requested_again(make_workspace: MakeWorkspace) -> None:
    known = make_workspace().settings.watchlist["eth"]
    workspace = make_workspace(watchlist={"eth": [*known, "0x" + "9" * 40]})
    (landed,) = fill(workspace, HOLDERS, "eth", MAY)
    assert [row["code"] for row in workspace.lake.read("failures", "eth", MAY).to_pylist()] == ["unknown_token"]
    (again,) = fill(workspace, HOLDERS, "eth", MAY)
    assert (again.calls, again.rows) == (1, landed.rows)


def test_a_further_token_is_added_to_a_partition(make_workspace: MakeWorkspace) -> None:
    first, second, *_ = make_workspace().settings.watchlist["eth"]
    workspace = make_workspace(watchlist={"eth": [first]})
    fill(workspace, HOLDERS, "eth", MAY)
    before = workspace.lake.read("holders", "eth", MAY)
    fill(workspace, HOLDERS, "eth", MAY, only=[second])
    after = workspace.lake.read("holders", "eth", MAY)
    assert after.filter(_is(after, first)) == before
    assert set(after["token_address"].to_pylist()) == {first, second}


def test_a_refresh_fetches_and_pays_again(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    (first,) = fill(workspace, HOLDERS, "eth", MAY)
    (refreshed,) = fill(workspace, HOLDERS, "eth", MAY, refresh=True)
    assert refreshed.calls == first.calls
    assert refreshed.credits > first.credits


def test_endpoints_without_history_are_called_once_a_day(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    landed = fill(workspace, CHAINS, "eth", MAY, JUNE)
    assert sum(one.credits for one in landed) == 1
    assert [one.rows["chains"] for one in landed] == [1, 1]
    tokens = fill(workspace, TOKENS, "eth", MAY, JUNE)
    assert sum(one.calls for one in tokens) == 1


def test_address_sets_keep_their_names(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    fill(workspace, SUBGRAPHS, "eth", MAY)
    names = set(workspace.lake.read("subgraph_transfers", "eth", MAY)["address_set"].to_pylist())
    assert names <= set(workspace.settings.address_sets)
    assert names


def test_rows_of_several_answers_have_the_time_of_the_last() -> None:
    def decode(raw: Sequence[bytes], chain: str, subjects: Sequence[str], as_of: datetime) -> Decoded:
        row = {"address_set": subjects[0], "from_address": "0xa", "to_address": "0xb", "rel_type": "other"}
        return Decoded({"subgraph_transfers": rows("subgraph_transfers", chain, as_of, [row]).drop("fetched_at")})

    answers = [Response(ChainsRequest(), b"", at, None) for at in (JUNE, MAY)]
    item = PendingDecode(decode, "eth", MAY, ["a set"], answers)
    decoded = asyncio.run(DecodeQueue().decode(item, Slots(lambda: 1)))
    assert decoded.tables["subgraph_transfers"]["fetched_at"].to_pylist() == [JUNE]


def test_addresses_of_top_holders_are_fetched_in_one_call(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    fill(workspace, HOLDERS, "eth", MAY)
    (landed,) = fill(workspace, ADDRESSES, "eth", MAY)
    assert landed.calls == 1
    assert landed.credits == landed.rows["addresses"] * 100


@pytest.mark.long
def test_an_address_that_cannot_be_requested_does_not_stop_the_others(make_workspace: MakeWorkspace) -> None:
    token = "0x" + "5" * 40
    odd = ["0x1/2", "0x1%2", "0x1 2"]
    rows = [holder(address, rank) for rank, address in enumerate([*odd, "0x" + "7" * 40], 1)]
    found = [{"address": "0x" + "7" * 40, "address_details": details()}]
    with scripted(answer(rows), answer(found)) as server:
        workspace = make_workspace(watchlist={"eth": [token]}, address_sets={}, base_url=server.address)
        fill(workspace, HOLDERS, "eth", MAY)
        for _ in range(2):
            (landed,) = fill(workspace, ADDRESSES, "eth", MAY)
            assert landed.rows["addresses"] == 1
        assert not any(address in one.body.decode() for one in server.received for address in odd)
        assert workspace.lake.read("holders", "eth", MAY).num_rows == 4
        failures = workspace.lake.read("failures", "eth", MAY).to_pylist()
        assert {row["subject"] for row in failures if row["code"] == "invalid_address"} == {*odd}
        rebuild(workspace)
        assert workspace.lake.read("failures", "eth", MAY).num_rows == len(failures)


def test_a_token_that_cannot_be_requested_is_named_and_not_requested(make_workspace: MakeWorkspace) -> None:
    with scripted(error(500)) as server:
        workspace = make_workspace(watchlist={"osmosis": ["ibc/27394FB0"]}, base_url=server.address)
        for stream in (TOKENS, HOLDERS, MAPS):
            fill(workspace, stream, "osmosis", MAY)
        assert not any("ibc" in one.target or b"ibc" in one.body for one in server.received)
    failures = workspace.lake.read("failures", "osmosis", MAY).to_pylist()
    assert [(row["subject"], row["code"]) for row in failures] == [("ibc/27394FB0", "invalid_address")] * 3


def test_a_403_stops_only_its_endpoint(make_workspace: MakeWorkspace) -> None:
    token = "0x" + "5" * 40
    with scripted(error(403), answer([holder("0x" + "7" * 40, 1)])) as server:
        workspace = make_workspace(watchlist={"eth": [token]}, base_url=server.address)
        work = [(MAPS, "eth", [MAY]), (MAPS, "eth", [JUNE]), (HOLDERS, "eth", [MAY])]
        with pytest.raises(Forbidden):
            asyncio.run(ingest_run(workspace, "run", work, RunOptions(), lambda result: None))
        assert [one.target.split("/")[3] for one in server.received] == ["map", "holders"]
    assert workspace.lake.read("holders", "eth", MAY).num_rows == 1
    assert [row["code"] for row in workspace.lake.read("failures", "eth").to_pylist()] == ["forbidden"]


def test_a_family_that_the_settings_leave_out_is_not_requested(make_workspace: MakeWorkspace) -> None:
    token = "0x" + "5" * 40
    with scripted(answer([holder("0x" + "7" * 40, 1)])) as server:
        workspace = make_workspace(
            watchlist={"eth": [token]}, base_url=server.address, schedule={"leave_out": ["maps"]}
        )
        work = [(MAPS, "eth", [MAY]), (HOLDERS, "eth", [MAY])]
        asyncio.run(ingest_run(workspace, "run", work, RunOptions(), lambda result: None))
        assert [one.target.split("/")[3] for one in server.received] == ["holders"]
    kept, left_out = within_plan(workspace, (MAPS, HOLDERS))
    assert (kept, [one.reason for one in left_out]) == ((HOLDERS,), ["schedule.leave_out names maps"])


def test_addresses_are_skipped_at_no_cost_on_a_plan_without_them(
    sample_service: Any, make_workspace: MakeWorkspace
) -> None:
    workspace = make_workspace(secret=sample_service.keys.create("no custom plan", 10**7))
    fill(workspace, HOLDERS, "eth", MAY)
    (landed,) = fill(workspace, ADDRESSES, "eth", MAY)
    assert landed.skipped
    assert (landed.credits, landed.rows["addresses"], landed.failures) == (0, 0, 0)


def test_exhausted_credits_stop_a_run_that_can_resume(sample_service: Any, make_workspace: MakeWorkspace) -> None:
    poor = sample_service.keys.create("poor", 3 * 51_00)
    with pytest.raises(CreditsExhausted):
        fill(make_workspace(secret=poor), HOLDERS, "eth", MAY)
    workspace = make_workspace()
    (landed,) = fill(workspace, HOLDERS, "eth", MAY)
    tokens = len(workspace.settings.watchlist["eth"])
    assert landed.credits == 51_00 * (tokens - landed.failures - 3)


def test_a_ceiling_is_never_passed(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace(budget={"per_run": 120})
    with pytest.raises(BudgetExceeded, match="per_run"):
        fill(workspace, HOLDERS, "eth", MAY)
    assert workspace.ledger.totals().spent <= 120_00


def test_a_stopped_run_records_the_tokens_before_which_it_stopped(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace(budget={"per_run": 120})
    with pytest.raises(BudgetExceeded):
        fill(workspace, HOLDERS, "eth", MAY)
    (stopped,) = workspace.lake.manifests("holders")
    assert stopped.covered
    assert stopped.unanswered == {*workspace.settings.watchlist["eth"]} - stopped.covered
    fill(make_workspace(), HOLDERS, "eth", MAY)
    (resumed,) = workspace.lake.manifests("holders")
    assert resumed.unanswered == frozenset()


def test_a_wrong_key_stops_the_run_and_is_named_in_failures(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace(secret="hl_00000000_wrong")
    with pytest.raises(InvalidKey):
        fill(workspace, HOLDERS, "eth", MAY)
    (manifest,) = workspace.lake.manifests()
    assert not manifest.covered
    # One row for each request that was refused; calls that were in flight together are refused together.
    assert {row["code"] for row in workspace.lake.read("failures", "eth", MAY).to_pylist()} == {"invalid_key"}


def _is(table: Any, token: str) -> list[bool]:
    return [address == token for address in table["token_address"].to_pylist()]


def test_each_family_of_the_contract_has_a_stream() -> None:
    assert {stream.name for stream in STREAMS} == set(FAMILY_TABLES)
