"""The same SQL on a Spark cluster of two workers, one of which is killed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.worlds import BEGIN, DAY, make_world
from holderlake.entities.links import ENTITIES, JOINS, LINKS, MARKED, SEARCHES, find_entities, find_on
from tests.cluster.conftest import AT, SMALL, Asking, Tables, checksum, in_order
from tests.processes import PATIENCE, wait_until
from tests.spark import WORKERS, SparkCluster


@pytest.fixture(scope="module")
def spark_session(spark_cluster: SparkCluster) -> Iterator[Any]:
    """A session on the cluster."""
    from holderlake.cluster.spark_engine import session

    with session(spark_cluster.master, SMALL) as opened:
        yield opened


@pytest.fixture(scope="module")
def derived(spark_session: Any, asking: Asking, shared_folder: Path) -> str:
    """The derived tables of Spark."""
    from holderlake.cluster.answers import build
    from holderlake.cluster.spark_engine import SparkEngine

    with SparkEngine(spark_session, str(shared_folder)) as spark:
        return build(spark, asking.raw, str(shared_folder)).location


def test_an_overflow_of_a_sum_is_an_error(spark_session: Any) -> None:
    most = "CAST('" + "9" * 38 + "' AS DECIMAL(38, 0))"
    with pytest.raises(Exception, match=r"ARITHMETIC_OVERFLOW|NUMERIC_VALUE_OUT_OF_RANGE"):
        spark_session.sql(f"SELECT sum(value) FROM (SELECT {most} AS value UNION ALL SELECT {most})").collect()


def test_derived_tables_have_the_same_rows_on_duckdb_and_on_spark(asking: Asking, derived: str, tmp_path: Path) -> None:
    from holderlake.cluster.answers import build
    from holderlake.cluster.duckdb_engine import DuckDbEngine
    from holderlake.cluster.statements import BUILD

    with DuckDbEngine() as duck:
        by_duckdb = build(duck, asking.raw, str(tmp_path)).location
        for name in BUILD:
            duck.read("one", [f"{by_duckdb}/{name}"])
            duck.read("other", [f"{derived}/{name}"])
            ours, theirs = duck.table("one"), duck.table("other")
            assert ours.schema.names == theirs.schema.names
            assert checksum(ours) == checksum(theirs), name


@pytest.mark.parametrize("columns", ["all", "without times"])
def test_entities_are_equal_on_spark(spark_session: Any, shared_folder: Path, tmp_path: Path, columns: str) -> None:
    from holderlake.cluster.spark_engine import SparkEngine

    path, instants = str(tmp_path / "world.parquet"), [BEGIN + 40 * DAY, BEGIN + 400 * DAY]
    world, ours, theirs = make_world(40), tmp_path / "ours", tmp_path / "theirs"
    table = world.table()
    if columns == "without times":
        table, instants = table.drop_columns(["block_time"]), []
    pq.write_table(table, path)
    marked = pa.table([world.hot, [True] * len(world.hot)], MARKED)
    found = find_entities([path], marked, ours, instants, confidence=0.0)
    with SparkEngine(spark_session, str(shared_folder)) as spark:
        assert find_on(spark, [path], marked, theirs, instants, confidence=0.0) == found
    assert found.joined > 0
    for name in (LINKS, ENTITIES, JOINS, SEARCHES):
        assert pq.read_table(theirs / name).equals(pq.read_table(ours / name)), name


def test_answers_are_equal_with_a_killed_worker(
    spark_cluster: SparkCluster, spark_session: Any, asking: Asking, embedded: Tables, derived: str, shared_folder: Path
) -> None:
    from holderlake.cluster.answers import BulkRequest, answers
    from holderlake.cluster.spark_engine import SparkEngine

    wait_until(lambda: spark_cluster.alive() == WORKERS)
    killer = threading.Thread(target=_kill_in_the_middle, args=(spark_cluster, spark_session), daemon=True)
    killer.start()
    found: dict[str, list[pa.Table]] = {}
    asked = BulkRequest(asking.tokens, asking.instants, asking.maps, asking.holders, details=True)
    with SparkEngine(spark_session, str(shared_folder)) as spark:
        for partition in answers(spark, asking.store, derived, asked, AT):
            for name, rows in partition.tables.items():
                found.setdefault(name, []).append(rows)
    killer.join(PATIENCE)
    assert spark_cluster.workers[0].poll() is not None
    assert found.keys() == embedded.keys()
    for name, rows in embedded.items():
        assert in_order(pa.concat_tables(found[name])).equals(rows), name
    assert not list(shared_folder.glob("work-*"))


def _kill_in_the_middle(cluster: SparkCluster, session: Any) -> None:
    """Kill a worker while tasks of a later stage run."""
    tracker = session.sparkContext.statusTracker()
    first = max(tracker.getActiveStageIds(), default=0)
    while max(tracker.getActiveStageIds(), default=0) < first + 8:
        time.sleep(0.01)
    cluster.kill(cluster.workers[0])
