"""ASGI middleware and checks of requests.

Modules: ``client_ip`` (networks, and the text by which an address is counted), ``rate_limits`` (calls per minute) and
``body_limits`` (size, time and media type of bodies). Keys and credits belong in ``api.metering``, limits on headers
and connections in ``holderlake/presentation/protocol.py``.
"""
