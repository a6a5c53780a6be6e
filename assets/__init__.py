"""This application's Dagster assets and checks, one module per family of tables: what is fetched, from what, and when.

The factories are in ``holderlake.dagster``. A project of your own calls them in the same way, under a key prefix.
"""
