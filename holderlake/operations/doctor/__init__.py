"""``holderlake doctor``: checks of settings, provider, store and files of a home.

A check only reads; repairs are in ``holderlake.operations.maintenance``.
"""
