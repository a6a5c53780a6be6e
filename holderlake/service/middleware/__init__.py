"""ASGI middleware and checks on requests: the client's address, calls per minute, body limits.

Keys and credits belong in ``api.metering``, limits on headers and connections in ``runtime.protocol``.
"""
