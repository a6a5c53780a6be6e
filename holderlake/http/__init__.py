"""HTTP calls as the provider's client, nodes and webhooks make them: limits, transports and failures.

What is in a request or an answer belongs in the package that makes the call.
"""
