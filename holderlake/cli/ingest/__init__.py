"""Commands that fetch from a provider: demo, ingest, plan, backfill, and the credits that they spend.

Modules: ``commands`` (the commands and their options), ``backfill`` (runs and resumes backfills), ``outcome`` (result
of a run) and ``credits`` (report of the ledger). Commands about stored data are in ``lake``; those about the user's own
transfers in ``own_data``.
"""
