"""Read files of transfers: known layouts, exports of tools, event logs, and any columns with a column map.

``transfers`` is the entry point: it recognises a file and reads it. ``layouts`` and ``presets`` describe known files.
``mapping`` applies column maps, and ``event_logs`` decodes events. ``columns`` checks columns with ``numbers`` and
``hashes``, and ``building`` makes the rows. Code for the formats Parquet, JSON and CSV belongs in ``rows``, code for
nodes of chains in ``rpc``.
"""
