"""API keys, accounts, credits, and counts of calls that several processes share.

SQL connections belong in ``database``, prices in ``contract``.
"""
