"""JSON-RPC calls to the endpoints of a node, with retries.

``messages`` builds the calls (``eth_getLogs``, ``eth_getBlockByNumber`` and others) and has the types of their results.
``node`` chooses the endpoint of a call and retries. ``endpoint`` sends calls to one endpoint by HTTP. ``errors`` has
the exceptions, and ``blocks`` finds the first block at or after a time. Code that knows the meaning of events, or the
store, does not belong here.
"""
