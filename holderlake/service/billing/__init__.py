"""API keys, accounts, credits and shared call counts.

SQL connections belong in ``database``, prices in ``contract``.
"""
