"""Asset: the largest holders of each watched token, as of the instants of the schedule ``daily`` or of a backfill."""

from collections.abc import Sequence

from holderlake.assets.checks import stream_checks
from holderlake.assets.fetched import ONE_RUN, POOL, stream_asset
from holderlake.core.contract.requests import HoldersOptions, HoldersRequest, Request
from holderlake.core.dagster.partitions import CHAIN_BY_DAY
from holderlake.core.decoding.answers import holder_rows
from holderlake.core.ingest.stream import ChainInstant, Stream, watched_tokens
from holderlake.core.settings import Settings


def requests(settings: Settings, partition: ChainInstant, tokens: Sequence[str], refresh: bool) -> list[Request]:
    """Return one request for each token, with the options of the section ``[holders]``.

    A past partition is requested in history mode, as of its instant.
    """
    options = HoldersOptions(
        limit=settings.holders.limit,
        return_metadata=settings.holders.with_metadata,
        refresh=refresh,
        timestamp=partition.timestamp,
    )
    return [HoldersRequest(chain=partition.chain, token_address=token, options=options) for token in tokens]


HOLDERS = Stream(
    name="holders",
    by="token",
    source="From `GET /v0/tokens/holders`, one call per token, as of the partition's instants; history mode for "
    "past ones.",
    endpoint=HoldersRequest.endpoint,
    historic=True,
    batch=1,
    subjects=watched_tokens,
    requests=requests,
    decode=holder_rows,
    together=True,
    inputs=("tokens",),  # names of tokens are in the plots
    options=("limit", "with_metadata"),
)

holders = stream_asset(
    HOLDERS,
    partitions_def=CHAIN_BY_DAY,
    backfill_policy=ONE_RUN,
    pool=POOL,
)
holder_checks = stream_checks(HOLDERS)
