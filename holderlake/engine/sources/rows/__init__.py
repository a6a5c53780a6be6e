"""Read files of rows (Parquet, JSON, CSV) as Arrow tables with the file's own columns.

``raw`` reads a file of any of the formats, with ``json_rows`` for JSON. ``problems`` has errors with row and column,
and ``rejected`` lists the invalid rows. Code that knows the meaning of the columns belongs in the other modules of
``sources``.
"""
