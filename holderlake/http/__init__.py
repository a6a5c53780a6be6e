"""HTTP calls of the provider's client, of nodes and of webhooks: limits, transports and failures.

The contents of requests and answers belong in the package that makes the call.
"""
