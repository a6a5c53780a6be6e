"""The plan of a backfill: its cost equals the cost of the backfill."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from shutil import rmtree
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from holderlake.assets import STREAMS
from holderlake.assets.addresses import ADDRESSES
from holderlake.assets.holders import HOLDERS
from holderlake.assets.maps import MAPS
from holderlake.assets.tokens import TOKENS
from holderlake.cli.main import app
from holderlake.core.contract.prices import credits_text
from holderlake.core.contract.tables import TABLES, build
from holderlake.core.ingest.stream import IngestContext, partition_of
from holderlake.core.lake.lake import LakeError, PartitionUpdate
from holderlake.core.settings import Settings
from holderlake.core.settings.sections.provider import AddressSet, AddressSettings, HolderSettings, MapSettings
from holderlake.core.settings.sections.schedule import Budget
from holderlake.core.workspace import Workspace
from holderlake.operations.backfill.coverage import Coverage
from holderlake.operations.backfill.job import BackfillConfig
from holderlake.operations.backfill.plan import Plan, make_plan
from holderlake.operations.backfill.pricing import ASSUMED
from holderlake.operations.backfill.report import sentences
from holderlake.operations.backfill.scope import streams_of
from holderlake.operations.backfill.suggestions import Advice
from tests.helpers.filling import MakeWorkspace, fill

MAY = datetime(2026, 5, 1)
JUNE = datetime(2026, 6, 1)


@pytest.mark.long
def test_the_plan_costs_as_much_as_the_backfill(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    chains = ["eth", "base"]
    for chain in chains:  # the plan needs the top holders
        fill(workspace, HOLDERS, chain, MAY, JUNE)
    planned = make_plan(workspace, "sample", chains, [MAY, JUNE])
    before = workspace.ledger.totals().spent
    calls = sum(
        one.calls for chain in chains for stream in STREAMS for one in fill(workspace, stream, chain, MAY, JUNE)
    )
    failures = [
        row
        for chain in chains
        for when in (MAY, JUNE)
        for row in workspace.lake.read("failures", chain, when).to_pylist()
    ]
    refused = sum(row["endpoint"] == "map" for row in failures)  # planned, and refused at no cost
    assert before > 0
    assert workspace.ledger.totals().spent - before == planned.credits - refused * 100_00
    assert calls == planned.calls


@pytest.mark.long
def test_calls_before_a_tokens_first_transfer_cost_nothing(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    fill(workspace, TOKENS, "eth", JUNE)
    workspace.warehouse.load(workspace.lake)
    firsts = workspace.lake.read("tokens", "eth", JUNE)["min_date"].to_pylist()
    between = min(firsts) + (max(firsts) - min(firsts)) / 2
    early = datetime(between.year, between.month, between.day)
    planned = make_plan(workspace, "sample", ["eth"], [early], tables=["holders"])
    later = sum(first > early for first in firsts)
    assert 0 < later < len(firsts)
    assert (planned.refused, planned.calls) == (later, len(firsts))
    before = workspace.ledger.totals().spent
    fill(workspace, HOLDERS, "eth", early)
    assert workspace.ledger.totals().spent - before == planned.credits


@pytest.mark.long
def test_maps_of_tokens_without_support_cost_nothing(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    fill(workspace, MAPS, "bsc", MAY)
    workspace.warehouse.load(workspace.lake)
    failures = workspace.lake.read("failures", "bsc", MAY).to_pylist()
    unsupported = sum(row["code"] == "unsupported_token" for row in failures)
    planned = make_plan(workspace, "sample", ["bsc"], [JUNE], tables=["maps"])
    assert planned.refused == unsupported > 0
    before = workspace.ledger.totals().spent
    fill(workspace, MAPS, "bsc", JUNE)
    assert workspace.ledger.totals().spent - before == planned.credits


@pytest.mark.integration
def test_days_before_the_first_block_of_a_chain_are_left_out(make_workspace: MakeWorkspace) -> None:
    tokens = make_workspace().settings.watchlist["solana"][:1]
    workspace = make_workspace(watchlist={"solana": tokens})
    first, before = datetime(2020, 3, 16), datetime(2020, 3, 15)
    plan = make_plan(workspace, workspace.provider_id, ["solana"], [before, first])
    assert {line.partitions for line in plan.lines} == {1}
    with pytest.raises(ValueError, match="before the first block of solana"):
        make_plan(workspace, workspace.provider_id, ["solana"], [before])


@pytest.mark.integration
def test_a_finished_grid_costs_nothing(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    for stream in STREAMS:
        fill(workspace, stream, "solana", MAY)
    planned = make_plan(workspace, "sample", ["solana"], [MAY])
    assert (planned.calls, planned.credits) == (0, 0)
    assert all(line.whole == line.partitions for line in planned.lines)


def test_answers_in_the_archive_cost_nothing(make_workspace: MakeWorkspace, tmp_path: Path) -> None:
    workspace = make_workspace()
    fill(workspace, MAPS, "eth", MAY)
    rmtree(tmp_path / "lake")
    planned = make_plan(workspace, "sample", ["eth"], [MAY])
    maps = next(line for line in planned.lines if line.family == "maps")
    assert (maps.calls, maps.credits) == (0, 0)
    assert maps.archived > 0


def test_unknown_holders_are_planned_at_their_highest_cost(
    make_workspace: MakeWorkspace,
) -> None:
    workspace = make_workspace()
    planned = make_plan(workspace, "sample", ["eth"], [MAY])
    for stream in STREAMS:
        fill(workspace, stream, "eth", MAY)
    assert workspace.ledger.totals().spent <= planned.credits


def test_addresses_of_holders_that_are_not_fetched_yet_are_a_gap(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace(address_sets={"pair": {"chain": "solana", "addresses": ["1" * 43, "2" * 43]}})
    (gap,) = Coverage(workspace.lake, [MAY]).gaps(workspace, [ADDRESSES], "eth")
    assert (gap.missing, gap.is_none) == ((), False)


@pytest.mark.integration
def test_coverage_finds_the_gaps_that_an_ingest_finds(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    for stream in STREAMS:
        fill(workspace, stream, "eth", MAY)
    fill(workspace, HOLDERS, "eth", JUNE)
    fill(workspace, MAPS, "eth", JUNE, only=workspace.settings.watchlist["eth"][:1])
    workspace.lake.path("maps", "eth", MAY).write_bytes(b"cut")
    coverage = Coverage(workspace.lake, [MAY, JUNE])
    found = {(gap.stream.name, gap.partition.as_of): gap.missing for gap in coverage.gaps(workspace, STREAMS, "eth")}
    context = IngestContext(cast(Any, None), workspace)  # selects without a provider
    expected = {
        (stream.name, when): tuple(context.missing(stream, partition_of(workspace, "eth", when)).subjects)
        for stream in STREAMS
        for when in (MAY, JUNE)
    }
    assert found == expected
    assert found["maps", MAY]
    assert not found["holders", JUNE]


def test_damaged_holders_are_an_error(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    fill(workspace, HOLDERS, "eth", MAY)
    path = workspace.lake.path("holders", "eth", MAY)
    path.write_bytes(b"?" * path.stat().st_size)
    with pytest.raises(LakeError, match="does not match its manifest"):
        make_plan(workspace, "sample", ["eth"], [MAY])


def test_the_lake_lists_only_complete_partitions(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    fill(workspace, HOLDERS, "eth", MAY, JUNE)
    fill(workspace, TOKENS, "eth", MAY)
    workspace.lake.path("holders", "eth", JUNE).unlink()
    whole = {(one.family, one.as_of) for one in workspace.lake.complete("eth", [MAY, JUNE])}
    assert whole == {("holders", MAY), ("tokens", MAY)}
    assert not list(workspace.lake.complete("eth", [datetime(2026, 5, 2)]))
    assert not list(workspace.lake.complete("base", [MAY]))


def test_only_the_streams_of_the_tables_are_planned(make_workspace: MakeWorkspace) -> None:
    planned = make_plan(make_workspace(), "sample", ["eth"], [MAY], tables=["clusters", "map_nodes", "tokens"])
    assert [line.family for line in planned.lines] == ["tokens", "maps"]


def test_addresses_need_holders_only_for_top_holders() -> None:
    def names(settings: Settings) -> list[str]:
        return [stream.name for stream in streams_of(["addresses"], settings)]

    assert names(Settings()) == ["holders", "addresses"]
    assert names(Settings(addresses=AddressSettings(top=0))) == ["addresses"]


@pytest.mark.parametrize(
    ("table", "message"), [("map_node", "did you mean map_nodes"), ("failures", "every run writes it")]
)
def test_a_table_that_cannot_be_planned_is_refused_with_a_hint(table: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        streams_of([table], Settings())


def test_one_answer_for_many_past_instants_is_one_call(make_workspace: MakeWorkspace) -> None:
    planned = make_plan(make_workspace(), "sample", ["eth", "base"], [MAY, JUNE], tables=["chains"])
    (line,) = planned.lines
    assert (line.calls, line.archived, line.shared, line.credits) == (1, 0, 3, 1)


def test_sizes_come_from_the_archive_or_are_assumed(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    fresh = _by_endpoint(make_plan(workspace, "sample", ["eth"], [MAY]))
    assert (fresh["map"].learnt_from, fresh["map"].bytes_by_unit) == (0, ASSUMED["tokens/map"][0])
    answers = sum(one.calls for one in fill(workspace, HOLDERS, "eth", MAY))
    known = _by_endpoint(make_plan(workspace, "sample", ["eth"], [JUNE]))
    real = [len(answer.raw) for answer in workspace.archive]
    assert known["holders"].learnt_from == answers == len(real)
    assert known["holders"].bytes == pytest.approx(sum(real), abs=1)
    assert known["map"].learnt_from == 0
    assert not _by_endpoint(make_plan(workspace, "another", ["eth"], [JUNE]))["holders"].learnt_from


def test_a_plan_without_a_ceiling_has_no_months(make_workspace: MakeWorkspace) -> None:
    planned = make_plan(make_workspace(), "sample", ["eth"], [MAY])
    assert planned.coming is None
    assert "No monthly ceiling is set" in sentences(planned)[1]


def test_a_plan_beyond_the_allowance_lists_months_and_its_last_day(
    make_workspace: MakeWorkspace,
) -> None:
    workspace = make_workspace(budget=Budget(per_month=500))
    planned = make_plan(workspace, "sample", ["eth"], [MAY])
    assert planned.coming is not None
    assert len(planned.coming.months) > 1
    assert sum(month.credits for month in planned.coming.months) == planned.credits
    assert all(month.credits <= 500_00 for month in planned.coming.months)
    assert planned.coming.finished == planned.coming.months[-1].start
    assert str(planned.coming.finished) in sentences(planned)[1]


def test_each_surcharge_is_listed_with_its_saving(make_workspace: MakeWorkspace) -> None:
    dear = {"maps": MapSettings(limit=500), "holders": HolderSettings(limit=250, with_metadata=True)}
    planned = make_plan(make_workspace(**dear), "sample", ["eth"], [MAY])
    tokens = len(make_workspace().settings.watchlist["eth"])
    saves = {one.text: one.saves for one in planned.advice}
    assert saves["set maps.limit = 80"] == tokens * 100_00
    assert saves["set holders.limit = 80"] == tokens * 10_00
    assert saves["set holders.with_metadata = false"] == tokens * 25_00


def test_the_cheapest_settings_cost_as_much_as_predicted(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace(maps=MapSettings(limit=500), holders=HolderSettings(limit=250, with_metadata=True))
    planned = make_plan(workspace, "sample", ["eth"], [MAY])
    assert planned.cheapest is not None
    cheap = make_workspace(addresses=AddressSettings(top=0))
    assert dict(planned.cheapest.settings) == {
        "maps.limit": 80,
        "holders.limit": 80,
        "holders.with_metadata": False,
        "addresses.top": 0,
    }
    assert planned.credits - planned.cheapest.saves == make_plan(cheap, "sample", ["eth"], [MAY]).credits


def test_holders_that_maps_contain_can_be_left_out(make_workspace: MakeWorkspace) -> None:
    planned = make_plan(make_workspace(), "sample", ["eth"], [MAY])
    advice = _advice(planned, "leave out holders")
    cheap = make_workspace(addresses=AddressSettings(top=0))
    assert advice is not None
    assert dict(advice.settings) == {"addresses.top": 0}
    without = make_plan(cheap, "sample", ["eth"], [MAY], tables=advice.tables)
    assert planned.credits - advice.saves == without.credits
    assert "holders" not in [line.family for line in without.lines]


@pytest.mark.parametrize(
    ("settings", "tables"),
    [({"holders": HolderSettings(limit=250)}, None), ({}, ["holders", "tokens"]), ({}, ["maps"])],
)
def test_holders_outside_maps_are_not_left_out(
    make_workspace: MakeWorkspace, settings: dict[str, Any], tables: list[str] | None
) -> None:
    planned = make_plan(make_workspace(**settings), "sample", ["eth"], [MAY], tables=tables)
    assert _advice(planned, "leave out holders") is None


def test_an_address_set_beyond_one_request_is_listed(make_workspace: MakeWorkspace) -> None:
    members = AddressSet(addresses=[f"0x{number:040x}" for number in range(1, 1_502)])
    workspace = make_workspace(address_sets={"crowd": members})
    planned = make_plan(workspace, "sample", ["eth"], [MAY], tables=["subgraph_transfers"])
    advice = _advice(planned, "cut address_sets.crowd")
    assert advice is not None
    assert planned.credits - advice.saves == 1_010_00


def test_a_finished_plan_gives_no_advice(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace(holders=HolderSettings(limit=250))
    fill(workspace, HOLDERS, "eth", MAY)
    planned = make_plan(workspace, "sample", ["eth"], [MAY], tables=["holders"])
    assert planned.is_finished
    assert (planned.advice, planned.cheapest) == ([], None)
    assert sentences(planned, "holderlake backfill")[-1] == "Next: holderlake tables"


@pytest.mark.long
def test_a_large_finished_grid_is_finished(make_workspace: MakeWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda handle: None)  # only the time that writing takes
    tokens = [f"0x{number:040x}" for number in (1, 2, 3)]
    instants = [datetime(2025, 1, 1) + timedelta(days=number) for number in range(60)]
    chains = ["eth", "base"]
    workspace = make_workspace(watchlist=dict.fromkeys(chains, tokens), addresses=AddressSettings(top=2))
    for chain in chains:
        for when in instants:
            _write(workspace, chain, when, tokens)
    assert make_plan(workspace, "sample", chains, instants).is_finished


def test_the_command_prints_the_plan_and_the_next_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = _command(tmp_path, monkeypatch)
    listed = tmp_path / "when.txt"
    listed.write_text("2026-05-01  # May\n1780272000\n")
    printed = run("plan", "--instants", str(listed), "--table", "maps", "--table", "holders")
    assert "Plan: 1 chain, 2 instants" in printed
    assert "holders" in printed
    assert "subgraphs" not in printed
    assert printed.strip().splitlines()[-1].endswith("--table maps --table holders")
    again = run("plan", "--from", "2026-05-01", "--to", "2026-05-02", "--every", "12h", "--chain", "eth")
    expected = "Next: holderlake backfill --from 2026-05-01 --to 2026-05-02 --every 12h --chain eth"
    assert again.strip().splitlines()[-1] == expected


def test_the_command_prints_the_plan_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = _command(tmp_path, monkeypatch, "[budget]\nper_month = 200\n")
    printed = json.loads(run("plan", "--instants", "-", "--json", stdin="2026-05-01\n2026-06-01\n"))
    assert printed["instants"] == ["2026-05-01T00:00:00Z", "2026-06-01T00:00:00Z"]
    assert printed["credits_hundredths"] == sum(line["credits"] for line in printed["endpoints"])
    assert printed["bytes"] == sum(line["bytes"] for line in printed["endpoints"])
    assert sum(month["credits_hundredths"] for month in printed["months"]) == printed["credits_hundredths"]
    assert printed["finished_on"] == printed["months"][-1]["from"]
    assert {one["what"] for one in printed["advice"]}
    assert printed["next"] == "holderlake backfill --instants -"


def test_a_value_that_is_given_twice_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = _command(tmp_path, monkeypatch)
    once = ("--chain", "eth", "--token", "0x" + "1" * 40, "--table", "maps")
    plan = ("plan", "--from", "2026-05-01", "--to", "2026-05-02", "--json")
    assert run(*plan, *once, *once) == run(*plan, *once)
    config = BackfillConfig(chains=["eth", "base", "eth"], tokens=["0x1", "0x1"], instants=["2026-05-01"] * 2)
    assert (config.chains, config.tokens, config.instants) == (["eth", "base"], ["0x1"], ["2026-05-01"])


def test_sums_are_printed_as_credits(make_workspace: MakeWorkspace) -> None:
    planned = make_plan(make_workspace(), "sample", ["eth"], [MAY])
    assert planned.cheapest is not None
    text = f"cost {credits_text(planned.credits - planned.cheapest.saves)} credits"
    assert any(text in sentence for sentence in sentences(planned))


def _by_endpoint(planned: Plan) -> dict[str, Any]:
    return {line.endpoint: line for line in planned.endpoints}


def _advice(planned: Plan, start: str) -> Advice | None:
    return next((one for one in planned.advice if one.text.startswith(start)), None)


def _command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str = "") -> Callable[..., str]:
    """Return a function that runs the command and returns its output."""
    config = tmp_path / "holderlake.toml"
    token = "0x" + "1" * 40
    config.write_text(f'{more}[provider]\nurl = "http://127.0.0.1:9"\n[watchlist]\neth = ["{token}"]\n')
    monkeypatch.setenv("HOLDERLAKE_CONFIG", str(config))
    monkeypatch.setenv("HOLDERLAKE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOLDERLAKE_API_KEY", "a key")

    def run(*arguments: str, stdin: str | None = None) -> str:
        result = CliRunner().invoke(app, arguments, input=stdin, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.stdout

    return run


def _write(workspace: Workspace, chain: str, when: datetime, tokens: list[str]) -> None:
    """Commit all streams of a partition, with rows of holders only."""
    named = [one for members in workspace.settings.address_sets.values() for one in members.addresses]
    rows = [
        {"chain": chain, "as_of": when, "token_address": token, "address": token, "rank": 1, "share": 0.5}
        for token in tokens
    ]
    subjects = {
        "chain": [chain],
        "token": tokens,
        "address_set": list(workspace.settings.address_sets),
        "address": [*named, *tokens],
    }
    for stream in STREAMS:
        tables = {name: build(TABLES[name], rows if name == "holders" else [], when) for name in stream.tables}
        covered = subjects[stream.by]
        workspace.lake.write(
            PartitionUpdate(
                stream.name,
                chain,
                when,
                tables,
                provider="sample",
                by=stream.by,
                requested=covered,
                covered=dict.fromkeys(covered, when),
                options={},
            )
        )
