"""Ingest: fetch or compute the subjects that a partition of the lake lacks, decode the answers and commit the rows.

Main modules: ``run`` (the entry point: a stream's partitions of a chain), ``partition`` (fetches and commits one
partition), ``bulk`` (computes partitions with the local engine), ``decode_queue``, ``stream`` (types), ``options`` (of
requests), ``preparing`` (checks before a run) and ``cancelling``; ``streams`` has one module for each family of tables.
Which partitions to fill, and when, belongs to ``backfill`` and to Dagster's schedules.
"""
