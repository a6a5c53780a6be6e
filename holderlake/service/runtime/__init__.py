"""The processes, the HTTP server and the worker threads that a service runs in."""
