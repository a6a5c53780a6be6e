"""Transfers from nodes through the command and through Dagster: days, ranges, failures, and keys that stay secret."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from dagster import AssetKey, DagsterInstance, RunRequest, build_schedule_context, build_sensor_context

from holderlake.core.contract.times import utc_now
from holderlake.core.settings import Settings
from holderlake.core.workspace import Workspace, make_workspace
from holderlake.engine.catalog.indexed_tokens import indexed_tokens
from holderlake.engine.store.store import Store
from holderlake.operations.healing.expected import record_transfers_tick
from holderlake.pipelines.definitions import build_defs
from tests.helpers.chain.anvil import Anvil, call
from tests.helpers.chain.scripted import FIRST_TIME, TOKEN, Fault, MadeUpChain, ScriptedNode
from tests.helpers.commands import holderlake
from tests.helpers.processes import Ended

pytestmark = pytest.mark.integration

FIRST_DAY = "2023-11-14"
"""The day of the made-up chain's first block; a day has 7,200 blocks."""
Serve = Callable[..., ScriptedNode]


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as running:
        yield lambda *arguments, **more: running.enter_context(ScriptedNode(*arguments, **more))


@pytest.fixture
def instance(instance: DagsterInstance) -> DagsterInstance:
    """Dagster's history, which knows of the chain."""
    instance.add_dynamic_partitions("chain", ["test"])
    return instance


def workspace_of(home: Path, *urls: str, token: str = TOKEN, **more: Any) -> Workspace:
    node = {"endpoints": list(urls), "tokens": [token], "confirmations": 0, "attempts": 1} | more
    return make_workspace(Settings(home=home, sources={"rpc": {"test": node}}))


def materialise(workspace: Workspace, instance: DagsterInstance, first: str, last: str) -> Any:
    job = build_defs(workspace).resolve_job_def("transfers")
    tags = {"dagster/asset_partition_range_start": f"test|{first}", "dagster/asset_partition_range_end": f"test|{last}"}
    return job.execute_in_process(instance=instance, tags=tags, raise_on_error=False)


def times(home: Path) -> list[int]:
    with Store(home / "engine") as store:
        sql = "SELECT block_time FROM read_parquet($files) ORDER BY block_time"
        return [int(time) for time in store.query(sql)["block_time"].to_pylist()]


def metadata(instance: DagsterInstance) -> dict[str, Any]:
    event = instance.get_latest_materialization_event(AssetKey("transfers"))
    assert event is not None
    assert event.asset_materialization is not None
    return {name: value.value for name, value in event.asset_materialization.metadata.items()}


def test_a_day_of_a_real_chain_is_one_partition(anvil: Anvil, tmp_path: Path, instance: DagsterInstance) -> None:
    coin = anvil.deploy("Coin")
    noons = [int(datetime.fromisoformat(f"2024-01-0{day}T12:00:00+00:00").timestamp()) for day in (1, 2, 3)]
    anvil.mine_many([(at, [call("Coin", coin, "mint", "0x" + "a1" * 20, 5)]) for at in noons])
    workspace = workspace_of(tmp_path, anvil.url, token=coin)
    assert materialise(workspace, instance, "2024-01-02", "2024-01-02").success
    assert times(tmp_path) == noons[1:2]
    assert metadata(instance) | {"requests": 0, "seconds": 0.0} == {
        "dagster/row_count": 1,
        "blocks": 1,
        "logs": 1,
        "rows taken back": 0,
        "requests": 0,
        "seconds": 0.0,
        "first block": 3,
        "last block": 3,
        "whole day": True,
    }


@pytest.mark.long
def test_a_range_of_days_is_one_run_and_what_it_read_is_not_read_again(
    tmp_path: Path, instance: DagsterInstance, serve: Serve
) -> None:
    node = serve(MadeUpChain(12_000).answer)
    workspace = workspace_of(tmp_path, node.url)
    assert materialise(workspace, instance, FIRST_DAY, "2023-11-16").success
    assert len(times(tmp_path)) == 12_000
    marked = {f"test|2023-11-{day}" for day in (14, 15, 16)}
    assert instance.get_materialized_partitions(AssetKey("transfers")) == marked
    events = [one.asset_materialization for one in instance.fetch_materializations(AssetKey("transfers"), 9).records]
    is_whole = {event.partition: event.metadata["whole day"].value for event in events if event}
    assert is_whole == {day: day != "test|2023-11-16" for day in marked}  # the last one has not ended
    node.asked.clear()
    assert materialise(workspace, instance, FIRST_DAY, "2023-11-16").success
    assert node.ranges() == []


@pytest.mark.long
def test_a_node_of_another_chain_fails_the_run(tmp_path: Path, instance: DagsterInstance, serve: Serve) -> None:
    assert materialise(
        workspace_of(tmp_path, serve(MadeUpChain(10).answer).url), instance, FIRST_DAY, FIRST_DAY
    ).success
    other = workspace_of(tmp_path, serve(MadeUpChain(10, chain_id=56).answer).url)
    assert not materialise(other, instance, FIRST_DAY, FIRST_DAY).success
    assert len(instance.get_runs()) == 2
    assert len(times(tmp_path)) == 10


@pytest.mark.long
def test_a_key_in_an_endpoints_address_is_in_no_event_of_dagster(
    tmp_path: Path, instance: DagsterInstance, serve: Serve
) -> None:
    chain = MadeUpChain(10)
    node = serve(chain.answer, path="/v2/very-secret-key")
    workspace = workspace_of(tmp_path, node.url)
    assert materialise(workspace, instance, FIRST_DAY, FIRST_DAY).success

    def repeating(method: str, params: list[Any]) -> Any:
        if method == "eth_getLogs":
            raise Fault(-32000, f"forbidden: {node.url}")
        return chain.answer(method, params)

    node.answer, chain.head = repeating, 20
    assert not materialise(workspace, instance, FIRST_DAY, FIRST_DAY).success
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if b"very-secret-key" in path.read_bytes()]


def test_transfers_are_defined_only_where_nodes_are_named(tmp_path: Path) -> None:
    without = build_defs(make_workspace(Settings(home=tmp_path)))
    assert AssetKey("transfers") not in without.resolve_asset_graph().get_all_asset_keys()
    defs = build_defs(workspace_of(tmp_path, "http://127.0.0.1:1"))
    node = defs.resolve_asset_graph().get(AssetKey("transfers"))
    assert node.description
    assert node.owners
    assert node.kinds
    ingest = defs.resolve_job_def("ingest")
    assert AssetKey("transfers") not in ingest.asset_layer.executable_asset_keys


@pytest.mark.parametrize(
    ("start", "days"), [(None, ["2026-05-01"]), ("2026-05-01", ["2026-05-01"]), ("2026-05-02", [])]
)
def test_the_schedule_asks_for_the_day_that_has_ended(
    start: str | None, days: list[str], tmp_path: Path, instance: DagsterInstance
) -> None:
    node = {"endpoints": ["http://127.0.0.1:1"], "tokens": [TOKEN]}
    workspace = make_workspace(Settings(home=tmp_path, sources={"rpc": {"test": node}}, schedule={"start": start}))
    defs = build_defs(workspace)
    schedule = defs.resolve_schedule_def("daily_transfers")
    with build_schedule_context(
        instance,
        repository_def=defs.get_repository_def(),
        scheduled_execution_time=datetime(2026, 5, 2, 0, 5),
        resources={"workspace": workspace},
    ) as context:
        requests = schedule.evaluate_tick(context).run_requests or []
    partitions = [request.partition_key for request in requests if isinstance(request, RunRequest)]
    assert partitions == [f"test|{day}" for day in days]


def heal(workspace: Workspace, instance: DagsterInstance) -> list[str | None]:
    """Execute the runs that the sensor requests. Return their partitions, or the reason why there is none."""
    defs = build_defs(workspace)
    with build_sensor_context(instance, resources={"workspace": workspace}) as context:
        found = list(defs.resolve_sensor_def("healing_transfers")(context))
    for one in found:
        if isinstance(one, RunRequest):
            defs.resolve_job_def("transfers").execute_in_process(
                instance=instance, partition_key=one.partition_key, tags=dict(one.tags), raise_on_error=False
            )
    return [one.partition_key if isinstance(one, RunRequest) else one.skip_message for one in found]


@pytest.mark.long
def test_days_of_transfers_that_failed_were_missed_or_are_not_whole_are_imported_later(
    tmp_path: Path, instance: DagsterInstance, serve: Serve
) -> None:
    chain = MadeUpChain(9_000)  # until 2023-11-16 04:13
    url = serve(chain.answer).url
    wrong, up = workspace_of(tmp_path, url, tokens=[]), workspace_of(tmp_path, url)
    assert heal(up, instance) == ["0 days wait for another attempt, 0 given up"]
    for day in (15, 17):  # the tick of the 16th was missed
        record_transfers_tick(up, datetime(2023, 11, day - 1, 0, 5), datetime(2023, 11, day, 0, 5))
    assert heal(wrong, instance) == ["test|2023-11-14"]  # fails without a token
    now = utc_now()
    waits = []
    for minutes in (0, 31, 32, 33, 95):
        up.now = lambda minutes=minutes: now + timedelta(minutes=minutes)
        if minutes == 95:
            chain.head = 30_000
        waits.append(heal(up, instance))
    assert waits == [
        ["3 days wait for another attempt, 0 given up"],
        ["test|2023-11-14"],
        ["test|2023-11-15"],
        ["test|2023-11-16"],  # it has not ended for the node
        ["test|2023-11-16"],
    ]
    assert heal(up, instance) == ["0 days wait for another attempt, 0 given up"]
    assert len(times(tmp_path)) == 14_933


def run(home: Path, *arguments: str, **settings: str) -> Ended:
    own = {name: value for name, value in os.environ.items() if not name.startswith("HOLDERLAKE_")}
    return holderlake(*arguments, env=own | {"HOLDERLAKE_HOME": str(home)} | settings)


def test_the_command_names_the_chain_by_its_id_and_reports_for_machines(tmp_path: Path, serve: Serve) -> None:
    node = serve(MadeUpChain(50, chain_id=56).answer)
    ended = run(tmp_path, "import", "node", node.url, "--token", TOKEN, "--json")
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert (report["chain"], report["last_block"], report["added"]) == ("bsc", 38, 38)


@pytest.mark.parametrize(("asked", "marked"), [(["--token", TOKEN], [TOKEN]), (["--all-tokens"], [])])
def test_only_tokens_that_are_named_are_indexed(
    asked: list[str], marked: list[str], tmp_path: Path, serve: Serve
) -> None:
    assert run(tmp_path, "import", "node", serve(MadeUpChain(50).answer).url, *asked).returncode == 0
    with Store(tmp_path / "engine") as store:
        assert [token.address for token in store.read(indexed_tokens)] == marked


def test_the_command_takes_addresses_from_the_environment_and_shows_none(tmp_path: Path, serve: Serve) -> None:
    node = serve(MadeUpChain(50).answer, path="/very-secret-key")
    variables = {"HOLDERLAKE_SOURCES__RPC__ETH__ENDPOINTS": f"http://127.0.0.1:1/very-secret-key {node.url}"}
    ended = run(tmp_path, "import", "node", "--chain", "eth", "--token", TOKEN, **variables)
    assert ended.returncode == 0, ended.stderr
    assert "very-secret-key" not in ended.stdout + ended.stderr
    assert "38" in ended.stdout
    assert times(tmp_path) == [FIRST_TIME + 12 * block for block in range(1, 39)]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 1, "neither a node's address nor a chain is set"),
        (["--chain", "eth"], 1, "no node of chain eth is set; write its address, or set"),
        (["http://127.0.0.1:1", "--chain", "eth"], 1, "no token of chain eth is chosen; add --token"),
        (["ftp://x", "--chain", "eth", "--token", TOKEN], 2, "must begin with http"),
    ],
)
def test_the_command_says_what_it_lacks(arguments: list[str], code: int, words: str, tmp_path: Path) -> None:
    ended = run(tmp_path, "import", "node", *arguments, HOLDERLAKE_SOURCES__RPC__ETH__ATTEMPTS="1")
    assert ended.returncode == code
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_doctor_looks_at_nodes(tmp_path: Path, serve: Serve) -> None:
    node = serve(MadeUpChain(1234).answer)
    chains = {f"HOLDERLAKE_SOURCES__RPC__{chain}__ENDPOINTS": node.url for chain in ("ETH", "BSC")}
    printed = run(tmp_path, "doctor", **chains).stdout
    assert "newest block 1,234" in printed
    assert "has chain id 1, not 56" in printed
