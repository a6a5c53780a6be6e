"""The lake as Iceberg tables: the same rows, all tables of a publication or none, and repaired by the next one."""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from typer.testing import CliRunner

from holderlake.cli.main import app
from holderlake.core.contract.tables import TABLES
from holderlake.core.lake.lake import Lake, LakeError
from holderlake.scale.iceberg import publish_if_chosen
from tests.helpers.filling import MakeWorkspace
from tests.helpers.lakes import DAYS, failures, write, write_holders, write_maps
from tests.helpers.real import missing

if importlib.util.find_spec("pyiceberg") is None:
    missing("the package pyiceberg is not installed: run 'make extras'")


from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from holderlake.scale.iceberg import tables as iceberg_tables
from holderlake.scale.iceberg.snapshots import NAMESPACE, PUBLICATION
from holderlake.scale.iceberg.tables import IcebergTables

pytestmark = pytest.mark.integration

TOKEN = "0x7"


@pytest.fixture(autouse=True)
def _plans_by_pyiceberg(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name the library that plans scans of Polars, which otherwise warns."""
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


@pytest.fixture
def tables(lake: Lake, tmp_path: Path) -> IcebergTables:
    return IcebergTables(lake, tmp_path / "iceberg")


def last_publication(catalog: Catalog) -> str:
    return str(catalog.load_namespace_properties(NAMESPACE)[PUBLICATION])


def loaded(tables: IcebergTables, name: str) -> Table:
    with closing(tables.open_catalog()) as catalog:
        return catalog.load_table((NAMESPACE, name))


def published(tables: IcebergTables, name: str, publication: str | None = None) -> pa.Table:
    """A table's rows in a publication, by default in the last complete one."""
    with closing(tables.open_catalog()) as catalog:
        table = catalog.load_table((NAMESPACE, name))
        return table.scan(snapshot_id=table.refs()[publication or last_publication(catalog)].snapshot_id).to_arrow()


def scan_iceberg(table: Any, **options: Any) -> Any:
    import polars as pl

    return pl.scan_iceberg(table, **options)


def rows(table: pa.Table) -> list[str]:
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in table.to_pylist())


@pytest.mark.long
def test_every_table_has_the_rows_of_the_lake(lake: Lake, tables: IcebergTables) -> None:
    write_holders(lake, "eth", DAYS[3], {TOKEN: {"0xb": 1}})
    write(lake, "holders", "base", DAYS[4], {}, set(), failures("base", DAYS[4], ("holders", "0x9")))
    assert tables.publish().unreadable == []
    for name in TABLES:
        expected = lake.read(name)
        read = published(tables, name)
        assert read.schema.names == TABLES[name].schema.names
        assert rows(read) == rows(expected)
        polars = scan_iceberg(loaded(tables, name)).collect().to_arrow()
        assert rows(polars.select(expected.column_names)) == rows(expected)


def test_files_are_links_to_those_of_the_lake(lake: Lake, tables: IcebergTables, tmp_path: Path) -> None:
    tables.publish()
    ours = {path.stat().st_ino for path in (tmp_path / "lake").rglob("*.parquet")}
    linked = {path.stat().st_ino for path in (tmp_path / "iceberg").rglob("*.parquet")}
    assert linked
    assert linked <= ours


def files_read(tables: IcebergTables, name: str, condition: str) -> int:
    """The number of data files that a scan with a condition opens."""
    return len(list(loaded(tables, name).scan(row_filter=condition).plan_files()))


def test_a_condition_on_chain_and_instant_reads_its_partition_only(tables: IcebergTables) -> None:
    tables.publish()
    condition = f"chain = 'bsc' and as_of = '{DAYS[1].isoformat()}'"
    assert files_read(tables, "holders", condition) == 1
    assert loaded(tables, "holders").scan(row_filter=condition).to_arrow().num_rows == 2


def test_conditions_on_token_and_address_read_only_files_that_may_have_them(lake: Lake, tables: IcebergTables) -> None:
    write_holders(lake, "eth", DAYS[3], {"0x8": {"0xc": 2, "0xd": 1}})
    tables.publish()
    assert files_read(tables, "holders", "token_address = '0x8'") == 1
    assert files_read(tables, "holders", "token_address = '0x7'") == 6
    assert files_read(tables, "holders", "address = '0xd'") == 1


def test_entries_of_files_have_counts_and_bounds(lake: Lake, tables: IcebergTables) -> None:
    tables.publish()
    table = loaded(tables, "holders")
    scan = table.scan(row_filter=f"chain = 'eth' and as_of = '{DAYS[2].isoformat()}'")
    (file,) = [task.file for task in scan.plan_files()]
    metrics = table.inspect.files().filter(pc.field("file_path") == file.file_path)["readable_metrics"].to_pylist()[0]
    assert metrics["address"]["lower_bound"] == "0x02"
    assert metrics["address"]["upper_bound"] == "0xb"
    assert metrics["address"]["null_value_count"] == 0
    assert metrics["as_of"]["lower_bound"] == metrics["as_of"]["upper_bound"] == DAYS[2]
    assert metrics["rank"]["value_count"] == file.record_count == 2


@pytest.mark.long
def test_publishing_again_changes_nothing(tables: IcebergTables) -> None:
    first = tables.publish()
    second = tables.publish()
    assert second.is_current
    assert second.id == first.id


@pytest.mark.long
def test_a_replaced_partition_is_replaced_in_one_snapshot(lake: Lake, tables: IcebergTables) -> None:
    tables.publish()
    write_holders(lake, "eth", DAYS[0], {TOKEN: {"0xc": 5}})
    publication = tables.publish()
    assert (publication.added["holders"], publication.removed["holders"]) == (1, 1)
    assert rows(published(tables, "holders")) == rows(lake.read("holders"))
    snapshot = loaded(tables, "holders").current_snapshot()
    assert snapshot and snapshot.summary
    assert snapshot.summary[PUBLICATION] == publication.id


def test_all_tables_are_read_as_of_an_earlier_publication(lake: Lake, tables: IcebergTables) -> None:
    first = tables.publish().id
    before = {name: rows(lake.read(name)) for name in TABLES}
    fill(lake, "eth", DAYS[0], 3)
    fill(lake, "base", DAYS[5], 4)
    tables.publish()
    assert {name: rows(published(tables, name, first)) for name in TABLES} == before
    assert {name: rows(published(tables, name)) for name in TABLES} == {name: rows(lake.read(name)) for name in TABLES}


@pytest.mark.long
def test_every_replaced_file_is_found_however_often_threads_switch(
    lake: Lake, tables: IcebergTables, switching_threads: None
) -> None:
    for number in range(15):
        fill(lake, "eth", DAYS[number], number)
        tables.publish()
    for number in range(15):
        fill(lake, "eth", DAYS[number], number + 1)
    assert tables.publish().removed["maps"] == 15


# Old publications


def avro_files(tables: IcebergTables) -> int:
    return len(list(Path(tables.root.removeprefix("file://")).rglob("*.avro")))


def test_cleaning_up_keeps_the_last_publication(lake: Lake, tables: IcebergTables) -> None:
    tables.publish()
    write_holders(lake, "eth", DAYS[0], {TOKEN: {"0xc": 5}})
    tables.publish()
    before = avro_files(tables)
    old_files = tables.clean_up(dry_run=True)
    assert avro_files(tables) == before
    assert tables.clean_up() == old_files > 1
    assert avro_files(tables) < before
    assert rows(published(tables, "holders")) == rows(lake.read("holders"))
    assert len(loaded(tables, "holders").snapshots()) == 1
    assert tables.clean_up() == 0


@pytest.mark.long
def test_publications_to_keep_stay_readable(lake: Lake, tmp_path: Path) -> None:
    tables, states = IcebergTables(lake, tmp_path / "iceberg", keep=2), {}
    for number in range(4):
        write_holders(lake, "eth", DAYS[0], {TOKEN: {"0xc": 5 + number}})
        states[tables.publish().id or ""] = {name: rows(lake.read(name)) for name in TABLES}
    kept = list(states)[-2:]
    assert [tag for tag in loaded(tables, "maps").refs() if tag in states] == kept
    for publication in kept:
        assert {name: rows(published(tables, name, publication)) for name in TABLES} == states[publication]


@pytest.mark.long
def test_tags_of_other_programs_keep_their_snapshots(lake: Lake, tables: IcebergTables) -> None:
    tables.publish()
    before = rows(lake.read("holders"))
    table = loaded(tables, "holders")
    table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "audit").commit()  # type: ignore[union-attr]
    write_holders(lake, "eth", DAYS[0], {TOKEN: {"0xc": 5}})
    tables.publish()
    tables.clean_up()
    assert rows(published(tables, "holders", "audit")) == before


@pytest.mark.long
def test_files_of_a_killed_publication_are_deleted_when_they_are_old(tables: IcebergTables) -> None:
    tables.publish()
    folder = Path(tables.root.removeprefix("file://"))
    new, old = (next(folder.glob("maps-*")) / "metadata" / f"{name}.avro" for name in ("new", "old"))
    for path in (new, old):
        path.write_bytes(b"")
    os.utime(old, (0, 0))
    assert tables.clean_up() == 1
    assert (new.exists(), old.exists()) == (True, False)


@pytest.mark.long
def test_damage_leaves_a_month_of_the_chain_as_it_was_published(lake: Lake, tables: IcebergTables) -> None:
    tables.publish()
    before = rows(published(tables, "holders"))
    write_holders(lake, "eth", DAYS[0], {TOKEN: {"0xc": 5}})
    path = lake.path("holders", "eth", DAYS[0])
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    write_holders(lake, "eth", DAYS[1], {TOKEN: {"0xd": 5}})
    publication = tables.publish()
    assert publication.unreadable == ["holders of eth at 20261101T000000Z"]
    assert rows(published(tables, "holders")) == before


# Small files


@pytest.fixture
def past_months(lake: Lake) -> Lake:
    """A lake with ten instants of October before those of November, and a larger file among them."""
    for day in range(1, 11):
        fill(lake, "eth", datetime(2026, 10, day), day)
    write_holders(lake, "eth", datetime(2026, 10, 20), {TOKEN: {f"0x{number:x}": number for number in range(9000)}})
    return lake


def test_small_files_of_past_months_are_merged(past_months: Lake, tmp_path: Path) -> None:
    tables = IcebergTables(past_months, tmp_path / "iceberg", compact_bytes=100_000)
    publication = tables.publish()
    assert publication.added["maps"] == 1 + 3 + 3  # October, then November of two chains
    assert publication.added["holders"] == 2 + 3 + 3
    for name in TABLES:
        assert rows(published(tables, name)) == rows(past_months.read(name))
        polars = scan_iceberg(loaded(tables, name)).collect().to_arrow()
        assert rows(polars.select(TABLES[name].schema.names)) == rows(past_months.read(name))
    assert files_read(tables, "maps", f"as_of = '{DAYS[0].isoformat()}'") == 2
    assert tables.compare().is_current
    assert tables.publish().is_current


@pytest.mark.long
def test_a_changed_partition_replaces_its_merged_file(past_months: Lake, tmp_path: Path) -> None:
    tables = IcebergTables(past_months, tmp_path / "iceberg", compact_bytes=100_000)
    first = tables.publish().id
    before = rows(past_months.read("maps"))
    fill(past_months, "eth", datetime(2026, 10, 3), 4)
    publication = tables.publish()
    assert (publication.added["maps"], publication.removed["maps"]) == (1, 1)
    assert rows(published(tables, "maps")) == rows(past_months.read("maps"))
    assert rows(published(tables, "maps", first)) == before


@pytest.mark.long
def test_merging_can_begin_and_end_at_any_publication(past_months: Lake, tmp_path: Path) -> None:
    for compact_bytes in (None, 100_000, 50_000, None):
        tables = IcebergTables(past_months, tmp_path / "iceberg", keep=1, compact_bytes=compact_bytes)
        tables.publish()
        assert rows(published(tables, "maps")) == rows(past_months.read("maps"))
    assert not list(Path(tables.root.removeprefix("file://")).rglob("*.parquet"))


@pytest.mark.long
def test_a_part_of_a_merged_file_is_written_again(past_months: Lake, tmp_path: Path) -> None:
    tables = IcebergTables(past_months, tmp_path / "iceberg", compact_bytes=100_000)
    tables.publish()
    for path in Path(tables.root.removeprefix("file://")).rglob("*.parquet"):
        path.write_bytes(path.read_bytes()[:100])
    for address in ("catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm"):
        (tmp_path / "iceberg" / address).unlink(missing_ok=True)
    tables.publish()
    assert rows(published(tables, "maps")) == rows(past_months.read("maps"))


@pytest.mark.long
def test_a_catalogue_in_postgresql_has_the_same_rows(lake: Lake, tmp_path: Path, postgres_url: str) -> None:
    address = postgres_url.replace("postgresql://", "postgresql+psycopg://")
    tables = IcebergTables(lake, tmp_path / "iceberg", address)
    tables.publish()
    write_holders(lake, "eth", DAYS[0], {TOKEN: {"0xc": 5}})
    tables.publish()
    assert rows(published(tables, "holders")) == rows(lake.read("holders"))
    assert not (tmp_path / "iceberg" / "catalog.sqlite").exists()


@pytest.mark.long
def test_two_publications_at_once_list_no_file_twice(lake: Lake, tmp_path: Path, postgres_url: str) -> None:
    """The second host reads the tables before the first one commits: its commit fails, and its next one is right."""
    address = postgres_url.replace("postgresql://", "postgresql+psycopg://")
    first, second = (IcebergTables(lake, tmp_path / name, address) for name in ("one", "other"))
    first.publish()
    write_holders(lake, "bsc", DAYS[4], {TOKEN: {"0xc": 5}})

    def publish_meanwhile(name: str) -> None:
        if name == "chains":
            second.publish()

    with pytest.raises(LakeError, match="repeat 'holderlake lake publish'"):
        first.publish(publish_meanwhile)
    second.publish()
    assert rows(published(second, "holders")) == rows(lake.read("holders"))


# Killed in the middle


@pytest.mark.later(long=1)
@pytest.mark.parametrize("table", ["revisions", "tokens", "maps", "clusters"])
def test_a_killed_publication_is_not_seen_and_the_next_completes_it(
    lake: Lake, tables: IcebergTables, table: str
) -> None:
    first = tables.publish()
    before = {name: rows(published(tables, name)) for name in ("holders", "maps", "clusters")}
    fill(lake, "eth", DAYS[0], 3)

    def stop(name: str) -> None:
        if name == table:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tables.publish(stop)
    assert {name: rows(published(tables, name)) for name in before} == before
    assert not tables.compare().is_current or table == "revisions"
    assert tables.publish().id != first.id
    assert {name: rows(published(tables, name)) for name in before} == {name: rows(lake.read(name)) for name in before}


# Readers during replacements


def read_until(folder: Path, engine: str, stop: Any, faults: Any) -> None:
    """Read maps and clusters of the last publication again and again: the score is the number of members."""
    catalog = IcebergTables(Lake(folder), folder).open_catalog()
    while not stop.is_set():
        publication = last_publication(catalog)
        found = {}
        for name in ("maps", "cluster_members"):
            table = catalog.load_table((NAMESPACE, name))
            snapshot_id = table.refs()[publication].snapshot_id
            if engine == "polars":
                frame = scan_iceberg(table, snapshot_id=snapshot_id).collect()
                found[name] = frame.to_arrow().to_pylist()
            else:
                found[name] = table.scan(snapshot_id=snapshot_id).to_arrow().to_pylist()
        members: dict[tuple[str, datetime], int] = {}
        for row in found["cluster_members"]:
            members[row["chain"], row["as_of"]] = members.get((row["chain"], row["as_of"]), 0) + 1
        scores = {(row["chain"], row["as_of"]): int(row["service_score"]) for row in found["maps"]}
        if scores != members:
            faults.put(f"{engine}: {scores} {members}")


def replace_under_readers(lake: Lake, folder: Path, rounds: int, replacements: int, readers: int) -> list[str]:
    tables = IcebergTables(lake, folder)
    tables.publish()
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
        tables.publish()
    stop.set()
    for process in processes:
        process.join(60)
    found = [faults.get() for _ in range(faults.qsize())]
    return found + [f"a reader ended with {process.exitcode}" for process in processes if process.exitcode]


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_eight_readers_of_two_engines_see_all_tables_or_none(lake: Lake, tmp_path: Path) -> None:
    assert replace_under_readers(lake, tmp_path / "iceberg", 10, 100, 8) == []


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
    files = reports[0]["files"]
    assert files > 1
    assert [(report["files"], report["deleted"]) for report in reports] == [(files, False), (files, True), (0, False)]


def test_a_password_in_the_settings_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDERLAKE_LAKE__ICEBERG__CATALOG", "postgresql+psycopg://me:secret@db/iceberg")
    with pytest.raises(Exception, match="PGPASSWORD") as error:
        CliRunner().invoke(app, ["lake", "publish"], catch_exceptions=False)
    assert "secret" not in str(error.value)


def test_a_new_column_is_added_to_the_table(tables: IcebergTables, monkeypatch: pytest.MonkeyPatch) -> None:
    tables.publish()
    holders = TABLES["holders"]
    wider = replace(holders, schema=holders.schema.append(pa.field("mood", pa.string())))
    monkeypatch.setattr(iceberg_tables, "TABLES", {**TABLES, "holders": wider})
    table = tables.open_table(tables.open_catalog(), "holders")
    assert set(table.scan().to_arrow()["mood"].to_pylist()) == {None}


@pytest.mark.parametrize("chosen", [False, True])
def test_a_load_publishes_if_the_settings_say_so(make_workspace: MakeWorkspace, chosen: bool) -> None:
    workspace = make_workspace(lake={"iceberg": {"publish": chosen}})
    write_holders(workspace.lake, "eth", DAYS[0], {TOKEN: {"0xc": 5}})
    said: list[str] = []
    publish_if_chosen(workspace, said.append)
    assert said == (["iceberg: 1 file added, 0 removed"] if chosen else [])
    assert (workspace.settings.home / "iceberg").exists() == chosen
