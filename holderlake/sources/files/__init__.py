"""Read files of transfers: known layouts, exports of tools, event logs, and any columns with a column map.

``transfers`` is the entry point: it recognises a file and reads it. ``layouts`` describes known files and makes the
rows. ``mapping`` applies column maps, also those of presets, and ``event_logs`` decodes events. ``columns`` checks
columns, and ``values`` parses their values. Code for the formats Parquet, JSON and CSV belongs in ``sources``, code for
nodes of chains in ``rpc``.
"""
