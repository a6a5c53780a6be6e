"""Parquet files by table, chain and instant, committed as whole partitions, on disk and in object storage.

Queries over them belong in ``warehouse``.
"""
