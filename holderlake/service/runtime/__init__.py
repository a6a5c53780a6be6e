"""Processes, HTTP server and worker threads of the service.

Modules: ``server`` (sockets and uvicorn's server), ``processes`` (several processes at one port) and ``worker_pool``
(threads that compute answers). Limits on headers and connections are in ``holderlake/presentation/protocol.py``.
Requests and answers belong in ``api``; accounts and credits in ``billing``.
"""
