"""Ingest: fetch or compute what a partition of the lake lacks, decode it and commit it.

Which partitions to fill, and when, belongs to ``backfill`` and to Dagster's schedules.
"""
