"""Plans of backfills: what the lake lacks, its price, a forecast and the progress.

Fetching belongs to ``ingest``, and starting a run to ``pipelines``.
"""
