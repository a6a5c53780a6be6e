"""Arithmetic on arrays: big integers, hashes and compiled loops.

``bigint`` has exact integers of up to 320 bits, ``hashing`` hashes of texts. The loops of ``graph_kernels`` (entries of
addresses) and ``aggregates`` (sums over balances) are compiled by numba. No module of this package reads files or knows
tokens; ``queries`` and ``maps`` apply them to balances and transfers.
"""
