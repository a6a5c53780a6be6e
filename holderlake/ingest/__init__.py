"""Ingest: fetch or compute the subjects that a partition of the lake lacks, decode the answers and commit the rows.

Which partitions to fill, and when, belongs to ``backfill`` and to Dagster's schedules.
"""
