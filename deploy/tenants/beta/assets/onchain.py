"""Tokens and maps of base, fetched with the key of team beta."""

from datetime import date
from typing import Final

from holderlake.assets.maps import MAPS
from holderlake.assets.tokens import TOKENS
from holderlake.dagster import chain_by_day, stream_asset, warehouse_asset

TEAM: Final = "beta"
"""The first part of all asset keys, and the pool that limits the runs of the team's API key."""
DAYS: Final = chain_by_day(["base"], start=date(2026, 1, 1))

tokens = stream_asset(TOKENS, key_prefix=[TEAM], partitions_def=DAYS, pool=TEAM)
maps = stream_asset(MAPS, deps=["tokens"], key_prefix=[TEAM], partitions_def=DAYS, pool=TEAM)
warehouse = warehouse_asset(["tokens", "maps"], key_prefix=[TEAM], partitions_def=DAYS)
