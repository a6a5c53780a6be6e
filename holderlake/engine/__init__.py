"""Transfers in, answers out: holders, relationships, clusters and metrics of a token as of any second.

``sources`` read files into the records of ``records``, ``store`` keeps them, and the other modules are pure functions
from (store, token, as of, options) to Arrow tables shaped like the contract's. Nothing here knows HTTP or a pipeline.
"""
