"""Asset: the watched tokens of each chain, observed by the sensor ``watchlist`` whenever the settings change."""

from holderlake.dagster.versions import watchlist_asset

watchlist = watchlist_asset()
