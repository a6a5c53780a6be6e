"""Ingest: fetch or compute the subjects that a partition of the lake lacks, decode the answers and commit the rows.

Main modules: ``run`` (the entry point: ingests several partitions of a stream), ``partition`` (fetches and commits one
partition), ``bulk`` (computes partitions with the local engine), ``decode_queue`` (decodes answers), ``stream``
(types), ``options`` (of requests), ``preparing`` (checks before a run) and ``cancelling`` (signals); ``streams`` has
one module for each family of tables. Which partitions to fill, and when, belongs to ``backfill`` and to Dagster's
schedules.
"""
