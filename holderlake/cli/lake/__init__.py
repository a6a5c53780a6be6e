"""Commands about stored data: queries, exports, reports, alerts, rebuilds, object storage.

Modules: ``warehouse`` (``sql``, ``tables``, ``lake-views``), ``export``, ``report``, ``alerts``, ``maintenance``
(``rebuild``, ``retry-failures``, ``archive``), ``upkeep`` (``backup``, ``restore``), ``lake`` and ``object_storage``
(copies of the lake). Only ``retry-failures`` here sends requests; commands that fetch new data are in ``ingest``.
"""
