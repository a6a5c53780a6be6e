"""Dagster assets and checks, one module a family of tables that are fetched and committed together.

``family`` holds what all share: which subjects a partition must cover, how they are fetched, how they land in the lake.
Runs, schedules and commands stand in ``pipelines``; nothing here talks HTTP or writes files by itself.
"""
