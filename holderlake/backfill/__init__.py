"""Plans of a backfill: coverage, price, forecast, progress and paused runs.

Fetching belongs to ``ingest``, and starting a run to ``pipelines``.
"""
