"""Assets: the five tables of each watched token's map, as of the instants of the schedule ``daily`` or a backfill."""

from collections.abc import Sequence

from holderlake.assets.checks import stream_checks
from holderlake.assets.fetched import ONE_RUN, POOL, stream_asset
from holderlake.core.contract.requests import MapOptions, MapRequest, Request
from holderlake.core.dagster.partitions import CHAIN_BY_DAY
from holderlake.core.decoding.answers import map_tables
from holderlake.core.ingest.stream import ChainInstant, Stream, watched_tokens
from holderlake.core.settings import Settings


def requests(settings: Settings, partition: ChainInstant, tokens: Sequence[str], refresh: bool) -> list[Request]:
    """Return one request for each token, with the options of the section ``[maps]``.

    A past partition is requested in history mode, as of its instant.
    """
    options = MapOptions(
        limit=settings.maps.limit,
        use_magic_nodes=settings.maps.use_magic_nodes,
        use_time_nodes=settings.maps.use_time_nodes,
        return_nodes=True,
        return_relationships=True,
        refresh=refresh,
        timestamp=partition.timestamp,
    )
    return [MapRequest(chain=partition.chain, token_address=token, options=options) for token in tokens]


MAPS = Stream(
    name="maps",
    by="token",
    source="From `GET /v0/tokens/map`: one call per token fills the five tables of maps.",
    endpoint=MapRequest.endpoint,
    historic=True,
    batch=1,
    subjects=watched_tokens,
    requests=requests,
    decode=map_tables,
    together=True,
    inputs=("tokens",),  # names of tokens are in the plots
    options=("limit", "use_magic_nodes", "use_time_nodes"),
)

maps = stream_asset(
    MAPS,
    partitions_def=CHAIN_BY_DAY,
    backfill_policy=ONE_RUN,
    pool=POOL,
)
map_checks = stream_checks(MAPS)
