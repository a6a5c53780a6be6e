"""API keys, accounts and credits, and the counts of calls for the rate limit.

Main modules: ``keys`` (``KeyStore``, the interface that other packages use), ``charges`` (reservations in the database,
and billing months), ``reservations`` (batches of them), and ``secret`` (key of all
hashes). Tables are in ``tables``, prices in ``contract``.
"""
