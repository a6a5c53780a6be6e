"""Transfers, tokens and contracts of an EVM chain, read from nodes by JSON-RPC. Each block is imported once.

``messages`` builds the calls (``eth_getLogs``, ``eth_getBlockByNumber`` and others). ``node`` chooses the endpoint of
a call and retries, ``endpoint`` sends it by HTTP, and ``errors`` has the exceptions. ``portal`` answers the same calls
from an SQD portal. ``events`` decodes transfers, also those in files. ``run`` is the import: ``reading`` reads ranges
of blocks, with ``native`` for the chain's coin, and ``checkpoints`` records the blocks that were read. ``verify``
compares the store with a node, and ``causes`` explains differences. Files of transfers belong in ``sources.files``.
"""
