"""Transfers, tokens and contracts from an EVM chain's node, by its JSON-RPC.

``endpoint`` talks to one address, ``node`` makes one dependable node of several, ``reading`` fetches what a range of
blocks holds, ``importing`` carries it into the store and keeps up with reorganisations, ``checkpoints`` remembers
what is there. What an address may be asked for and what it answers stands in ``messages``.
"""
