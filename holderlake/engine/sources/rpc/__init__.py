"""Transfers, tokens and contracts of an EVM chain, read from nodes by JSON-RPC.

``client`` sends calls to endpoints, ``decoding`` turns events into rows, and ``importing`` stores ranges of blocks.
Files of transfers belong in ``sources.files``.
"""
