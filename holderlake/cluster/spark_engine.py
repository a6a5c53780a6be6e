"""The cluster's SQL on Apache Spark, in a session with the settings that exact results need.

These settings override the cluster's defaults: an overflow of a decimal is an error (ANSI mode), and times are UTC. The
workers need the same Python packages as this process, including Holderlake.
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
import sqlglot
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.functions import broadcast
from pyspark.sql.pandas.types import from_arrow_schema

from holderlake.cluster.map_tables import read_stream, stream_of
from holderlake.cluster.statements import Statement, Values

_ALWAYS: Final = {
    "spark.sql.ansi.enabled": "true",  # an overflow is an error, not a null
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
}
_DEFAULTS: Final = {
    "spark.task.maxFailures": "8",  # the tasks of a killed worker run again on others
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

_BYTES: Final = ", ".join(f"substr(md5(value), {place}, 2)" for place in range(15, 0, -2))
_HASHED: Final = f"CAST(conv(left(concat({_BYTES}), 15), 16, 10) AS BIGINT)"
"""As ``duckdb_engine._HASHED``."""
_SMALL_BYTES: Final = 8 << 20
"""The largest size in bytes at which a table from this process is broadcast to all workers."""


@contextmanager
def session(master: str, options: Mapping[str, str] | None = None) -> Iterator[Any]:
    """Context manager of a Spark session on the cluster of ``master`` (``spark://host:port``, or ``local[2]``).

    ``options`` are other settings of Spark. They cannot change the settings that exact results need. Raises
    ``ConnectionError`` if no master answers.
    """
    _check_reachable(master)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # on the workers; Spark's default is any python3
    os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "conf"))  # it limits logging
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
    """Context manager that suppresses PySpark's warnings about pandas 3. This module does not use pandas."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        yield


def _check_reachable(master: str) -> None:
    """Raise ``ConnectionError`` if no master answers. Spark itself would take a minute and print a hundred lines."""
    places = [place.rpartition(":") for place in master.removeprefix("spark://").split(",")]
    if not master.startswith("spark://"):
        return
    for host, _, port in places:
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except (OSError, ValueError):
            continue
        return
    raise ConnectionError(
        f"no Spark master answers at {master}; check the address, or start one: deploy/spark.sh master"
    )


def _translated(query: Statement, values: Values) -> str:
    """Return the SQL of a statement for Spark."""
    (sql,) = sqlglot.transpile(query.sql(values), read="duckdb", write="spark", comments=False)
    return str(sql)


def _streams(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield each batch as a row with an Arrow IPC stream."""
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"stream": [stream_of(pa.Table.from_batches([batch]))]})


class SparkEngine:
    """The ``Engine`` of ``answers`` on Spark. All workers must reach the locations: shared folders, or ``s3a://``.

    Intermediate results are written to a folder in ``work`` and deleted when the engine is closed. Stored results keep
    Spark's plans short, and are not computed again when a worker is lost.
    """

    def __init__(self, session: Any, work: str) -> None:
        self._session = session
        self._work = f"{work}/work-{uuid4().hex}"
        session.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION hashed(value STRING) RETURNS BIGINT RETURN {_HASHED}")

    def close(self) -> None:
        """Delete the intermediate results."""
        machine = self._session.sparkContext._jvm
        path = machine.org.apache.hadoop.fs.Path(self._work)
        path.getFileSystem(self._session.sparkContext._jsc.hadoopConfiguration()).delete(path, True)

    def __enter__(self) -> SparkEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, name: str, locations: Sequence[str]) -> None:
        """Make a view ``name`` of Parquet files. ``locations`` are files or folders.

        Raises ``FileNotFoundError`` if there is no file.
        """
        try:
            self._session.read.parquet(*locations).createOrReplaceTempView(name)
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            raise FileNotFoundError(f"there is no Parquet file at {', '.join(locations)}; check the path") from error

    def register(self, name: str, rows: pa.Table) -> None:
        """Make a view ``name`` from an Arrow table."""
        with _arrow_only():
            frame = self._session.createDataFrame(rows)
        small = rows.nbytes < _SMALL_BYTES  # Spark does not know their size
        (broadcast(frame) if small else frame).createOrReplaceTempView(name)

    def run(self, query: Statement, values: Values, keep: bool = False) -> None:
        """Make a view of the statement with the parameters ``values``.

        Spark computes the view again at each use. With ``keep``, it is computed now and its result is stored.
        """
        self._session.sql(_translated(query, values)).createOrReplaceTempView(query.name)
        if keep:
            location = f"{self._work}/{query.name}-{uuid4().hex}"
            self.save(query.name, location)
            self.read(query.name, [location])

    def rows(self, query: Statement, values: Values) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a statement, in its order."""
        with _arrow_only():
            streams = self._session.sql(_translated(query, values)).mapInArrow(_streams, "stream binary")
        for row in streams.toLocalIterator(prefetchPartitions=True):
            yield from read_stream(row.stream).to_batches()

    def save(self, name: str, location: str) -> None:
        """Write the view ``name`` as Parquet into a new folder. The folder is complete once it has Spark's file
        ``_SUCCESS``."""
        self._session.table(name).write.option("compression", "zstd").parquet(location)

    def table(self, name: str) -> pa.Table:
        """Return all rows of a view, which must fit into the memory of this process."""
        return self._session.table(name).toArrow()

    def grouped(
        self,
        left: str,
        right: str,
        keys: Sequence[str],
        compute: Callable[[tuple[Any, ...], pa.Table, pa.Table], pa.Table],
        schema: pa.Schema,
        together: Sequence[str],
    ) -> Iterator[dict[str, Any]]:
        """Call ``compute`` on the workers for each group of rows of both views with equal ``keys``. Yield the rows of
        the results.

        ``compute`` gets the values of the keys and the group's rows of both views, and returns a table of the given
        schema. Result rows with equal values in the columns ``together`` come one after another. They are sorted by all
        columns of ``schema`` but the last.
        """

        def of_arrow(key: tuple[pa.Scalar, ...], left_rows: pa.Table, right_rows: pa.Table) -> pa.Table:
            return compute(tuple(part.as_py() for part in key), left_rows, right_rows)

        left_groups, right_groups = (self._session.table(name).groupBy(*keys) for name in (left, right))
        with _arrow_only():
            computed = left_groups.cogroup(right_groups).applyInArrow(of_arrow, from_arrow_schema(schema))
        ordered = computed.repartition(*together).sortWithinPartitions(*schema.names[:-1])
        for row in ordered.toLocalIterator(prefetchPartitions=True):
            yield row.asDict()
