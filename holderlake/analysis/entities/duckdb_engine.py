"""The SQL of entities on DuckDB in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import duckdb
import pyarrow as pa

from holderlake.analysis.entities.statements import Statement, Values

_HASHED: Final = "CAST((md5_number(value) & 18446744073709551615::UHUGEINT) >> 4 AS BIGINT)"
"""The number of 60 bits that ``hashed`` makes of a text on all engines: of the first 8 bytes, the least one first."""


class DuckDbEngine:
    """The ``SqlEngine`` on DuckDB. Locations are folders of this machine.

    Stored results are in a database file in ``folder`` (default: the folder for temporary files). Close the engine to
    delete it.
    """

    def __init__(self, memory_limit: str = "2GB", folder: Path | None = None) -> None:
        self._spill = TemporaryDirectory(prefix="holderlake-entities-", dir=folder)
        self._connection = duckdb.connect(str(Path(self._spill.name, "results.duckdb")))
        self._connection.execute("SET enable_progress_bar = false")
        self._connection.execute("SET memory_limit = ?", [memory_limit])
        self._connection.execute("SET preserve_insertion_order = false")  # it needs memory, and views have no order
        self._connection.execute("SET TimeZone = 'UTC'")  # of times as text without a zone
        self._connection.execute(f"CREATE MACRO hashed(value) AS {_HASHED}")

    def close(self) -> None:
        """Close the connection and delete all intermediate results."""
        self._connection.close()
        self._spill.cleanup()

    def __enter__(self) -> DuckDbEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, name: str, locations: Sequence[str]) -> None:
        """Make a view ``name`` of files. ``locations`` are Parquet files, folders of them, or CSV files only.

        A column that a file lacks is null. Columns of CSV files are text. Raises ``FileNotFoundError`` if there is no
        file.
        """
        patterns = [f"{place}/*.parquet" if Path(place).is_dir() else place for place in locations]
        listed = ", ".join("'" + place.replace("'", "''") + "'" for place in patterns)
        is_csv = all(place.endswith((".csv", ".csv.gz")) for place in patterns)
        function, options = ("read_csv", ", header = true, all_varchar = true") if is_csv else ("read_parquet", "")
        files = f"{function}([{listed}], union_by_name = true{options})"
        try:
            self._connection.execute(f"CREATE OR REPLACE VIEW {name} AS FROM {files}")
        except duckdb.IOException as error:
            raise FileNotFoundError(f"there is no file at {listed}; check the path") from error

    def register(self, name: str, rows: pa.Table) -> None:
        """Make a table ``name`` from an Arrow table."""
        self._connection.register("registered", rows)
        self._connection.execute(f"CREATE OR REPLACE TABLE {name} AS FROM registered")
        self._connection.unregister("registered")

    def run(self, query: Statement, values: Values, keep: bool = False) -> None:
        """Make a view of the statement with the parameters ``values``. With ``keep``, its result is stored."""
        kind = "TABLE" if keep else "VIEW"
        self._connection.execute(f"CREATE OR REPLACE {kind} {query.name} AS {query.sql(values)}")

    def rows(self, query: Statement, values: Values) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a statement, in its order."""
        yield from self._connection.sql(query.sql(values)).to_arrow_reader()

    def table(self, name: str) -> pa.Table:
        """Return all rows of a table or view."""
        return self._connection.sql(f"FROM {name}").to_arrow_table()
