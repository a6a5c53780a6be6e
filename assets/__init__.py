"""This application's Dagster assets and checks, one module for each family of tables.

Each of these modules declares its asset's upstream assets, partitions, backfill policy, pool and resource, and its
checks. The resource ``workspace`` joins provider, lake, warehouse and engine (``resources/``). ``freshness`` has the
freshness checks of all tables. The checks of alert rules follow from the settings (``pipelines/definitions.py``). The
factories are in ``holderlake.dagster``; a project of your own calls them in the same way, under a key prefix.
"""
