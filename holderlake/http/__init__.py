"""HTTP client for calls to providers, blockchain nodes and webhooks: limits, transports and failures.

Modules: ``client`` (``HttpClient``, the calls and their failures) and ``transport`` (httpx over aiohttp). The contents
of requests and answers belong in the package that makes the call.
"""
