"""Asset: transfers between the members of each address set, fetched at each run of the schedule ``daily``."""

from holderlake.dagster.assets import stream_asset
from holderlake.dagster.checks import stream_checks
from holderlake.ingest.streams.subgraphs import SUBGRAPHS

subgraphs = stream_asset(
    SUBGRAPHS,
    "From `POST /v0/relationships/subgraph`, for each address set of the settings; large sets in covering blocks.",
)
subgraph_checks = stream_checks(SUBGRAPHS)
