"""Processes, HTTP server and worker threads of the service.

Modules: ``server`` (sockets and uvicorn's server), ``protocol`` (limits on headers and connections), ``processes``
(several processes at one port) and ``worker_pool`` (threads that compute answers). Requests and answers belong in
``api``; accounts and credits in ``billing``.
"""
