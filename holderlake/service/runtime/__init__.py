"""Processes, the HTTP server and worker threads of the service.

Requests and answers belong in ``api``; accounts and credits in ``billing``.
"""
