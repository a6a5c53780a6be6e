"""HTTP client for calls to providers, blockchain nodes and webhooks: limits, transports and failures.

The contents of requests and answers belong in the package that makes the call.
"""
