"""The engine: computes a token's holders, relationships, clusters and metrics from its transfers, as of any second.

``sources`` reads transfers, tokens and labels from files, nodes and the sample world. The records have the types of
``records``. ``store`` imports the records with ``importing``. ``files`` reads the store's array files, and ``catalog``
reads and writes its SQLite file. ``queries`` (holders, balances) and ``maps`` (maps, clusters) return Arrow tables in
the contract's schemas. ``numeric`` has the compiled loops, ``warm`` compiles them in advance, and ``errors`` has the
exceptions. The HTTP service and the pipeline belong in other packages.
"""
