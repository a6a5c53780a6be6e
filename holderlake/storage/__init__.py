"""What several packages need of a disk: atomic files, locks, SQLite files, checked names and batched writes.

Nothing here knows what is stored.
"""
