"""The lake: commits are atomic even in killed processes, and rows merge by subject."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from holderlake.core.contract.tables import MAP_TABLES, TABLES, build
from holderlake.core.lake.lake import Lake, LakeError, Manifest, PartitionUpdate
from holderlake.core.lake.manifests import DamagedManifest, parsed_manifest
from holderlake.core.lake.rows import empty
from tests.helpers.lakes import DAYS, FETCHED_AT, failures, holders, map_tables, write, write_holders, write_maps
from tests.helpers.processes import run

DAY = DAYS[0]
OLD = {"0xa": [["0x1", "0x2"]], "0xb": [["0x3", "0x4"], ["0x5", "0x6"]]}
NEW = {"0xa": [["0x1", "0x2", "0x9"]], "0xb": [["0x3", "0x4"]]}


def contents(lake: Lake) -> dict[str, list[dict[str, Any]]]:
    return {name: lake.read(name).to_pylist() for name in (*MAP_TABLES, "failures")}


def files(lake: Lake) -> list[str]:
    return sorted(str(path.relative_to(lake.root)) for path in lake.root.rglob("*") if path.is_file())


def addresses(lake: Lake) -> list[tuple[str, str]]:
    return [(row["token_address"], row["address"]) for row in lake.read("holders").to_pylist()]


# Writing and reading


def test_a_partition_has_the_documented_paths(lake: Lake) -> None:
    write_holders(lake, "eth", datetime(2026, 11, 20, 12, 34, 56), {"0xa": {"0x1": 1}})
    assert "holders/chain=eth/timestamp=20261120T123456Z/part-0.parquet" in files(lake)
    assert "_manifests/chain=eth/timestamp=20261120T123456Z/holders.json" in files(lake)


def test_read_returns_what_was_written_in_the_declared_schema(lake: Lake) -> None:
    expected = map_tables("eth", DAY, OLD)
    write_maps(lake, "eth", DAY, OLD)
    for name, table in expected.items():
        assert lake.read(name, "eth", DAY) == table
        assert lake.read(name).schema.equals(TABLES[name].schema, check_metadata=True)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_with_all_possible_nulls_survives_parquet(tmp_path: Path, name: str) -> None:
    table = TABLES[name]
    values = {pa.string(): "x", pa.float64(): 0.5, pa.int64(): 1, pa.bool_(): True, pa.timestamp("us"): DAY}
    row = {field.name: values[field.type] for field in table.schema if not field.nullable}
    rows = build(table, [row], FETCHED_AT).cast(table.schema)
    lake = Lake(tmp_path)
    by = {"chains": "chain", "subgraph_transfers": "address_set", "addresses": "address"}.get(name, "token")
    if name == "failures":
        write(lake, "holders", "x", DAY, {}, set(), rows)
    else:
        family = TABLES[name].family or "maps"
        write(lake, family, "x", DAY, {name: rows}, {"x"}, by=by)
    assert lake.read(name) == rows


def test_files_are_compressed_with_zstd_and_amounts_are_decimals(lake: Lake) -> None:
    write_maps(lake, "eth", DAY, OLD)
    for name in MAP_TABLES:
        with pq.ParquetFile(lake.path(name, "eth", DAY)) as file:
            assert file.metadata.row_group(0).column(0).compression == "ZSTD"
            for field in file.schema_arrow:
                if field.name in ("amount", "total_value"):
                    assert field.type == pa.decimal128(38, 18)


def test_a_table_without_rows_has_a_file_but_a_side_table_has_none(lake: Lake) -> None:
    manifest = write_maps(lake, "eth", DAY, {"0xa": []})
    assert lake.path("clusters", "eth", DAY).exists()
    assert manifest.tables["clusters"].rows == 0
    assert not lake.path("failures", "eth", DAY, "maps").exists()
    assert manifest.failures == 0


def test_the_manifest_describes_the_partition(lake: Lake) -> None:
    written = write_maps(lake, "eth", DAY, OLD)
    manifest = Lake(lake.root).manifest("maps", "eth", DAY)
    assert manifest == written
    assert (manifest.chain, manifest.as_of, manifest.provider, manifest.covered) == (
        "eth",
        DAY,
        "tests",
        {"0xa", "0xb"},
    )
    assert manifest.tables["cluster_members"].rows == 6
    assert manifest.tables["maps"].bytes == lake.path("maps", "eth", DAY).stat().st_size


def test_other_tools_read_the_glob_as_a_hive_partitioned_table(lake: Lake) -> None:
    for chain in ("eth", "base"):
        for day in DAYS[:2]:
            write_holders(lake, chain, day, {"0xa": {"0x1": 1}})
    with duckdb.connect() as connection:
        found = connection.execute(
            "SELECT chain, timestamp, as_of FROM read_parquet(?, hive_partitioning = true) ORDER BY ALL",
            [lake.glob("holders")],
        ).fetchall()
    assert found == [(chain, f"202611{day:02}T000000Z", DAYS[day - 1]) for chain in ("base", "eth") for day in (1, 2)]
    partitioned = ds.dataset(lake.root / "holders", partitioning="hive", exclude_invalid_files=True).to_table()
    assert set(partitioned["timestamp"].to_pylist()) == {"20261101T000000Z", "20261102T000000Z"}


def test_manifests_are_sorted_by_chain_instant_and_family(lake: Lake) -> None:
    for chain in ("eth", "base"):
        for day in (DAYS[1], DAYS[0]):
            write_maps(lake, chain, day, {"0xa": []})
            write_holders(lake, chain, day, {"0xa": {}})
    keys = [(one.chain, one.as_of, one.family) for one in lake.manifests()]
    assert keys == sorted(keys)
    assert len(keys) == 8
    assert [one.family for one in lake.manifests(family="maps", chain="eth", as_of=DAYS[0])] == ["maps"]


def test_read_filters_by_chain_and_instant(lake: Lake) -> None:
    for chain in ("eth", "base"):
        for day in DAYS[:3]:
            write_holders(lake, chain, day, {"0xa": {"0x1": 1}})
    assert lake.read("holders", chain="eth").num_rows == 3
    assert lake.read("holders", as_of=DAYS[1]).num_rows == 2
    assert lake.read("holders", "eth", DAYS[1]).num_rows == 1
    assert lake.read("holders", "tron").num_rows == 0


def test_a_missing_lake_is_empty(lake: Lake) -> None:
    assert list(lake.manifests()) == []
    assert lake.read("holders") == empty("holders")
    assert lake.manifest("holders", "eth", DAY) is None
    assert not lake.root.exists()


# Writing again


def test_writing_the_same_rows_again_changes_no_file(lake: Lake) -> None:
    first = write_maps(lake, "eth", DAY, OLD)
    before = {path: (lake.root / path).stat().st_mtime_ns for path in files(lake)}
    assert write_maps(lake, "eth", DAY, OLD) == first
    after = {path: (lake.root / path).stat().st_mtime_ns for path in files(lake)}
    assert {name: at for name, at in after.items() if not name.endswith(".lock")} == {
        name: at for name, at in before.items() if not name.endswith(".lock")
    }


def test_a_write_replaces_rows_of_its_subjects_only(lake: Lake) -> None:
    write_holders(lake, "eth", DAY, {"0xa": {"0x1": 3, "0x2": 2}, "0xc": {"0x5": 1}})
    manifest = write_holders(lake, "eth", DAY, {"0xb": {"0x7": 1}, "0xa": {"0x2": 4}})
    assert addresses(lake) == [("0xa", "0x2"), ("0xb", "0x7"), ("0xc", "0x5")]
    assert manifest.covered == {"0xa", "0xb", "0xc"}


@pytest.mark.parametrize("each", [2, 300])
def test_rows_are_sorted_by_subject_and_keep_their_order_within_it(lake: Lake, each: int) -> None:
    held = {token: {f"{token}-{place}": each - place for place in range(each)} for token in ("0xb", "0xc", "0xa")}
    rows = holders("eth", DAY, held)
    split = pa.concat_tables([rows.slice(each // 2), rows.slice(0, each // 2)])  # one subject's rows in two places
    write(lake, "holders", "eth", DAY, {"holders": split}, set(held))
    order = [*held["0xa"], *list(held["0xb"])[each // 2 :], *list(held["0xb"])[: each // 2], *held["0xc"]]
    assert lake.read("holders", "eth", DAY)["address"].to_pylist() == order


def test_the_file_does_not_depend_on_the_order_of_the_writes(tmp_path: Path) -> None:
    one, other = Lake(tmp_path / "one"), Lake(tmp_path / "other")
    for token in ("0xa", "0xb"):
        write_holders(one, "eth", DAY, {token: {"0x2": 2, "0x1": 1}})
    for token in ("0xb", "0xa"):
        write_holders(other, "eth", DAY, {token: {"0x2": 2, "0x1": 1}})
    path = one.path("holders", "eth", DAY)
    assert path.read_bytes() == other.path("holders", "eth", DAY).read_bytes()
    assert pq.read_table(path, partitioning=None)["rank"].to_pylist() == [1, 2, 1, 2]


def test_an_answer_without_rows_removes_older_rows_and_counts_as_covered(lake: Lake) -> None:
    write_maps(lake, "eth", DAY, OLD)
    write_maps(lake, "eth", DAY, {"0xb": []})
    assert {row["token_address"] for row in lake.read("clusters").to_pylist()} == {"0xa"}
    nothing = {"subgraph_transfers": empty("subgraph_transfers")}
    manifest = write(lake, "subgraphs", "eth", DAY, nothing, {"friends"}, by="address_set")
    assert manifest.covered == {"friends"}


def test_a_failed_subject_keeps_its_older_rows(lake: Lake) -> None:
    write_holders(lake, "eth", DAY, {"0xa": {"0x1": 1}})
    write(lake, "holders", "eth", DAY, {"holders": empty("holders")}, set(), failures("eth", DAY, ("holders", "0xa")))
    assert addresses(lake) == [("0xa", "0x1")]
    assert lake.read("failures")["subject"].to_pylist() == ["0xa"]


def test_a_failure_is_removed_when_its_subject_succeeds(lake: Lake) -> None:
    failed = failures("eth", DAY, ("holders", "0xb"), ("holders", "0xa"))
    write(lake, "holders", "eth", DAY, {"holders": empty("holders")}, set(), failed)
    assert lake.read("failures")["subject"].to_pylist() == ["0xa", "0xb"]
    manifest = write_holders(lake, "eth", DAY, {"0xa": {"0x1": 1}})
    assert lake.read("failures")["subject"].to_pylist() == ["0xb"]
    assert manifest.failures == 1
    write_holders(lake, "eth", DAY, {"0xb": {"0x1": 1}})
    assert lake.read("failures").num_rows == 0
    assert not lake.path("failures", "eth", DAY, "holders").exists()


def test_a_repeated_failure_is_stored_once(lake: Lake) -> None:
    for _ in range(2):
        failed = failures("eth", DAY, ("holders", "0xa"))
        write(lake, "holders", "eth", DAY, {"holders": empty("holders")}, set(), failed)
    assert lake.read("failures").num_rows == 1


def test_a_final_failure_counts_as_covered(lake: Lake) -> None:
    failed = failures("eth", DAY, ("holders", "0xa"))
    manifest = write(lake, "holders", "eth", DAY, {"holders": empty("holders")}, {"0xa"}, failed)
    assert manifest.covered == {"0xa"}
    assert manifest.failures == 1


def write_history(lake: Lake, clusters: Mapping[str, Any], score: float = 50.0, day: int = 0) -> Manifest:
    """Maps of a past instant, fetched ``day`` days after FETCHED_AT."""
    tables, at = map_tables("eth", DAY, clusters, score), FETCHED_AT + timedelta(days=day)
    return write(lake, "maps", "eth", DAY, tables, set(clusters), final=True, at=at)


def test_changed_history_makes_a_revision_of_each_changed_table(lake: Lake) -> None:
    write_history(lake, {"0xa": [["0x1", "0x2"]], "0xb": []})
    manifest = write_history(lake, {"0xa": [["0x1", "0x3"]], "0xb": []}, day=1)
    revisions = lake.read("revisions")
    assert manifest.revisions == revisions.num_rows
    assert {row["subject"] for row in revisions.to_pylist()} == {"0xa"}
    assert {row["table_name"]: (row["rows_gone"], row["rows_new"]) for row in revisions.to_pylist()} == {
        "map_nodes": (1, 1),
        "grouped_transfers": (1, 1),
        "cluster_members": (1, 1),
    }


def test_a_changed_value_is_a_revision(lake: Lake) -> None:
    write_history(lake, {"0xa": []}, score=50.0)
    write_history(lake, {"0xa": []}, score=51.0, day=1)
    (row,) = lake.read("revisions").to_pylist()
    assert (row["table_name"], row["rows_before"], row["rows_after"], row["rows_new"]) == ("maps", 1, 1, 1)
    assert (row["known_since"], row["fetched_at"]) == (FETCHED_AT, FETCHED_AT + timedelta(days=1))


def test_revisions_are_never_removed(lake: Lake) -> None:
    for day, score in enumerate((50.0, 51.0, 50.0)):
        write_history(lake, {"0xa": []}, score, day)
    assert lake.read("revisions").num_rows == 2
    write_history(lake, {"0xb": []}, day=3)
    assert lake.read("revisions").num_rows == 2


def test_equal_and_first_answers_make_no_revision(lake: Lake) -> None:
    write_history(lake, {"0xa": [["0x1", "0x2"]]})
    write_history(lake, {"0xa": [["0x1", "0x2"]]}, day=1)
    manifest = write_history(lake, {"0xb": []}, day=1)
    assert manifest.revisions == 0
    assert not lake.path("revisions", "eth", DAY, "maps").exists()


def test_each_family_has_its_own_failures(lake: Lake) -> None:
    for family, endpoint in (("holders", "holders"), ("tokens", "tokens_metadata")):
        failed = failures("eth", DAY, (endpoint, "0xa"))
        write(lake, family, "eth", DAY, {family: empty(family)}, set(), failed)
    assert sorted(lake.read("failures", "eth", DAY)["endpoint"].to_pylist()) == ["holders", "tokens_metadata"]


# Refused rows and names


def test_a_lake_belongs_to_its_first_provider(lake: Lake) -> None:
    write_holders(lake, "eth", DAY, {"0xa": {"0x1": 1}})
    with pytest.raises(LakeError, match=r"has data of 'tests'.*'others'.*HOLDERLAKE_HOME"):
        lake.write(
            PartitionUpdate(
                "holders", "eth", DAYS[1], {}, provider="others", by="token", requested=(), covered={}, options={}
            )
        )
    assert lake.provider == "tests"
    assert lake.manifest("holders", "eth", DAYS[1]) is None


def test_a_lake_of_older_sample_data_cannot_be_written(lake: Lake) -> None:
    lake.claim("sample world 0123456789ab")
    with pytest.raises(LakeError, match=r"another version of Holderlake.*HOLDERLAKE_HOME to a new folder.*demo"):
        lake.check_provider("sample world ba9876543210")


@pytest.mark.parametrize("chain", ["", "..", "../eth", "a/b", "a b", "é", "eth\n"])
def test_a_chain_id_that_is_unsafe_in_a_path_is_refused(lake: Lake, chain: str) -> None:
    with pytest.raises(LakeError, match="is not a chain id"):
        lake.write(
            PartitionUpdate(
                "holders", chain, DAY, {}, provider="tests", by="token", requested=(), covered={}, options={}
            )
        )
    assert not lake.root.exists()


@pytest.mark.parametrize("chain", ["eth", "chain-of_tomorrow.2", "146"])
def test_an_unknown_chain_has_its_own_folder(lake: Lake, chain: str) -> None:
    write_holders(lake, chain, DAY, {"0xa": {"0x1": 1}})
    assert lake.read("holders", chain, DAY).num_rows == 1
    assert (lake.root / "holders" / f"chain={chain}").is_dir()


@pytest.mark.parametrize("as_of", [datetime(2026, 1, 1, microsecond=5), datetime(2026, 1, 1, tzinfo=UTC)])
def test_an_instant_with_a_zone_or_a_fraction_is_refused(lake: Lake, as_of: datetime) -> None:
    with pytest.raises(LakeError, match="in whole seconds"):
        lake.write(
            PartitionUpdate(
                "holders", "eth", as_of, {}, provider="tests", by="token", requested=(), covered={}, options={}
            )
        )


def replaced(name: str, column: pa.Array) -> pa.Table:
    rows = holders("eth", DAY, {"0xa": {"0x1": 1}})
    return rows.set_column(rows.schema.get_field_index(name), name, column)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (replaced("amount", pa.array([1.5])), "amount has the inexact type double"),
        (replaced("rank", pa.array([1.0])), "rank has the inexact type double"),
        (replaced("address", pa.array([None], pa.string())), "address may not be null"),
        (replaced("rank", pa.array(["first"])), "do not fit the table"),
        (holders("eth", DAY, {"0xa": {"0x1": 1}}).drop_columns(["fetched_at"]), "fetched_at"),
        (holders("eth", DAY, {"0xa": {"0x1": 1}}).append_column("odd", pa.array([1])), "odd"),
        (holders("base", DAY, {"0xa": {"0x1": 1}}), "their chain is not eth"),
        (holders("eth", DAYS[1], {"0xa": {"0x1": 1}}), "their as_of is not 2026-11-01"),
    ],
)
def test_rows_that_do_not_fit_the_table_or_the_partition_are_refused(lake: Lake, rows: pa.Table, words: str) -> None:
    with pytest.raises(LakeError, match=words):
        write(lake, "holders", "eth", DAY, {"holders": rows}, {"0xa"})
    assert not lake.root.exists()


def test_an_unknown_table_or_family_is_refused_by_name(lake: Lake) -> None:
    with pytest.raises(LakeError, match="there is no table 'holder'; the tables are chains, tokens, holders"):
        lake.read("holder")
    with pytest.raises(LakeError, match="is not a family of tables"):
        lake.manifest("../x", "eth", DAY)


FOREIGN_NAMES: Mapping[str, Mapping[str, Any]] = {
    "a table outside the lake": {"tables": {"../../x": {"rows": 0, "bytes": 0, "sha256": ""}}},
    "a table of another family": {"tables": {"maps": {"rows": 1, "bytes": 1, "sha256": "0" * 64}}},
    "a table without a file": {"tables": {"holders": {"rows": 0, "bytes": 0, "sha256": ""}}},
    "a chain outside the lake": {"chain": "../../x"},
    "another chain": {"chain": "bsc"},
    "another instant": {"timestamp": "20261102T000000Z"},
    "an invalid instant": {"timestamp": "../../x"},
    "another family": {"family": "maps"},
    "a commit outside the lake": {"commit": "/../../x"},
    "an invalid digest": {"tables": {"holders": {"rows": 1, "bytes": 1, "sha256": "x"}}},
}


@pytest.mark.parametrize("names", FOREIGN_NAMES.values(), ids=FOREIGN_NAMES)
def test_a_manifest_with_foreign_names_is_ignored_and_quarantined(lake: Lake, names: Mapping[str, Any]) -> None:
    write_holders(lake, "eth", DAY, {"0xa": {"0x1": 1}})
    (path,) = lake.manifest_paths()
    path.write_bytes(msgspec.json.encode(msgspec.json.decode(path.read_bytes()) | names))
    assert list(lake.manifests()) == []
    before = [name for name in files(lake) if "holders.json" not in name]
    path.rename(path.with_suffix(".next"))  # as an interrupted commit leaves it
    assert lake.manifest("holders", "eth", DAY) is None
    assert [name for name in files(lake) if name in before] == before
    assert [name.rsplit("/")[-1] for name in files(lake) if "_quarantine" in name] == ["holders.next"]


def test_a_table_of_another_family_is_refused(lake: Lake) -> None:
    with pytest.raises(LakeError, match="the family maps has no table holders"):
        write(lake, "maps", "eth", DAY, {"holders": holders("eth", DAY, {"0xa": {"0x1": 1}})}, {"0xa"})


# Damage and kills


@pytest.mark.parametrize("damage", ["cut short", "one bit", "missing"])
def test_a_damaged_partition_is_reported_and_written_again(lake: Lake, damage: str) -> None:
    write_holders(lake, "eth", DAY, {"0xa": {"0x1": 1}, "0xb": {"0x2": 1}})
    path = lake.path("holders", "eth", DAY)
    whole = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(whole[:-9] if damage == "cut short" else whole[:99] + bytes([whole[99] ^ 1]) + whole[100:])
    with pytest.raises(LakeError, match="does not match its manifest; 'holderlake home rebuild --damaged' repairs it"):
        lake.read("holders")
    if damage != "one bit":
        assert lake.manifest("holders", "eth", DAY) is None
    manifest = write_holders(lake, "eth", DAY, {"0xa": {"0x1": 1}})
    assert manifest.covered == {"0xa"}
    assert addresses(lake) == [("0xa", "0x1")]


@pytest.mark.parametrize(("before", "after"), [('"rows":1', '"rows":2'), ('"0xa"', '"0xb"')])
def test_a_changed_manifest_is_damaged(lake: Lake, before: str, after: str) -> None:
    write_holders(lake, "eth", DAY, {"0xa": {"0x1": 1}})
    path = next(lake.manifest_paths())
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    with pytest.raises(DamagedManifest, match="its content does not match its checksum"):
        parsed_manifest(path.read_bytes(), path)
    assert lake.manifest("holders", "eth", DAY) is None


def test_an_unreadable_manifest_is_ignored(lake: Lake) -> None:
    write_holders(lake, "eth", DAY, {"0xa": {"0x1": 1}})
    next(lake.manifest_paths()).write_text('{"family": "hol')
    assert lake.manifest("holders", "eth", DAY) is None
    assert lake.read("holders").num_rows == 0
    write_holders(lake, "eth", DAY, {"0xa": {"0x1": 1}})
    assert addresses(lake) == [("0xa", "0x1")]


class Killed(BaseException):
    """Simulates the end of the process: nothing catches it."""


def kill_at(monkeypatch: pytest.MonkeyPatch, step: str, number: int) -> None:
    """Raise ``Killed`` instead of the numbered call of a step."""
    real, calls = getattr(os, step), iter(range(number + 1_000))

    def fail(*arguments: Any) -> Any:
        if next(calls) == number:
            raise Killed
        return real(*arguments)

    monkeypatch.setattr(os, step, fail)


# A commit of maps replaces five tables and the journal, removes or writes failures, and syncs each file.
STEPS = [("replace", number) for number in range(8)] + [("fsync", number) for number in range(7)]


def killed(monkeypatch: pytest.MonkeyPatch, step: tuple[str, int], write_it: Callable[[], object]) -> bool:
    with monkeypatch.context() as patch:
        kill_at(patch, *step)
        try:
            write_it()
        except Killed:
            return True
    return False


@pytest.mark.later(integration=3, long=5)
@pytest.mark.parametrize("replaces", [False, True])
@pytest.mark.parametrize("step", STEPS, ids=str)
def test_a_killed_write_leaves_the_old_partition_or_the_new_one(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, step: tuple[str, int], replaces: bool
) -> None:
    write_holders(lake, "eth", DAY, {"0xa": {"0x1": 1}})
    if replaces:
        write(lake, "maps", "eth", DAY, map_tables("eth", DAY, OLD), set(OLD), failures("eth", DAY, ("map", "0xc")))
    old = contents(lake)
    killed(monkeypatch, step, lambda: write_maps(lake, "eth", DAY, NEW))
    after = contents(Lake(lake.root))
    manifest = lake.manifest("maps", "eth", DAY)
    assert (manifest.covered if manifest else None) in ([{"0xa", "0xb"}] if replaces else [None, {"0xa", "0xb"}])
    write_maps(lake, "eth", DAY, NEW)
    assert after in (old, contents(lake))
    assert not [path for path in files(lake) if path.endswith((".tmp", ".next"))]


def test_a_commit_has_exactly_these_steps(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in STEPS:
        last = ("replace", 7), ("fsync", 6)
        day = DAYS[STEPS.index(step)]
        write_holders(lake, "eth", day, {"0xa": {"0x1": 1}})
        died = killed(monkeypatch, step, lambda day=day: write_maps(lake, "eth", day, NEW))
        assert died == (step not in last), step


@pytest.mark.integration
def test_a_process_killed_between_two_files_loses_nothing(lake: Lake) -> None:
    write_maps(lake, "eth", DAY, OLD)
    script = f"""
import os, sys
from pathlib import Path
from tests.helpers.lakes import DAYS, write_maps
from holderlake.core.lake.lake import Lake

real, calls = os.replace, iter(range(100))

def dying(*arguments):
    if next(calls) == 3:
        os._exit(9)
    return real(*arguments)

os.replace = dying
write_maps(Lake(Path({str(lake.root)!r})), "eth", DAYS[0], {NEW!r})
"""
    done = run(script)
    assert done.returncode == 9
    assert any(path.endswith(".next") for path in files(lake))
    after = contents(lake)
    write_maps(lake, "eth", DAY, NEW)
    assert after == contents(lake)


# Concurrency


def test_concurrent_writers_of_one_partition_lose_nothing(lake: Lake) -> None:
    tokens = [f"0x{number:02}" for number in range(24)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda token: write_holders(Lake(lake.root), "eth", DAY, {token: {"0x1": 1}}), tokens))
    assert addresses(lake) == [(token, "0x1") for token in tokens]
    assert lake.manifest("holders", "eth", DAY).covered == set(tokens)


@pytest.mark.long
def test_a_concurrent_reader_sees_one_version_or_the_other(lake: Lake) -> None:
    def write_version(amount: int) -> None:
        rows = holders("eth", DAY, {"0xa": {f"0x{address}": amount for address in range(200)}})
        write(lake, "holders", "eth", DAY, {"holders": rows}, {"0xa"}, at=FETCHED_AT + timedelta(seconds=amount))

    def amounts() -> set[Any]:
        return set(Lake(lake.root).read("holders", "eth", DAY)["amount"].to_pylist())

    write_version(0)
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(lambda: [write_version(amount) for amount in range(1, 10)])
        seen = []
        while not writing.done():
            seen.append(amounts())
        writing.result()
    assert seen
    assert all(len(found) == 1 for found in seen)
    assert amounts() == {9}
