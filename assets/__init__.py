"""This application's Dagster assets and checks, one module for each family of tables.

``freshness`` has the freshness checks of all tables. A module names the endpoint, the tables on which its asset
depends, its checks, and the schedule. The factories are in ``holderlake.dagster``; a project of your own calls them in
the same way, under a key prefix.
"""
