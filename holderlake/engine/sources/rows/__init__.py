"""Files of rows (Parquet, JSON, CSV) as Arrow tables with the file's own columns, and errors with row and column.

The modules of ``sources`` give the columns their meaning.
"""
