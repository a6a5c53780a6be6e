"""Assets: metadata of top holders and of the members of address sets, fetched at each run of the schedule ``daily``.

The provider may offer this metadata in a custom plan only.
"""

from holderlake.dagster.assets import stream_asset
from holderlake.dagster.checks import stream_checks
from holderlake.ingest.streams.addresses import ADDRESSES

addresses = stream_asset(
    ADDRESSES,
    "From `POST /v0/addresses/metadata` (custom plans), for top holders and the address sets of the settings.",
    deps=["holders"],
)
address_checks = stream_checks(ADDRESSES)
