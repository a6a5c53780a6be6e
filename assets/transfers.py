"""Raw transfers of a chain's day from its nodes. The schedule ``daily_transfers`` imports the day that has ended.

Defined only where the settings name nodes.
"""

from holderlake.dagster.transfers import transfers_asset

transfers = transfers_asset()
