"""Read files of transfers: known layouts, exports of tools, event logs, and any columns with a column map.

``transfers`` is the entry: it recognises a file and reads it. ``layouts`` and ``presets`` describe known files,
``mapping`` applies column maps, and ``event_logs`` decodes events. ``columns`` checks columns with ``numbers`` and
``hashes``, and ``building`` makes the rows. Formats of files (Parquet, JSON, CSV) are read in ``rows``, nodes of chains
in ``rpc``.
"""
