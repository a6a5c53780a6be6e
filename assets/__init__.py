"""Dagster assets and checks, one module a family of tables that are fetched and committed together.

``family`` holds what all share: which subjects a partition must cover, and what is asked about them. ``ingest`` asks,
``swept`` has an engine at hand compute the same, and ``landing`` commits what came of either.
Runs, schedules and commands stand in ``pipelines``; nothing here talks HTTP or writes files by itself.
"""
