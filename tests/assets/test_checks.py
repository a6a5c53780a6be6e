"""Asset checks: they hold on real answers and fail on odd rows."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from dagster import AssetCheckEvaluation, AssetCheckSeverity, AssetSelection, Definitions, define_asset_job

from holderlake.assets import STREAMS
from holderlake.assets.checks import evaluate, files_with_wrong_counts, lost_rows, new_fields
from holderlake.assets.fetched import stream_asset
from holderlake.assets.freshness import freshness_checks
from holderlake.assets.holders import HOLDERS
from holderlake.assets.maps import MAPS
from holderlake.core.contract.tables import TABLES, build
from holderlake.core.contract.times import utc_now
from holderlake.core.ingest.stream import Stream
from holderlake.core.lake.lake import SIDE_TABLES, Lake, PartitionUpdate
from holderlake.core.warehouse.row_checks import odd_rows
from holderlake.core.workspace import Workspace
from holderlake.operations.healing.expected import record_tick
from tests.core.contract.answers import holder
from tests.helpers.filling import MakeWorkspace, fill
from tests.helpers.lakes import failures
from tests.helpers.misbehaving import answer, scripted

MAY = datetime(2026, 5, 1)
JUNE = datetime(2026, 6, 1)
COMMON = {"chain": "eth", "as_of": MAY, "token_address": "0xt"}
SHARES = dict.fromkeys(("cexs", "dexs", "contracts", "fresh_wallets", "top_10_adjusted", "bundles"), 0.1)


def _member(address: str, cluster: int) -> dict[str, Any]:
    return {"cluster_id": cluster, "address": address, "kind": "holder"}


def _cluster(holders: int) -> dict[str, Any]:
    return {"cluster_id": 1, "share": 0.1, "holder_count": holders, "magic_node_count": 0}


def _holder(rank: int, share: float, amount: int = 1) -> dict[str, Any]:
    return {"rank": rank, "address": f"0x{rank}", "share": share, "amount": amount}


LINK = {"from_address": "0xa", "rel_type": "GROUPED_TRANSFER", "total_transfers": 1, "first_date": MAY}
BELOW_ZERO = {"dt_update": "", **SHARES, "negative_balances": '{"count": 7}'}
BREAKS: dict[str, tuple[str, dict[str, list[dict[str, Any]]]]] = {
    "a sum of shares above 1": ("share_sum", {"holders": [_holder(1, 0.7), _holder(2, 0.6)]}),
    "a rank left out": ("rank_gap", {"holders": [_holder(1, 0.1), _holder(3, 0.1)]}),
    "a holder twice": ("repeated_row", {"holders": [_holder(1, 0.1), _holder(1, 0.1)]}),
    "a cluster twice": ("repeated_row", {"clusters": [_cluster(2), _cluster(2)]}),
    "a map twice": ("repeated_row", {"maps": [{"dt_update": "", **SHARES}] * 2}),
    "a negative amount": ("negative", {"holders": [_holder(1, 0.1, -1)]}),
    "a node twice": ("repeated_row", {"map_nodes": [{"kind": "top_holder", "address": "0xa"}] * 2}),
    "a node's share": ("share_range", {"map_nodes": [{"kind": "top_holder", "address": "0xa", "share": 1.5}]}),
    "a cluster's share": ("share_range", {"clusters": [_cluster(2) | {"share": -0.1}]}),
    "a relationship twice": (
        "repeated_row",
        {"grouped_transfers": [{**LINK, "to_address": "0xb", "last_date": MAY}] * 2},
    ),
    "amounts that rise": ("contradiction", {"holders": [_holder(1, 0.1, 5), _holder(2, 0.1, 6)]}),
    "a supply share": ("share_range", {"maps": [{"dt_update": "", **SHARES, "cexs": 1.2}]}),
    "a score": ("score_range", {"maps": [{"dt_update": "", **SHARES, "service_score": 101.0}]}),
    "a member of two clusters": ("repeated_row", {"cluster_members": [_member("0xa", 1), _member("0xa", 2)]}),
    "a member without node": ("contradiction", {"cluster_members": [_member("0xa", 1)]}),
    "a cluster of one": ("contradiction", {"clusters": [_cluster(1)], "cluster_members": [_member("0xa", 1)]}),
    "a list of the future": ("fetched_early", {"holders": [{"as_of": JUNE, **_holder(1, 0.1)}]}),
    "a map of the future": ("fetched_early", {"maps": [{"as_of": JUNE, "dt_update": "", **SHARES}]}),
    "a transfer to itself": ("contradiction", {"grouped_transfers": [{**LINK, "to_address": "0xa", "last_date": MAY}]}),
}


@pytest.mark.parametrize(("issue", "rows"), BREAKS.values(), ids=BREAKS)
def test_odd_rows_are_found_in_the_files_of_a_run(
    issue: str, rows: dict[str, list[dict[str, Any]]], tmp_path: Path
) -> None:
    files = {}
    for name, some in rows.items():
        table = build(TABLES[name], [COMMON | row for row in some], MAY).drop_columns("chain")
        pq.write_table(table, tmp_path / name)
        files[name] = [("eth", tmp_path / name)]
    found = [(row["issue"], row["severity"], row["chain"]) for row in odd_rows(files, "256MB").to_pylist()]
    assert (issue, "error", "eth") in found


@pytest.mark.parametrize(
    ("share", "maps", "severity", "cause"),
    [
        (0.50008, [BELOW_ZERO], "warning", ", because transfers are missing: 7 addresses are below zero"),
        (0.6, [BELOW_ZERO], "error", ", because transfers are missing: 7 addresses are below zero"),
        (0.50008, [], "warning", ", above 1 where transfers are missing (holderlake store negative-balances)"),
        (0.6, [], "error", ""),
    ],
)
def test_shares_above_1_name_their_cause(
    share: float, maps: list[dict[str, Any]], severity: str, cause: str, tmp_path: Path
) -> None:
    files = {}
    for name, some in {"holders": [_holder(1, share), _holder(2, 0.5)], "maps": maps}.items():
        table = build(TABLES[name], [COMMON | row for row in some], MAY).drop_columns("chain")
        pq.write_table(table, tmp_path / name)
        files[name] = [("eth", tmp_path / name)]
    (found,) = [row for row in odd_rows(files, "256MB").to_pylist() if row["issue"] == "share_sum"]
    assert (found["severity"], found["what"]) == (severity, f"sum of shares{cause}")


def test_a_run_without_rows_has_no_odd_ones() -> None:
    assert odd_rows({}, "256MB").num_rows == 0


@pytest.mark.parametrize(
    ("share", "severity"), [(0.1, None), (None, AssetCheckSeverity.WARN), (1.5, AssetCheckSeverity.ERROR)]
)
def test_the_check_of_rows_has_the_severity_of_the_worst(
    share: float | None, severity: AssetCheckSeverity | None, make_workspace: MakeWorkspace
) -> None:
    token, owner = "0x" + "5" * 40, "0x" + "7" * 40
    one = holder(owner, 1) | {"holder_data": {"amount": 3, "rank": 1, "share": share}}
    with scripted(answer([one])) as server:
        workspace = make_workspace(watchlist={"eth": [token]}, base_url=server.address)
        fill(workspace, HOLDERS, "eth", MAY)
    (found,) = [one for one in evaluate(workspace, HOLDERS, None) if one.check_name == "rows_are_sound"]
    assert found.passed == (severity is None)
    assert found.passed or found.severity == severity
    if share == 1.5:
        faults = found.metadata["first faults"].value
        assert f"share_sum of {token} on eth at {MAY.isoformat()}Z (sum of shares: 1.5)" in faults


def test_loaded_rows_are_judged_as_those_of_the_files(make_workspace: MakeWorkspace) -> None:
    one = holder("0x" + "7" * 40, 1) | {"holder_data": {"amount": 3, "rank": 1, "share": 1.5}}
    with scripted(answer([one])) as server:
        workspace = make_workspace(watchlist={"eth": ["0x" + "5" * 40]}, base_url=server.address)
        fill(workspace, HOLDERS, "eth", MAY, JUNE)
    workspace.warehouse.load(workspace.lake)
    of_files, of_warehouse = (
        list(evaluate(workspace, HOLDERS, {("eth", "2026-05-01")}, are_loaded=are_loaded))
        for are_loaded in (False, True)
    )
    assert of_files == of_warehouse
    (sound,) = [one for one in of_warehouse if one.check_name == "rows_are_sound"]
    assert sound.metadata["faults"].value == 2


@pytest.mark.integration
def test_the_rows_of_real_answers_are_sound(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    for family in (HOLDERS, MAPS):
        fill(workspace, family, "eth", MAY)
        (found,) = [one for one in evaluate(workspace, family, None) if one.check_name == "rows_are_sound"]
        assert found.passed


def test_a_file_with_other_rows_than_its_manifest_is_found(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    fill(workspace, HOLDERS, "eth", MAY)
    manifests = list(workspace.lake.manifests())
    assert not files_with_wrong_counts(workspace.lake, manifests, "holders")
    path = workspace.lake.path("holders", "eth", MAY)
    pq.write_table(pq.read_table(path).slice(1), path)
    assert len(files_with_wrong_counts(workspace.lake, manifests, "holders")) == 1


@pytest.mark.parametrize(
    ("more", "fields"),
    [({}, []), ({"balance": 3, "holder_data": {"place": 1}}, ["$[*].balance", "$[*].holder_data.place"])],
)
def test_a_field_that_the_contract_lacks_is_named(
    make_workspace: MakeWorkspace, more: dict[str, Any], fields: list[str]
) -> None:
    with scripted(answer([holder("0x" + "7" * 40, 1) | more])) as server:
        workspace = make_workspace(watchlist={"eth": ["0x" + "5" * 40]}, base_url=server.address)
        fill(workspace, HOLDERS, "eth", MAY, JUNE)
    found = new_fields(workspace.archive, list(workspace.lake.manifests("holders")))
    assert found == [f"{field} of holders, eth" for field in fields]


@pytest.mark.parametrize(("rows", "tokens", "faults"), [(9, 2, 1), (10, 2, 0), (9, 1, 0)])
def test_a_partition_with_half_of_the_rows_of_before_is_named(
    tmp_path: Path, rows: int, tokens: int, faults: int
) -> None:
    lake = Lake(tmp_path)
    for day, count, covered in ((MAY, 20, 2), (JUNE, rows, tokens)):
        table = build(TABLES["holders"], [COMMON | {"as_of": day} | _holder(n, 0.01) for n in range(count)], day)
        names = {f"0xt{n}" for n in range(covered)}
        lake.write(PartitionUpdate(
            "holders", "eth", day, {"holders": table}, provider="p", by="token", requested=names,
            covered=dict.fromkeys(names, day), options={},
        ))  # fmt: skip
    found = lost_rows(lake, HOLDERS, list(lake.manifests("holders")), "holders")
    assert found == [f"eth 2026-06-01T00:00:00Z: {rows} rows, and 20 at 2026-05-01T00:00:00Z"][:faults]


def test_every_table_of_every_family_has_rules_or_counts() -> None:
    assert {table for family in STREAMS for table in family.tables} == set(TABLES) - set(SIDE_TABLES)


class _Clock:
    """The checks by the clock of some streams, over a workspace: evaluate them as the job ``freshness`` does."""

    def __init__(self, workspace: Workspace, *streams: Stream) -> None:
        checks = freshness_checks(streams)
        job = define_asset_job("freshness", selection=AssetSelection.checks(checks))
        assets, resources = [stream_asset(stream) for stream in streams], {"workspace": workspace}
        self._defs = Definitions(assets=assets, asset_checks=[checks], jobs=[job], resources=resources)

    def check(self, name: str) -> AssetCheckEvaluation:
        evaluations = self._defs.resolve_job_def("freshness").execute_in_process().get_asset_check_evaluations()
        (evaluation,) = [one for one in evaluations if one.check_name == name]
        return evaluation


def _two_chains(make_workspace: MakeWorkspace) -> Workspace:
    watched = make_workspace().settings.watchlist
    return make_workspace(watchlist={chain: watched[chain][:1] for chain in ("base", "solana")})


@pytest.mark.integration
def test_a_backfill_of_an_old_day_does_not_make_a_table_fresh(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace(watchlist={"solana": make_workspace().settings.watchlist["solana"][:1]})
    clock = _Clock(workspace, HOLDERS)
    fill(workspace, HOLDERS, "solana", MAY)
    assert not clock.check("is_fresh").passed
    fill(workspace, HOLDERS, "solana", utc_now().replace(microsecond=0))
    assert clock.check("is_fresh").passed
    fill(workspace, HOLDERS, "solana", JUNE)
    assert clock.check("is_fresh").passed


def test_a_family_that_the_settings_leave_out_is_not_late(make_workspace: MakeWorkspace) -> None:
    watched = {"solana": make_workspace().settings.watchlist["solana"][:1]}
    workspace = make_workspace(watchlist=watched, schedule={"leave_out": ["holders"]})
    record_tick(workspace, MAY, JUNE)
    clock = _Clock(workspace, HOLDERS)
    assert clock.check("is_fresh").metadata["schedule"].value == "schedule.leave_out names holders"
    assert (clock.check("is_fresh").passed, clock.check("is_complete").passed) == (True, True)


def test_a_chain_without_answers_is_not_fresh_because_another_is(make_workspace: MakeWorkspace) -> None:
    workspace, now = _two_chains(make_workspace), utc_now().replace(microsecond=0)
    clock = _Clock(workspace, HOLDERS)
    fill(workspace, HOLDERS, "solana", now)
    failed = failures("base", now, ("/v0/tokens/holders", "native"))
    rows = TABLES["holders"].schema.empty_table()
    workspace.lake.write(PartitionUpdate(
        "holders", "base", now, {"holders": rows}, provider="sample", by="token", requested={"native"}, covered={},
        failures=failed, options={},
    ))  # fmt: skip
    found = clock.check("is_fresh")
    assert not found.passed
    assert found.metadata["base"].value == "no answer"
    fill(workspace, HOLDERS, "base", now)
    assert clock.check("is_fresh").passed


@pytest.mark.integration
def test_completeness_names_the_missing_instants_of_each_chain(make_workspace: MakeWorkspace) -> None:
    workspace, day = _two_chains(make_workspace), timedelta(days=1)
    clock = _Clock(workspace, HOLDERS)
    assert clock.check("is_complete").metadata["schedule"].value == "it has not run yet"
    for tick in (JUNE, JUNE + day):
        record_tick(workspace, tick - day, tick)
        fill(workspace, HOLDERS, "solana", tick)
    fill(workspace, HOLDERS, "base", JUNE + day, MAY)
    found = clock.check("is_complete")
    assert (found.passed, found.severity) == (False, AssetCheckSeverity.ERROR)
    said = {chain: value.value for chain, value in found.metadata.items()}
    assert said == {"base": "1 missing: 2026-06-01T00:00:00Z", "solana": "complete"}
    fill(workspace, HOLDERS, "base", JUNE)
    assert clock.check("is_complete").passed


@pytest.mark.integration
def test_a_chain_is_not_late_before_its_first_day(make_workspace: MakeWorkspace) -> None:
    workspace = _two_chains(make_workspace)
    workspace.now = lambda: datetime(2023, 6, 15, 6)
    clock = _Clock(workspace, HOLDERS)
    record_tick(workspace, datetime(2023, 6, 13), datetime(2023, 6, 14, 0, 5))
    fill(workspace, HOLDERS, "solana", datetime(2023, 6, 14), datetime(2023, 6, 15))
    assert clock.check("is_fresh").passed
    assert clock.check("is_complete").passed
