"""Ingest: fetch or compute the subjects that a partition of the lake lacks, decode the answers and commit the rows.

Main modules: ``run`` (several partitions, checks before a run, signals), ``partition`` (one partition),
``decode_queue`` (decodes answers), ``stream`` (types). Which partitions to fill, and when, belongs to Dagster's
schedules and to backfills.
"""
