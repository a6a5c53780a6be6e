"""The catalogue: the store's SQLite file, which lists the store's files, changes, tokens, labels and rules.

``catalog`` connects and runs transactions. ``catalog_copy`` keeps a copy for repairs. ``changelog`` reads the changes.
``tokens``, ``labels``, ``rules`` and ``indexed_tokens`` read and write the tables of the same names, and ``tokens``
searches. ``opening_balances`` checks opening balances. Code that reads the listed files belongs in ``files``, code
that imports transfers in ``importing``.
"""
