"""Filling partitions of the lake: what a partition lacks is fetched, decoded and committed.

Which partitions are filled, and when, is decided in ``backfill`` and by Dagster.
"""
