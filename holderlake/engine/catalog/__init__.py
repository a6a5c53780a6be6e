"""The store's SQLite catalogue: its list of files, changes, tokens, labels, rules, and search.

The files themselves belong in ``files``, imports of transfers in ``importing``.
"""
