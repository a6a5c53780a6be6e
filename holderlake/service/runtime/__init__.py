"""How the service runs: processes, the HTTP server and worker threads.

Requests and answers belong in ``api``; accounts and credits in ``billing``.
"""
