"""This application's Dagster assets and checks, one module for each family of tables.

Each of these modules names the endpoint, the tables on which its asset depends, its checks, and the schedule.
``freshness`` has the freshness checks of all tables. The factories are in ``holderlake.dagster``; a project of your own
calls them in the same way, under a key prefix.
"""
