"""The client of the API: requests, retries, rate limit, concurrency limit, and the ledger of credits.

Answers are bytes here; ``archive`` keeps them and ``decoding`` turns them into tables.
"""
