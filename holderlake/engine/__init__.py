"""The engine: computes a token's holders, relationships, clusters and metrics from its transfers, as of any second.

The records to store have the types of ``records``. ``store`` imports the records with ``importing``. ``files`` reads
the store's array files, and ``catalog`` reads and writes its SQLite file. ``queries`` (holders, balances) and ``maps``
(maps, clusters) return Arrow tables in the contract's schemas. ``numeric`` has the compiled loops, ``warm`` compiles
them in advance, and ``errors`` has the exceptions. ``direct`` fills partitions of the pipeline without calls.

This room may import the core. All rooms beside the core may import it.
"""
