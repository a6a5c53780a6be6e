"""The engine: computes holders, relationships, clusters and metrics of a token as of any second from its transfers.

``sources`` reads transfers, tokens and labels from files, nodes and the sample world, as the types of ``records``.
``store`` imports them with ``importing``; ``files`` reads the store's array files, and ``catalog`` is its SQLite file.
``queries`` (holders, balances) and ``maps`` (maps, clusters) return Arrow tables in the contract's schemas. ``numeric``
has the compiled loops, ``errors`` the exceptions, and ``warm`` compiles the loops in advance. The HTTP service and the
pipeline belong in other packages.
"""
