"""The cluster's SQL on Apache Spark: a session with the settings that exactness needs, and statements run in it.

Decimals that overflow are errors (ANSI mode), and times are UTC, whatever the cluster's own defaults are. The workers
need the same Python packages as this process, ours included.
"""

from __future__ import annotations

import os
import socket
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.functions import broadcast
from pyspark.sql.pandas.types import from_arrow_schema

from holderlake.cluster.statements import Values, statement

_ALWAYS: Final = {
    "spark.sql.ansi.enabled": "true",  # a sum that does not fit is an error, and never a null
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
}
_DEFAULTS: Final = {
    "spark.task.maxFailures": "8",  # a worker that is killed takes its tasks with it; others do them again
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

_SMALL_BYTES: Final = 8 << 20
"""Tables of this process up to this size are handed to every worker whole."""


@contextmanager
def session(master: str, options: Mapping[str, str] | None = None) -> Iterator[Any]:
    """A Spark session on the cluster of the master's address (``spark://host:port``, or ``local[2]``).

    ``options`` are further settings of Spark by their own names; those that exactness needs can't be changed. Raises
    ``ConnectionError`` where no master answers.
    """
    _check_reachable(master)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # what workers run; Spark's own default is any python3
    os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "conf"))  # where it is told to be quiet
    builder = SparkSession.builder.master(master).appName("holderlake")
    for name, value in {**_DEFAULTS, **(options or {}), **_ALWAYS}.items():
        builder = builder.config(name, value)
    opened = builder.getOrCreate()
    opened.sparkContext.setLogLevel("ERROR")
    try:
        yield opened
    finally:
        opened.stop()


@contextmanager
def _arrow_only() -> Iterator[None]:
    """PySpark warns of pandas 3 wherever it could hand over frames; we hand over Arrow."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        yield


def _check_reachable(master: str) -> None:
    """Spark itself takes a minute to find out, and tells it in a hundred lines."""
    places = [place.rpartition(":") for place in master.removeprefix("spark://").split(",")]
    if not master.startswith("spark://"):
        return
    for host, _, port in places:
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except (OSError, ValueError):
            continue
        return
    raise ConnectionError(f"no Spark master answers at {master}; 'deploy/spark.sh master' starts one")


class Spark:
    """Spark as an engine of the cluster. Locations are whatever all workers reach: folders they share, ``s3a://``.

    ``work`` is where intermediate results are kept until the engine is closed: a plan that is cut there is planned in a
    moment, and what was written is not computed again when a worker is lost.
    """

    def __init__(self, session: Any, work: str) -> None:
        self._session = session
        self._work = f"{work}/work-{uuid4().hex}"

    def close(self) -> None:
        """Removes the intermediate results."""
        machine = self._session.sparkContext._jvm
        path = machine.org.apache.hadoop.fs.Path(self._work)
        path.getFileSystem(self._session.sparkContext._jsc.hadoopConfiguration()).delete(path, True)

    def __enter__(self) -> Spark:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, name: str, locations: Sequence[str]) -> None:
        """Names the Parquet files at the locations, which may be folders. Raises ``FileNotFoundError``."""
        try:
            self._session.read.parquet(*locations).createOrReplaceTempView(name)
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            raise FileNotFoundError(f"there is no Parquet file at {', '.join(locations)}") from error

    def give(self, name: str, rows: pa.Table) -> None:
        """Names rows of this process."""
        with _arrow_only():
            frame = self._session.createDataFrame(rows)
        small = rows.nbytes < _SMALL_BYTES  # Spark does not see how small they are
        (broadcast(frame) if small else frame).createOrReplaceTempView(name)

    def make(self, name: str, values: Values, keep: bool = False) -> None:
        """Runs a statement when it is first needed, and names what it makes; with ``keep`` it is run now and once."""
        made = statement(name, "spark")
        frame = self._session.sql(made.sql, args=made.chosen(values))
        frame.createOrReplaceTempView(name)
        if keep:
            location = f"{self._work}/{name}"
            self.save(name, location)
            self.read(name, [location])

    def save(self, name: str, location: str) -> None:
        """Writes what was named as Parquet into a new folder, which is whole when Spark's ``_SUCCESS`` is in it."""
        self._session.table(name).write.option("compression", "zstd").parquet(location)

    def table(self, name: str) -> pa.Table:
        """All rows of what was named; small ones only."""
        return self._session.table(name).toArrow()

    def grouped(
        self,
        left: str,
        right: str,
        keys: Sequence[str],
        draw: Callable[[tuple[Any, ...], pa.Table, pa.Table], pa.Table],
        schema: pa.Schema,
        together: Sequence[str],
    ) -> Iterator[dict[str, Any]]:
        """What ``draw`` makes of each group of both, on the workers, as rows; those alike in ``together`` stand
        together, by the columns of ``schema`` in their order."""

        def of_arrow(key: tuple[pa.Scalar, ...], ones: pa.Table, others: pa.Table) -> pa.Table:
            return draw(tuple(part.as_py() for part in key), ones, others)

        first, second = (self._session.table(name).groupBy(*keys) for name in (left, right))
        with _arrow_only():
            drawn = first.cogroup(second).applyInArrow(of_arrow, from_arrow_schema(schema))
        placed = drawn.repartition(*together).sortWithinPartitions(*schema.names[:-1])
        for row in placed.toLocalIterator(prefetchPartitions=True):
            yield row.asDict()
