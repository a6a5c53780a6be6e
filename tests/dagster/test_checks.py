"""Asset checks: each rule holds on real answers and fails on rows that break it."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dagster import AssetCheckEvaluation, AssetCheckSeverity, AssetSelection, Definitions, define_asset_job

from holderlake.contract.tables import TABLES, build
from holderlake.contract.times import utc_now
from holderlake.dagster.assets import stream_asset
from holderlake.dagster.checks import RULES, files_with_wrong_counts, freshness_checks, rows_that_break
from holderlake.dagster.checks.streams import lost_rows, new_fields
from holderlake.healing.expected import record_tick
from holderlake.ingest.stream import Stream
from holderlake.ingest.streams.all import STREAMS
from holderlake.ingest.streams.holders import HOLDERS
from holderlake.ingest.streams.maps import MAPS
from holderlake.lake.lake import SIDE_TABLES, Lake
from holderlake.workspace import Workspace
from tests.contract.answers import holder
from tests.filling import MakeWorkspace, fill
from tests.lakes import failures
from tests.provider.misbehaving import answer, scripted

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
BREAKS: dict[str, dict[str, list[dict[str, Any]]]] = {
    "shares_are_parts_of_the_supply": {"holders": [_holder(1, 0.7), _holder(2, 0.6)]},
    "ranks_are_dense": {"holders": [_holder(1, 0.1), _holder(3, 0.1)]},
    "holders_are_listed_once": {"holders": [_holder(1, 0.1), _holder(1, 0.1)]},
    "amounts_and_counts_are_not_negative": {"holders": [_holder(1, 0.1, -1)]},
    "nodes_are_listed_once": {"map_nodes": [{"kind": "top_holder", "address": "0xa"}] * 2},
    "node_shares_are_parts_of_the_supply": {"map_nodes": [{"kind": "top_holder", "address": "0xa", "share": 1.5}]},
    "cluster_shares_are_parts_of_the_supply": {"clusters": [_cluster(2) | {"share": -0.1}]},
    "relationships_are_listed_once": {"grouped_transfers": [{**LINK, "to_address": "0xb", "last_date": MAY}] * 2},
    "amounts_fall_with_rank": {"holders": [_holder(1, 0.1, 5), _holder(2, 0.1, 6)]},
    "supply_shares_are_parts": {"maps": [{"dt_update": "", **SHARES, "cexs": 1.2}]},
    "scores_are_on_their_scale": {"maps": [{"dt_update": "", **SHARES, "service_score": 101.0}]},
    "clusters_are_disjoint": {"cluster_members": [_member("0xa", 1), _member("0xa", 2)]},
    "cluster_holders_are_top_holders": {"cluster_members": [_member("0xa", 1)]},
    "clusters_have_two_holders_or_more": {"clusters": [_cluster(1)], "cluster_members": [_member("0xa", 1)]},
    "rows_are_fetched_after_their_instant": {
        "holders": [{"as_of": JUNE, **_holder(1, 0.1)}],
        "maps": [{"as_of": JUNE, "dt_update": "", **SHARES}],
    },
    "relationships_have_two_ends": {"grouped_transfers": [{**LINK, "to_address": "0xa", "last_date": MAY}]},
}


def _tables(rows: dict[str, list[dict[str, Any]]]) -> dict[str, pa.Table]:
    return {
        name: build(TABLES[name], [COMMON | row for row in rows.get(name, [])], MAY)
        for family in (HOLDERS, MAPS)
        for name in family.tables
    }


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_finds_the_rows_that_break_it(rule: Any) -> None:
    [(_, rows)] = rows_that_break([rule], _tables(BREAKS[rule.name]))
    assert rows.num_rows > 0


def test_rules_hold_on_empty_tables() -> None:
    assert not [rule.name for rule, rows in rows_that_break(RULES, _tables({})) if rows.num_rows]


def test_all_rules_hold_on_real_answers(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    for family in (HOLDERS, MAPS):
        fill(workspace, family, "eth", MAY)
    tables = {name: workspace.lake.read(name) for family in (HOLDERS, MAPS) for name in family.tables}
    assert not [rule.name for rule, rows in rows_that_break(RULES, tables) if rows.num_rows]


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
        lake.write(
            "holders", "eth", day, {"holders": table}, provider="p", by="token", requested=names,
            covered=dict.fromkeys(names, day), options={},
        )  # fmt: skip
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
    workspace.lake.write(
        "holders", "base", now, {"holders": rows}, provider="sample", by="token", requested={"native"}, covered={},
        failures=failed, options={},
    )  # fmt: skip
    found = clock.check("is_fresh")
    assert not found.passed
    assert found.metadata["base"].value == "no answer"
    fill(workspace, HOLDERS, "base", now)
    assert clock.check("is_fresh").passed


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


def test_a_chain_is_not_late_before_its_first_day(make_workspace: MakeWorkspace) -> None:
    workspace = _two_chains(make_workspace)
    workspace.now = lambda: datetime(2023, 6, 15, 6)
    clock = _Clock(workspace, HOLDERS)
    record_tick(workspace, datetime(2023, 6, 13), datetime(2023, 6, 14, 0, 5))
    fill(workspace, HOLDERS, "solana", datetime(2023, 6, 14), datetime(2023, 6, 15))
    assert clock.check("is_fresh").passed
    assert clock.check("is_complete").passed
