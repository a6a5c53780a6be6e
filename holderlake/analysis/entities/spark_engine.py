"""The SQL of entities on Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import sqlglot
from pyspark.errors import AnalysisException
from pyspark.sql.functions import broadcast

from holderlake.analysis.entities.statements import Statement, Values

_BYTES: Final = ", ".join(f"substr(md5(value), {place}, 2)" for place in range(15, 0, -2))
_HASHED: Final = f"CAST(conv(left(concat({_BYTES}), 15), 16, 10) AS BIGINT)"
"""The function ``hashed`` of the statements in Spark's SQL: ``duckdb_engine._HASHED`` has the same values."""
_SMALL_BYTES: Final = 8 << 20
"""The largest size in bytes at which a table from this process is broadcast to all workers."""


def _translated(query: Statement, values: Values) -> str:
    """Return the SQL of a statement for Spark."""
    (sql,) = sqlglot.transpile(query.sql(values), read="duckdb", write="spark", comments=False)
    return str(sql)


def _streams(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield each batch as a row with an Arrow IPC stream."""
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.RecordBatch.from_pydict({"stream": [bytes(sink.getvalue())]})


class SparkEngine:
    """The ``SqlEngine`` on Spark. All workers must reach the locations: shared folders, or ``s3a://``.

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
            self._session.table(query.name).write.option("compression", "zstd").parquet(location)
            self.read(query.name, [location])

    def rows(self, query: Statement, values: Values) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a statement, in its order."""
        streams = self._session.sql(_translated(query, values)).mapInArrow(_streams, "stream binary")
        for row in streams.toLocalIterator(prefetchPartitions=True):
            with pa.ipc.open_stream(row.stream) as reader:
                yield from reader

    def table(self, name: str) -> pa.Table:
        """Return all rows of a view, which must fit into the memory of this process."""
        return self._session.table(name).toArrow()
