"""This application's Dagster resources: which provider, lake, warehouse and engine its runs use.

Their classes are in ``holderlake.dagster.resources``, where a project of your own takes them from.
"""
