"""The client's side of the API: requests, retries, rate limits, and the ledger of credits.

It returns bytes; ``decoding`` turns them into tables.
"""
