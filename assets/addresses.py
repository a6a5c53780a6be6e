"""Metadata of the top holders and of the address sets, at each run of the schedule ``daily``, on custom plans."""

from holderlake.dagster.assets import stream_asset
from holderlake.dagster.checks import stream_checks
from holderlake.ingest.streams.addresses import ADDRESSES

addresses = stream_asset(
    ADDRESSES,
    "From `POST /v0/addresses/metadata` (custom plans), for top holders and the address sets of the settings.",
    deps=["holders"],
)
address_checks = stream_checks(ADDRESSES)
