"""The plan: a grid of instants, and what filling it will cost, told before it costs it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from holderlake.backfill.coverage import Survey
from holderlake.backfill.estimates import ASSUMED
from holderlake.backfill.forecast import Purse, forecast
from holderlake.backfill.instants import chosen_instants, grid, listed_instants, past_instants
from holderlake.backfill.plan import Plan, make_plan, streams_of
from holderlake.backfill.report import sentences
from holderlake.backfill.suggestions import Advice
from holderlake.contract.prices import credits_text
from holderlake.contract.tables import TABLES, build
from holderlake.ingest.stream import missing, partition_of
from holderlake.ingest.streams.all import STREAMS
from holderlake.lake.lake import LakeError
from holderlake.settings import Settings
from holderlake.settings.sections.requests import AddressSet, AddressSettings, HolderSettings, MapSettings
from holderlake.settings.sections.schedule import Budget
from holderlake.workspace import Workspace
from pipelines.cli.main import app
from tests.filling import MakeWorkspace, fill

MAY = datetime(2026, 5, 1)
JUNE = datetime(2026, 6, 1)


@pytest.mark.parametrize(
    ("every", "count", "last"),
    [
        ("1h", 25, datetime(2026, 5, 2)),
        ("6h", 5, datetime(2026, 5, 2)),
        ("1d", 2, datetime(2026, 5, 2)),
        ("1w", 1, datetime(2026, 5, 1)),
    ],
)
def test_a_grid_holds_both_ends_where_the_step_meets_them(every: str, count: int, last: datetime) -> None:
    instants = grid(MAY, datetime(2026, 5, 2), every)
    assert (len(instants), instants[0], instants[-1]) == (count, MAY, last)


def test_months_keep_the_day_or_take_the_months_last() -> None:
    found = grid(datetime(2024, 1, 31), datetime(2024, 5, 31), "1mo")
    assert [(when.month, when.day) for when in found] == [(1, 31), (2, 29), (3, 31), (4, 30), (5, 31)]


@pytest.mark.parametrize("every", ["", "1", "d", "0d", "1y", "-1d", "1.5d"])
def test_a_step_that_is_none_is_refused_with_the_forms_that_are(every: str) -> None:
    with pytest.raises(ValueError, match="1h, 6h, 1d, 1w, 1mo"):
        grid(MAY, JUNE, every)


def test_a_grid_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(ValueError, match="before the start"):
        grid(JUNE, MAY, "1d")


def test_an_instant_in_the_future_is_refused() -> None:
    with pytest.raises(ValueError, match="future"):
        past_instants(["2026-01-01", "2999-01-01"])


def test_a_list_of_instants_is_read_with_its_comments_and_in_order() -> None:
    lines = ["# launches", "2026-06-01  # the second", "", "1777593600", "2026-06-01T00:00:00Z"]
    assert listed_instants(lines) == [MAY, JUNE]


def test_bad_lines_of_a_list_of_instants_are_named_with_their_numbers() -> None:
    with pytest.raises(ValueError, match=r"line 2: 'soon' is not a time.*line 4: 2999-01-01T00:00:00Z lies in the fut"):
        listed_instants(["2026-01-01", "soon", "# 3", "2999-01-01"])


def test_of_many_bad_lines_only_the_first_are_shown() -> None:
    with pytest.raises(ValueError, match=r"line 5: .*and 7 more bad lines"):
        listed_instants(["x"] * 12)


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        (("2026-05-01", None, None, ["2026-05-01"]), "leave out --from"),
        ((None, None, "1d", ["2026-05-01"]), "leave out --from"),
        ((None, "2026-05-01", None, None), "give --from"),
        ((None, None, None, ["# nothing"]), "is empty"),
        (("2026-05-01", "2999-05-01", "1w", None), "future"),
    ],
)
def test_instants_that_are_not_clear_are_refused(chosen: tuple[Any, ...], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        chosen_instants(*chosen)


def test_a_grid_without_a_step_has_an_instant_a_day() -> None:
    assert len(chosen_instants("2026-05-01", "2026-06-01", None, None)) == 32


def test_the_plan_is_what_filling_then_costs(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    chains = ["eth", "base"]
    fill(workspace, STREAMS[2], "eth", MAY)  # holders of May are there already
    before = workspace.ledger.totals().spent
    for chain in chains:  # so that the addresses to ask about are known
        fill(workspace, STREAMS[2], chain, MAY, JUNE)
    planned = make_plan(workspace, "sample", chains, [MAY, JUNE])
    spent = workspace.ledger.totals().spent
    calls = 0
    for chain in chains:
        for stream in STREAMS:
            calls += sum(one.calls for one in fill(workspace, stream, chain, MAY, JUNE))
    assert before < spent
    assert workspace.ledger.totals().spent - spent == planned.credits - _refused(workspace, chains) * 100_00
    assert calls == planned.calls


def _refused(workspace: object, chains: list[str]) -> int:
    """Maps that were planned and then refused, which costs nothing."""
    lake = workspace.lake  # type: ignore[attr-defined]
    rows = [row for chain in chains for when in (MAY, JUNE) for row in lake.read("failures", chain, when).to_pylist()]
    return sum(row["endpoint"] == "map" for row in rows)


def test_days_before_the_first_block_of_a_chain_are_left_out(make_workspace: MakeWorkspace) -> None:
    tokens = make_workspace().settings.watchlist["solana"][:1]
    workspace = make_workspace(watchlist={"solana": tokens})
    first, before = datetime(2020, 3, 16), datetime(2020, 3, 15)
    plan = make_plan(workspace, workspace.provider_id, ["solana"], [before, first])
    assert {line.partitions for line in plan.lines} == {1}
    with pytest.raises(ValueError, match="before the first block of solana"):
        make_plan(workspace, workspace.provider_id, ["solana"], [before])


def test_a_finished_grid_costs_nothing(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    for stream in STREAMS:
        fill(workspace, stream, "solana", MAY)
    planned = make_plan(workspace, "sample", ["solana"], [MAY])
    assert (planned.calls, planned.credits) == (0, 0)
    assert all(line.whole == line.partitions for line in planned.lines)


def test_answers_in_the_archive_cost_nothing(make_workspace: MakeWorkspace, tmp_path: Path) -> None:
    workspace = make_workspace()
    fill(workspace, STREAMS[3], "eth", MAY)
    _remove(tmp_path / "lake")
    planned = make_plan(workspace, "sample", ["eth"], [MAY])
    maps = next(line for line in planned.lines if line.family == "maps")
    assert (maps.calls, maps.credits) == (0, 0)
    assert maps.archived > 0


def test_before_holders_are_known_the_plan_names_the_most_that_addresses_can_cost(
    make_workspace: MakeWorkspace,
) -> None:
    workspace = make_workspace()
    planned = make_plan(workspace, "sample", ["eth"], [MAY])
    for stream in STREAMS:
        fill(workspace, stream, "eth", MAY)
    assert workspace.ledger.totals().spent <= planned.credits


def test_the_survey_finds_the_gaps_that_filling_finds(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    for stream in STREAMS:
        fill(workspace, stream, "eth", MAY)
    fill(workspace, STREAMS[2], "eth", JUNE)
    fill(workspace, STREAMS[3], "eth", JUNE, only=workspace.settings.watchlist["eth"][:1])
    workspace.lake.path("maps", "eth", MAY).write_bytes(b"cut")
    survey = Survey(workspace.lake, [MAY, JUNE])
    found = {(gap.stream.name, gap.partition.as_of): gap.wanted for gap in survey.gaps(workspace, STREAMS, "eth")}
    expected = {
        (stream.name, when): tuple(missing(workspace, stream, partition_of(workspace, "eth", when)).subjects)
        for stream in STREAMS
        for when in (MAY, JUNE)
    }
    assert found == expected
    assert found["maps", MAY]
    assert not found["holders", JUNE]


def test_holders_that_were_damaged_are_told_of(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    fill(workspace, STREAMS[2], "eth", MAY)
    path = workspace.lake.path("holders", "eth", MAY)
    path.write_bytes(b"?" * path.stat().st_size)
    with pytest.raises(LakeError, match="does not match its manifest"):
        make_plan(workspace, "sample", ["eth"], [MAY])


def test_the_lake_lists_whole_partitions_only(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    fill(workspace, STREAMS[2], "eth", MAY, JUNE)
    fill(workspace, STREAMS[1], "eth", MAY)
    workspace.lake.path("holders", "eth", JUNE).unlink()
    whole = {(one.family, one.as_of) for one in workspace.lake.complete("eth", [MAY, JUNE])}
    assert whole == {("holders", MAY), ("tokens", MAY)}
    assert not list(workspace.lake.complete("eth", [datetime(2026, 5, 2)]))
    assert not list(workspace.lake.complete("base", [MAY]))


def test_only_the_families_of_the_tables_are_planned(make_workspace: MakeWorkspace) -> None:
    planned = make_plan(make_workspace(), "sample", ["eth"], [MAY], tables=["clusters", "map_nodes", "tokens"])
    assert [line.family for line in planned.lines] == ["tokens", "maps"]


def test_addresses_bring_holders_along_only_where_they_ask_about_the_top() -> None:
    def names(settings: Settings) -> list[str]:
        return [stream.name for stream in streams_of(["addresses"], settings)]

    assert names(Settings()) == ["holders", "addresses"]
    assert names(Settings(addresses=AddressSettings(top=0))) == ["addresses"]


@pytest.mark.parametrize(("table", "told"), [("map_node", "did you mean map_nodes"), ("failures", "every table")])
def test_a_table_that_can_not_be_planned_is_refused_with_the_way_out(table: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        streams_of([table], Settings())


def test_one_answer_for_many_pasts_is_one_call(make_workspace: MakeWorkspace) -> None:
    planned = make_plan(make_workspace(), "sample", ["eth", "base"], [MAY, JUNE], tables=["chains"])
    (line,) = planned.lines
    assert (line.calls, line.archived, line.shared, line.credits) == (1, 0, 3, 1)


def test_sizes_are_learnt_from_the_archive_or_assumed(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    fresh = _by_endpoint(make_plan(workspace, "sample", ["eth"], [MAY]))
    assert (fresh["map"].learnt_from, fresh["map"].bytes_by_unit) == (0, ASSUMED["tokens/map"][0])
    answers = sum(one.calls for one in fill(workspace, STREAMS[2], "eth", MAY))
    learnt = _by_endpoint(make_plan(workspace, "sample", ["eth"], [JUNE]))
    real = [len(answer.raw) for answer in workspace.archive]
    assert learnt["holders"].learnt_from == answers == len(real)
    assert learnt["holders"].bytes == pytest.approx(sum(real), abs=1)
    assert learnt["map"].learnt_from == 0
    assert not _by_endpoint(make_plan(workspace, "another", ["eth"], [JUNE]))["holders"].learnt_from


def test_without_a_ceiling_there_are_minutes_and_no_months(make_workspace: MakeWorkspace) -> None:
    planned = make_plan(make_workspace(), "sample", ["eth"], [MAY])
    assert planned.coming is None
    assert "No monthly ceiling is set" in sentences(planned)[1]


def test_a_plan_beyond_the_months_allowance_tells_the_months_and_the_day_of_its_end(
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


def test_what_was_spent_this_month_is_not_there_to_be_spent_again() -> None:
    found = forecast([(10, 100)], _purse(Budget(per_month=5), left=200))
    assert [(month.calls, month.credits) for month in found.months] == [(2, 200), (5, 500), (3, 300)]
    assert [month.start for month in found.months] == [date(2026, 11, 20), date(2026, 12, 5), date(2027, 1, 5)]
    assert found.finished == date(2027, 1, 5)


def test_calls_are_not_split_between_months() -> None:
    found = forecast([(3, 200)], _purse(Budget(per_month=3), left=300))
    assert [month.calls for month in found.months] == [1, 1, 1]


def test_a_ceiling_a_day_moves_the_end_by_days() -> None:
    found = forecast([(10, 100)], _purse(Budget(per_day=3), left=None, left_today=100))
    assert found.finished == date(2026, 11, 23)
    assert len(found.months) == 1


def test_the_rate_limit_moves_the_end_by_days() -> None:
    found = forecast([(3_000, 1)], _purse(Budget(per_month=100), left=10_000, rate=1))
    assert found.finished == date(2026, 11, 22)


def test_a_call_dearer_than_a_ceiling_is_never_made() -> None:
    found = forecast([(1, 100), (1, 15_000)], _purse(Budget(per_month=100), left=10_000))
    assert found.finished is None
    assert "one call costs 150.00 credits, and budget.per_month is 100.00" in str(found.never)


def test_what_the_provider_allows_next_month_is_not_guessed() -> None:
    found = forecast([(5, 100)], _purse(Budget(), left=250))
    assert (found.finished, found.months[0].calls) == (None, 2)
    assert "budget.per_month" in str(found.never)


def test_surcharges_of_settings_are_told_with_what_they_would_save(make_workspace: MakeWorkspace) -> None:
    dear = {"maps": MapSettings(limit=500), "holders": HolderSettings(limit=250, with_metadata=True)}
    planned = make_plan(make_workspace(**dear), "sample", ["eth"], [MAY])
    tokens = len(make_workspace().settings.watchlist["eth"])
    saves = {one.what: one.saves for one in planned.advice}
    assert saves["set maps.limit = 80"] == tokens * 100_00
    assert saves["set holders.limit = 80"] == tokens * 10_00
    assert saves["set holders.with_metadata = false"] == tokens * 25_00


def test_the_cheapest_settings_cost_what_the_plan_says(make_workspace: MakeWorkspace) -> None:
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


def test_holders_that_maps_tell_of_can_be_left_out(make_workspace: MakeWorkspace) -> None:
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
def test_holders_that_no_map_tells_of_are_not_advised_against(
    make_workspace: MakeWorkspace, settings: dict[str, Any], tables: list[str] | None
) -> None:
    planned = make_plan(make_workspace(**settings), "sample", ["eth"], [MAY], tables=tables)
    assert _advice(planned, "leave out holders") is None


def test_a_set_beyond_one_request_is_told_with_its_blocks(make_workspace: MakeWorkspace) -> None:
    members = AddressSet(addresses=[f"0x{number:040x}" for number in range(1, 1_502)])
    workspace = make_workspace(address_sets={"crowd": members})
    planned = make_plan(workspace, "sample", ["eth"], [MAY], tables=["subgraph_transfers"])
    advice = _advice(planned, "cut address_sets.crowd")
    assert advice is not None
    assert planned.credits - advice.saves == 1_010_00


def test_a_finished_plan_gives_no_advice(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace(holders=HolderSettings(limit=250))
    fill(workspace, STREAMS[2], "eth", MAY)
    planned = make_plan(workspace, "sample", ["eth"], [MAY], tables=["holders"])
    assert planned.is_finished
    assert (planned.advice, planned.cheapest) == ([], None)
    assert sentences(planned, "holderlake backfill")[-1] == "Next: holderlake tables"


def test_a_large_finished_grid_is_known_as_finished(
    make_workspace: MakeWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.fsync", lambda handle: None)  # only the time that writing takes
    tokens = [f"0x{number:040x}" for number in (1, 2, 3)]
    instants = [datetime(2025, 1, 1) + timedelta(days=number) for number in range(60)]
    chains = ["eth", "base"]
    workspace = make_workspace(watchlist=dict.fromkeys(chains, tokens), addresses=AddressSettings(top=2))
    for chain in chains:
        for when in instants:
            _write(workspace, chain, when, tokens)
    assert make_plan(workspace, "sample", chains, instants).is_finished


def test_the_command_prints_the_plan_and_what_to_run_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = _command(tmp_path, monkeypatch)
    listed = tmp_path / "when.txt"
    listed.write_text("2026-05-01  # May\n1780272000\n")
    told = run("plan", "--instants", str(listed), "--table", "maps", "--table", "holders")
    assert "Plan: 1 chain, 2 instants" in told
    assert "holders" in told
    assert "subgraphs" not in told
    assert told.strip().splitlines()[-1].endswith("--table maps --table holders")
    again = run("plan", "--from", "2026-05-01", "--to", "2026-05-02", "--every", "12h", "--chain", "eth")
    expected = "Next: holderlake backfill --from 2026-05-01 --to 2026-05-02 --every 12h --chain eth"
    assert again.strip().splitlines()[-1] == expected


def test_the_command_prints_all_of_the_plan_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = _command(tmp_path, monkeypatch, "[budget]\nper_month = 200\n")
    told = json.loads(run("plan", "--instants", "-", "--json", stdin="2026-05-01\n2026-06-01\n"))
    assert told["instants"] == ["2026-05-01T00:00:00Z", "2026-06-01T00:00:00Z"]
    assert told["credits_hundredths"] == sum(line["credits"] for line in told["endpoints"])
    assert told["bytes"] == sum(line["bytes"] for line in told["endpoints"])
    assert sum(month["credits_hundredths"] for month in told["months"]) == told["credits_hundredths"]
    assert told["finished_on"] == told["months"][-1]["from"]
    assert {one["what"] for one in told["advice"]}
    assert told["next"] == "holderlake backfill --instants -"


def test_sums_of_the_plan_are_written_as_credits(make_workspace: MakeWorkspace) -> None:
    planned = make_plan(make_workspace(), "sample", ["eth"], [MAY])
    assert planned.cheapest is not None
    told = f"come to {credits_text(planned.credits - planned.cheapest.saves)} credits"
    assert any(told in sentence for sentence in sentences(planned))


def _by_endpoint(planned: Plan) -> dict[str, Any]:
    return {line.endpoint: line for line in planned.endpoints}


def _advice(planned: Plan, start: str) -> Advice | None:
    return next((one for one in planned.advice if one.what.startswith(start)), None)


def _purse(budget: Budget, left: int | None, left_today: int | None = None, rate: int = 10_000) -> Purse:
    return Purse(budget, left_today, left, date(2026, 11, 20), date(2026, 12, 5), rate)


def _command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str = "") -> Callable[..., str]:
    """Runs the command with settings of its own; gives what it printed."""
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
    """Commits all families of a partition, as if each had been answered; of the rows only holders matter here."""
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
            stream.name, chain, when, tables, provider="sample", by=stream.by, requested=covered, covered=covered
        )


def _remove(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
