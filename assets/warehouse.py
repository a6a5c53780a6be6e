"""Asset: the DuckDB warehouse, loaded at the end of each run that fetches tables."""

from holderlake.core.ingest.streams.all import STREAMS
from holderlake.dagster.partitions import CHAIN_BY_DAY
from holderlake.dagster.resources import WORKSPACE
from holderlake.dagster.warehouse import warehouse_asset

warehouse = warehouse_asset(
    [table for stream in STREAMS for table in stream.tables], partitions_def=CHAIN_BY_DAY, resource=WORKSPACE
)
