"""Asset: raw transfers of one chain and day, read from the nodes of the chain.

The schedule ``daily_transfers`` imports the previous day, and the sensor ``healing_transfers`` the days that it missed.
The asset exists only if the settings name nodes.
"""

from holderlake.dagster.partitions import CHAIN_BY_DAY
from holderlake.dagster.resources import WORKSPACE
from holderlake.dagster.transfers import transfers_asset

transfers = transfers_asset(partitions_def=CHAIN_BY_DAY, resource=WORKSPACE)
