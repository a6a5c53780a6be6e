"""The engine: holders, relationships, clusters and metrics of a token as of any second, computed from transfers.

``sources`` read files and nodes into the types of ``records``, ``store`` keeps them, and ``queries`` and ``maps``
return Arrow tables in the contract's schemas. The HTTP service and the pipeline belong in other rooms.
"""
