"""HTTP servers of tests on loopback."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import ThreadingHTTPServer
from socketserver import BaseRequestHandler
from typing import Any, Self


class LoopbackServer(ThreadingHTTPServer):
    """Serves on a free port of loopback until its block ends.

    The end closes kept connections, so that it waits for no client, and then waits for the threads of all requests.
    """

    daemon_threads = False

    def __init__(self, handler: Callable[..., BaseRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self._connections: set[socket.socket] = set()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        for connection in tuple(self._connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # an answer of two writes would wait for 40 ms
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, *_: Any) -> None:
        """Print nothing when a client closes its connection."""
