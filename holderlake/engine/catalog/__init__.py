"""The store's SQLite catalogue: which files there are, tokens, labels, rules, and search.

The arrays themselves belong in ``files``.
"""
