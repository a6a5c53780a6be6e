"""This application's Dagster assets and checks, one module per family of tables.

A module names the endpoint, the tables that it follows, its checks, and the schedule.

The factories are in ``holderlake.dagster``. A project of your own calls them in the same way, under a key prefix.
"""
