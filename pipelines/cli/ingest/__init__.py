"""Commands that fetch from a provider: demo, ingest, plan, backfill, and the credits that they spend.

What works on stored data without a request is in ``lake``; the user's own transfers are in ``own_data``.
"""
