"""The DuckDB file made from the lake: tables, views, macros, and data frames of them.

Nothing here fetches or changes the lake.
"""
