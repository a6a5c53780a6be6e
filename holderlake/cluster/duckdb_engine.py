"""The cluster's SQL on DuckDB, in this process: what small data needs, and what Spark's results are compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from holderlake.cluster.statements import Values, statement


class Duck:
    """DuckDB as an engine of the cluster. Locations are folders of this machine."""

    def __init__(self, memory_limit: str = "2GB") -> None:
        self._connection = duckdb.connect()
        self._connection.execute("SET enable_progress_bar = false")
        self._connection.execute(f"SET memory_limit = '{memory_limit}'")
        self._spill = TemporaryDirectory(prefix="holderlake-cluster-")
        self._connection.execute("SET temp_directory = $folder", {"folder": self._spill.name})

    def close(self) -> None:
        """Lets go of all that was made."""
        self._connection.close()
        self._spill.cleanup()

    def __enter__(self) -> Duck:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, name: str, locations: Sequence[str]) -> None:
        """Names the Parquet files at the locations, which may be folders. Raises ``FileNotFoundError``."""
        found = [f"{place}/*.parquet" if Path(place).is_dir() else place for place in locations]
        listed = ", ".join("'" + place.replace("'", "''") + "'" for place in found)
        try:
            self._connection.execute(f"CREATE OR REPLACE VIEW {name} AS FROM read_parquet([{listed}])")
        except duckdb.IOException as error:
            raise FileNotFoundError(f"there is no Parquet file at {listed}") from error

    def give(self, name: str, rows: pa.Table) -> None:
        """Names rows of this process."""
        self._connection.register("given", rows)
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS FROM given")
        self._connection.unregister("given")

    def make(self, name: str, values: Values, keep: bool = False) -> None:
        """Runs a statement, and names what it makes; ``keep`` is for Spark, here everything is kept."""
        made = statement(name)
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {made.sql}", made.chosen(values) or None)

    def save(self, name: str, location: str) -> None:
        """Writes what was named as Parquet into a new folder."""
        Path(location).mkdir(parents=True)
        reader = self._connection.sql(f"FROM {name}").to_arrow_reader()
        with pq.ParquetWriter(Path(location) / "part-0.parquet", reader.schema, compression="zstd") as writer:
            for batch in reader:
                writer.write_batch(batch)

    def table(self, name: str) -> pa.Table:
        """All rows of what was named."""
        return self._connection.sql(f"FROM {name}").to_arrow_table()

    def grouped(
        self,
        left: str,
        right: str,
        keys: Sequence[str],
        draw: Callable[[tuple[Any, ...], pa.Table, pa.Table], pa.Table],
        schema: pa.Schema,
        together: Sequence[str],
    ) -> Iterator[dict[str, Any]]:
        """What ``draw`` makes of each group of both, as rows, by the keys; see ``Spark.grouped``."""
        listed = ", ".join(keys)
        ordered = {"ones": left, "others": right}
        for name, given in ordered.items():  # in order, so that each group is found without reading the others
            self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS FROM {given} ORDER BY {listed}")
        found = self._connection.sql(
            f"SELECT {listed} FROM ones UNION SELECT {listed} FROM others ORDER BY ALL"
        ).fetchall()
        where = " AND ".join(f"{key} = ?" for key in keys)
        for key in found:
            mine = (
                self._connection.sql(f"FROM {name} WHERE {where}", params=list(key)).to_arrow_table()
                for name in ordered
            )
            yield from draw(key, *mine).cast(schema).to_pylist()
