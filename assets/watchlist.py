"""Asset: the watched tokens of each chain, observed by the sensor ``watchlist`` whenever the settings change."""

from dagster import AssetSpec, DynamicPartitionsDefinition

from holderlake.core.dagster.partitions import CHAIN
from holderlake.core.dagster.versions import WATCHLIST

watchlist = AssetSpec(
    WATCHLIST,
    description="The tokens to fetch, by chain, from the settings. Its data version changes with the tokens.",
    group_name="settings",
    partitions_def=DynamicPartitionsDefinition(name=CHAIN),
)
