"""Ingest: fetch or compute the subjects that a partition of the lake lacks, decode the answers and commit the rows.

Main modules: ``run`` (the entry point: checks before a run, several partitions of a stream, signals), ``partition``
(fetches and commits one partition), ``bulk`` (computes partitions with the local engine), ``decode_queue`` (decodes
answers), ``stream`` (types), ``options`` (of requests); ``streams`` has one module for each family of tables. Which
partitions to fill, and when, belongs to ``backfill`` and to Dagster's schedules.
"""
