"""The lake as Iceberg tables: the same rows, all tables of a publication or none, and repaired by the next one."""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from holderlake.cli.main import app
from holderlake.contract.tables import TABLES
from holderlake.dagster.warehouse import publish_if_chosen
from holderlake.lake.lake import Lake
from tests.filling import MakeWorkspace
from tests.lakes import DAYS, failures, write, write_holders, write_maps
from tests.real import missing

if importlib.util.find_spec("pyiceberg") is None:
    missing("the package pyiceberg is not installed: run 'make extras'")


from holderlake import iceberg
from holderlake.iceberg import COMMIT, NAMESPACE, clean_up, compare, open_catalog, publish, snapshots_of

TOKEN = "0x7"


@pytest.fixture(autouse=True)
def _plans_by_pyiceberg(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polars warns unless it is told which library plans a scan."""
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Three instants of two chains."""
    made = Lake(tmp_path / "lake")
    for place, day in enumerate(DAYS[:3]):
        fill(made, "eth", day, place)
        fill(made, "bsc", day, 10 + place)
    return made


@pytest.fixture
def switching_threads() -> Iterator[None]:
    """Make Python switch between threads every microsecond."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def fill(lake: Lake, chain: str, day: datetime, number: int) -> None:
    """Commit holders, and a map with clusters whose score is the number of members."""
    write_holders(lake, chain, day, {TOKEN: {f"0x{number:02}": 100 + number, "0xb": 1}})
    write_maps(lake, chain, day, {TOKEN: [[f"0x{member:02}" for member in range(2 + number % 5)]]}, 2.0 + number % 5)


def published(folder: Path, name: str) -> pa.Table:
    """A table's rows in the last complete publication."""
    catalog = open_catalog(folder, None)
    return catalog.load_table((NAMESPACE, name)).scan(snapshot_id=snapshots_of(catalog)[name]).to_arrow()


def scan_iceberg(table: Any, **options: Any) -> Any:
    import polars as pl

    return pl.scan_iceberg(table, **options)


def rows(table: pa.Table) -> list[str]:
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in table.to_pylist())


def test_every_table_has_the_rows_of_the_lake(lake: Lake, tmp_path: Path) -> None:
    write_holders(lake, "eth", DAYS[3], {TOKEN: {"0xb": 1}})
    write(lake, "holders", "base", DAYS[4], {}, set(), failures("base", DAYS[4], ("holders", "0x9")))
    found = publish(lake, tmp_path / "iceberg", None)
    assert found.unreadable == []
    catalog = open_catalog(tmp_path / "iceberg", None)
    for name, snapshot in snapshots_of(catalog).items():
        expected = lake.read(name)
        if snapshot is None:
            assert expected.num_rows == 0
            continue
        read = published(tmp_path / "iceberg", name)
        assert read.schema.names == TABLES[name].schema.names
        assert rows(read) == rows(expected)
        polars = scan_iceberg(catalog.load_table((NAMESPACE, name))).collect().to_arrow()
        assert rows(polars.select(expected.column_names)) == rows(expected)


def test_files_are_links_to_those_of_the_lake(lake: Lake, tmp_path: Path) -> None:
    publish(lake, tmp_path / "iceberg", None)
    ours = {path.stat().st_ino for path in (tmp_path / "lake").rglob("*.parquet")}
    linked = {path.stat().st_ino for path in (tmp_path / "iceberg").rglob("*.parquet")}
    assert linked
    assert linked <= ours


def test_a_condition_on_chain_and_instant_reads_its_partition_only(lake: Lake, tmp_path: Path) -> None:
    publish(lake, tmp_path / "iceberg", None)
    table = open_catalog(tmp_path / "iceberg", None).load_table((NAMESPACE, "holders"))
    scan = table.scan(row_filter=f"chain = 'bsc' and as_of = '{DAYS[1].isoformat()}'")
    assert len(list(scan.plan_files())) == 1
    assert scan.to_arrow().num_rows == 2


def test_publishing_again_changes_nothing(lake: Lake, tmp_path: Path) -> None:
    first = publish(lake, tmp_path / "iceberg", None)
    second = publish(lake, tmp_path / "iceberg", None)
    assert second.is_current
    assert second.commit == first.commit


def test_a_replaced_partition_is_replaced_in_one_snapshot_and_stays_in_earlier_ones(lake: Lake, tmp_path: Path) -> None:
    folder = tmp_path / "iceberg"
    publish(lake, folder, None)
    before, old = rows(published(folder, "holders")), snapshots_of(open_catalog(folder, None))["holders"]
    write_holders(lake, "eth", DAYS[0], {TOKEN: {"0xc": 5}})
    found = publish(lake, folder, None)
    assert (found.added["holders"], found.removed["holders"]) == (1, 1)
    assert rows(published(folder, "holders")) == rows(lake.read("holders"))
    table = open_catalog(folder, None).load_table((NAMESPACE, "holders"))
    assert rows(table.scan(snapshot_id=old).to_arrow()) == before
    assert table.current_snapshot().summary[COMMIT] == found.commit


def test_every_replaced_file_is_found_however_often_threads_switch(
    lake: Lake, tmp_path: Path, switching_threads: None
) -> None:
    for number in range(15):
        fill(lake, "eth", DAYS[number], number)
        publish(lake, tmp_path / "iceberg", None)
    for number in range(15):
        fill(lake, "eth", DAYS[number], number + 1)
    assert publish(lake, tmp_path / "iceberg", None).removed["maps"] == 15


def test_cleaning_up_keeps_the_last_publication(lake: Lake, tmp_path: Path) -> None:
    folder = tmp_path / "iceberg"
    publish(lake, folder, None)
    write_holders(lake, "eth", DAYS[0], {TOKEN: {"0xc": 5}})
    publish(lake, folder, None)
    assert clean_up(folder, None) == 1
    assert rows(published(folder, "holders")) == rows(lake.read("holders"))
    assert len(open_catalog(folder, None).load_table((NAMESPACE, "holders")).snapshots()) == 1
    assert clean_up(folder, None) == 0


def test_a_damaged_file_leaves_its_partition_as_it_was_published(lake: Lake, tmp_path: Path) -> None:
    folder = tmp_path / "iceberg"
    publish(lake, folder, None)
    before = rows(published(folder, "holders"))
    write_holders(lake, "eth", DAYS[0], {TOKEN: {"0xc": 5}})
    path = lake.path("holders", "eth", DAYS[0])
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    found = publish(lake, folder, None)
    assert len(found.unreadable) == 1
    assert rows(published(folder, "holders")) == before


def test_a_catalogue_in_postgresql_has_the_same_rows(lake: Lake, tmp_path: Path, postgres_url: str) -> None:
    address = postgres_url.replace("postgresql://", "postgresql+psycopg://")
    publish(lake, tmp_path / "iceberg", address)
    write_holders(lake, "eth", DAYS[0], {TOKEN: {"0xc": 5}})
    publish(lake, tmp_path / "iceberg", address)
    with closing(open_catalog(tmp_path / "iceberg", address)) as catalog:
        read = catalog.load_table((NAMESPACE, "holders")).scan(snapshot_id=snapshots_of(catalog)["holders"]).to_arrow()
    assert rows(read) == rows(lake.read("holders"))
    assert not (tmp_path / "iceberg" / "catalog.sqlite").exists()


# Killed in the middle


@pytest.mark.parametrize("table", ["tokens", "maps", "clusters", "revisions"])
def test_a_killed_publication_is_not_seen_and_the_next_completes_it(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    folder = tmp_path / "iceberg"
    first = publish(lake, folder, None)
    before = {name: rows(published(folder, name)) for name in ("holders", "maps", "clusters")}
    fill(lake, "eth", DAYS[0], 3)

    def stop(name: str) -> None:
        if name == table:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        publish(lake, folder, None, stop)
    assert {name: rows(published(folder, name)) for name in before} == before
    assert not compare(lake, folder, None).is_current or table == "revisions"
    assert publish(lake, folder, None).commit != first.commit
    assert {name: rows(published(folder, name)) for name in before} == {name: rows(lake.read(name)) for name in before}


# Readers during replacements


def read_until(folder: Path, engine: str, stop: Any, faults: Any) -> None:
    """Read maps and clusters of the last publication again and again: the score is the number of members."""
    catalog = open_catalog(folder, None)
    while not stop.is_set():
        snapshots = snapshots_of(catalog)
        found = {}
        for name in ("maps", "cluster_members"):
            table = catalog.load_table((NAMESPACE, name))
            if engine == "polars":
                frame = scan_iceberg(table, snapshot_id=snapshots[name]).collect()
                found[name] = frame.to_arrow().to_pylist()
            else:
                found[name] = table.scan(snapshot_id=snapshots[name]).to_arrow().to_pylist()
        members: dict[tuple[str, datetime], int] = {}
        for row in found["cluster_members"]:
            members[row["chain"], row["as_of"]] = members.get((row["chain"], row["as_of"]), 0) + 1
        scores = {(row["chain"], row["as_of"]): int(row["service_score"]) for row in found["maps"]}
        if scores != members:
            faults.put(f"{engine}: {scores} {members}")


def replace_under_readers(lake: Lake, folder: Path, rounds: int, replacements: int, readers: int) -> list[str]:
    publish(lake, folder, None)
    context = multiprocessing.get_context("spawn")
    stop, faults = context.Event(), context.Queue()
    processes = [
        context.Process(target=read_until, args=(folder, ("polars", "pyiceberg")[number % 2], stop, faults))
        for number in range(readers)
    ]
    for process in processes:
        process.start()
    chance = random.Random(1)
    for _ in range(rounds):
        for _ in range(replacements):
            fill(lake, chance.choice(["eth", "bsc"]), chance.choice(DAYS[:20]), chance.randrange(10))
        publish(lake, folder, None)
    stop.set()
    for process in processes:
        process.join(60)
    found = [faults.get() for _ in range(faults.qsize())]
    return found + [f"a reader ended with {process.exitcode}" for process in processes if process.exitcode]


def test_readers_see_all_tables_of_a_publication_or_none(lake: Lake, tmp_path: Path) -> None:
    assert replace_under_readers(lake, tmp_path / "iceberg", 5, 1, 2) == []


def test_eight_readers_of_two_engines_see_all_tables_or_none(lake: Lake, tmp_path: Path) -> None:
    assert replace_under_readers(lake, tmp_path / "iceberg", 10, 100, 8) == []


def publish_forever(root: Path, folder: Path) -> None:
    lake, number = Lake(root), 0
    while True:
        fill(lake, "eth", DAYS[number % 3], number % 10)
        publish(lake, folder, None)
        number += 1


def test_a_process_killed_at_any_moment_leaves_a_publication_that_the_next_repairs(lake: Lake, tmp_path: Path) -> None:
    folder = tmp_path / "iceberg"
    publish(lake, folder, None)
    chance = random.Random(2)
    for _ in range(4):
        process = multiprocessing.get_context("spawn").Process(target=publish_forever, args=(lake.root, folder))
        process.start()
        time.sleep(2 + 2 * chance.random())
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        publish(lake, folder, None)
        for name in ("holders", "maps", "cluster_members"):
            assert rows(published(folder, name)) == rows(lake.read(name))


# The command


@pytest.fixture
def command(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    monkeypatch.setenv("HOLDERLAKE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str]:
        ended = CliRunner().invoke(app, list(arguments))
        return ended.exit_code, ended.stdout

    return run


def test_the_command_publishes_and_the_doctor_compares(
    command: Callable[..., tuple[int, str]], lake: Lake, tmp_path: Path
) -> None:
    code, text = command("lake", "publish", "--json")
    report = json.loads(text)
    assert (code, report["added"]["holders"], report["unreadable"]) == (0, 6, [])

    def finding() -> dict[str, Any]:
        (found,) = [one for one in json.loads(command("doctor", "--json")[1]) if one["what"] == "iceberg"]
        return dict(found)

    assert finding()["fine"]
    write_holders(lake, "eth", DAYS[0], {TOKEN: {"0xc": 5}})
    assert not finding()["fine"]
    assert "lake publish" in finding()["advice"]
    assert command("lake", "publish")[0] == 0
    assert finding()["fine"]
    reports = [json.loads(command("delete", "snapshots", "--json", *more)[1]) for more in ((), ("--yes",), ())]
    assert [(report["links"], report["deleted"]) for report in reports] == [(1, False), (1, True), (0, False)]


def test_a_password_in_the_settings_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDERLAKE_LAKE__ICEBERG__CATALOG", "postgresql+psycopg://me:secret@db/iceberg")
    with pytest.raises(Exception, match="PGPASSWORD") as error:
        CliRunner().invoke(app, ["lake", "publish"], catch_exceptions=False)
    assert "secret" not in str(error.value)


def test_a_new_column_is_added_to_the_table(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(lake, tmp_path / "iceberg", None)
    holders = TABLES["holders"]
    wider = replace(holders, schema=holders.schema.append(pa.field("mood", pa.string())))
    monkeypatch.setattr(iceberg, "TABLES", {**TABLES, "holders": wider})
    table = iceberg.open_table(open_catalog(tmp_path / "iceberg", None), "holders")
    assert set(table.scan().to_arrow()["mood"].to_pylist()) == {None}


@pytest.mark.parametrize("chosen", [False, True])
def test_a_load_publishes_if_the_settings_say_so(make_workspace: MakeWorkspace, chosen: bool) -> None:
    workspace = make_workspace(lake={"iceberg": {"publish": chosen}})
    write_holders(workspace.lake, "eth", DAYS[0], {TOKEN: {"0xc": 5}})
    said: list[str] = []
    publish_if_chosen(workspace, said.append)
    assert said == (["iceberg: 1 file added, 0 removed"] if chosen else [])
    assert workspace.settings.iceberg_folder.exists() == chosen
