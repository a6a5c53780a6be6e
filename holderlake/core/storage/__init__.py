"""Atomic files, locks, SQLite databases and batched writes, for several packages.

The content of the files belongs in the package that writes them.
"""
