"""API keys, accounts, credits, and counts of calls that several processes share.

Main modules: ``keys`` (``KeyStore``, through which other packages use all of them), ``charges`` (reservations in the
database), ``reservations`` (batches of them), ``key_cache``, ``call_counts`` (for the rate limit), ``periods`` (billing
months) and ``secret`` (key of all hashes). SQL connections belong in ``database``, prices in ``contract``.
"""
