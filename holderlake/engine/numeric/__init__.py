"""Arithmetic on arrays: big integers, hashes and compiled loops.

No module of this package deals with tokens or files; ``queries`` and ``maps`` apply them to balances and transfers.
"""
