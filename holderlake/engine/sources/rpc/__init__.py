"""Transfers, tokens and contracts from the JSON-RPC of an EVM chain's nodes.

``client`` talks to endpoints, ``decoding`` turns events into rows, ``importing`` stores ranges of blocks. Files of
transfers belong in ``sources.files``.
"""
