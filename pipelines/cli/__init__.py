"""The commands of ``holderlake``: options, help and printed results; ``main`` puts them together.

What a command does is in the library; nothing here computes or stores.
"""
