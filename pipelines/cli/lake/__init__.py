"""Commands about stored data: queries, exports, reports, alerts, rebuilds, object storage.

Only ``retry-failures`` here sends requests; commands that fetch new data are in ``ingest``.
"""
