"""Read files of rows (Parquet, JSON, CSV) as Arrow tables with the file's own columns.

``raw`` reads a file of any format, ``json_rows`` reads JSON. ``problems`` has errors with row and column, and
``rejected`` lists the invalid rows. The other modules of ``sources`` know the meaning of the columns.
"""
