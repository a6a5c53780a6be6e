"""Tokens and holders of eth, fetched with the key of team alpha."""

from datetime import date
from typing import Final

from holderlake.assets.holders import HOLDERS
from holderlake.assets.tokens import TOKENS
from holderlake.dagster import chain_by_day, stream_asset, warehouse_asset

TEAM: Final = "alpha"
"""The first part of all asset keys, and the pool that limits the runs of the team's API key."""
DAYS: Final = chain_by_day(["eth"], start=date(2026, 1, 1))

tokens = stream_asset(TOKENS, key_prefix=[TEAM], partitions_def=DAYS, pool=TEAM)
holders = stream_asset(HOLDERS, deps=["tokens"], key_prefix=[TEAM], partitions_def=DAYS, pool=TEAM)
warehouse = warehouse_asset(["tokens", "holders"], key_prefix=[TEAM], partitions_def=DAYS)
