"""Files, locks, SQLite databases and batched writes that several rooms share.

What the files mean belongs in the room that writes them.
"""
