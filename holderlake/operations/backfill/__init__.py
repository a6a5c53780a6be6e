"""Plans of backfills: what the lake lacks, its price, a forecast, the progress, and paused backfills.

Fetching belongs to ``ingest``, and starting a run to ``pipelines``.
"""
