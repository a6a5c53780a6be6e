"""Arithmetic on arrays: big integers, hashes and compiled loops.

Nothing here knows tokens or files; ``queries`` and ``maps`` apply it to balances and transfers.
"""
