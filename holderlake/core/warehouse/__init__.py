"""The DuckDB file made from the lake: its tables, views and macros, and query results as data frames.

This package sends no requests and does not change the lake.
"""
