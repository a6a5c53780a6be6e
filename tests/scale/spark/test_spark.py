"""A Spark cluster of two workers gives the rows of the embedded engine, also when one of them is killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.worlds import BEGIN, DAY, make_world
from holderlake.analysis.entities.links import ENTITIES, JOINS, LINKS, MARKED, SEARCHES, find_entities, find_on
from holderlake.engine.errors import BadSource
from holderlake.engine.store.store import Store
from holderlake.scale.spark.build import build
from holderlake.scale.spark.tasks import Workers
from tests.helpers.processes import wait_until
from tests.helpers.spark import WORKERS, SparkCluster
from tests.scale.spark.conftest import SMALL, Asking, Tables

pytestmark = pytest.mark.long

MEMORY = 64_000_000
"""A task's memory in bytes."""


@pytest.fixture(scope="module")
def spark_session(spark_cluster: SparkCluster) -> Iterator[Any]:
    """A session on the cluster."""
    from holderlake.scale.spark.spark import session

    with session(spark_cluster.master, SMALL) as opened:
        yield opened


def test_an_overflow_of_a_sum_is_an_error(spark_session: Any) -> None:
    most = "CAST('" + "9" * 38 + "' AS DECIMAL(38, 0))"
    with pytest.raises(Exception, match=r"ARITHMETIC_OVERFLOW|NUMERIC_VALUE_OUT_OF_RANGE"):
        spark_session.sql(f"SELECT sum(value) FROM (SELECT {most} AS value UNION ALL SELECT {most})").collect()


@pytest.mark.parametrize("columns", ["all", "without times"])
def test_entities_are_equal_on_spark(spark_session: Any, shared_folder: Path, tmp_path: Path, columns: str) -> None:
    from holderlake.analysis.entities.spark_engine import SparkEngine

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


def test_an_error_of_a_task_is_raised_without_another_attempt(spark_session: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"sender": ["a"]}), tmp_path / "other.parquet")
    with Store(tmp_path / "store") as store, pytest.raises(BadSource, match="has not the columns"):
        build(Workers(spark_session), store, [str(tmp_path)], MEMORY, lambda step, tasks: None)


def test_build_and_answers_are_equal_with_a_killed_worker(
    spark_cluster: SparkCluster, spark_session: Any, asking: Asking, embedded: Tables, shared_folder: Path
) -> None:
    wait_until(lambda: spark_cluster.alive() == WORKERS)
    workers, steps = Workers(spark_session), []

    def kill_once(step: str, tasks: int) -> None:
        steps.append(step)
        if steps.count("importing tokens") == 3:
            steps.append("importing tokens")
            spark_cluster.kill(spark_cluster.workers[0])

    with asking.empty_copy(shared_folder / "store") as store:
        build(workers, store, asking.store.files(), MEMORY, kill_once)
        assert spark_cluster.workers[0].poll() is not None
        computed = asking.computed(workers, store, shared_folder / "results")
    assert computed.keys() == embedded.keys()
    for name, rows in embedded.items():
        assert computed[name].equals(rows), name
