"""API keys, accounts and credits, and the counts of calls for the rate limit.

Main modules: ``keys`` (``KeyStore``, the interface that other packages use), ``charges`` (reservations in the
database), ``reservations`` (batches of them), ``key_cache``, ``call_counts`` (for the rate limit), ``periods`` (billing
months) and ``secret`` (key of all hashes). SQL connections belong in ``database``, prices in ``contract``.
"""
