"""Runs any ASGI app on uvicorn: listening sockets, limits, logging and shutdown."""

from __future__ import annotations

import errno
import logging
import os
import signal
import socket
import sys
import threading
from types import FrameType
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp

from holderlake.core.signals import until_stopped
from holderlake.presentation.protocol import FirstRequestInTime
from holderlake.service.observability import Log, log_config
from holderlake.service.settings import ServiceSettings

_KEEP_ALIVE_SECONDS: Final = 75
_HEADER_BYTES: Final = 32 << 10
"""Seconds after which the server closes an idle connection.

Proxies close idle connections after a minute. They must close first, or a request may be lost.
"""
_CONNECTIONS: Final = 10_000
"""Maximum connections of a process. Requests on further ones are answered 503."""
INTERRUPTED: Final = 130
"""Exit code of the process after a second Ctrl-C."""


def serve_app(app: ASGIApp, sockets: list[socket.socket], settings: ServiceSettings, log: Log) -> None:
    """Serve an app at listening sockets, then close them. A second Ctrl-C ends the process at once."""
    server = Server(server_config(app, settings, log_config=log_config(log)))
    with until_stopped():
        server.run(sockets)


def leave_threads() -> None:
    """End the process at once if worker threads still run; otherwise return.

    Call it after everything is closed. The interpreter's normal exit would wait for the threads.
    """
    if any(thread is not threading.main_thread() and not thread.daemon for thread in threading.enumerate()):
        logging.shutdown()
        sys.stdout.flush()
        os._exit(0)


class CannotListen(ValueError):
    """This machine cannot listen at the given host and port."""


def listen(host: str, port: int) -> list[socket.socket]:
    """Return listening sockets at all addresses of a host. Raises ``CannotListen`` with the reason."""
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        addresses = dict.fromkeys((family, address) for family, _, _, _, address in infos)
        sockets = [_listen_at(family, address) for family, address in addresses]
    except OSError as error:
        reason = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        raise CannotListen(f"can't listen on {host}, port {port}: {reason}; choose another host or port") from error
    listening = [listener for listener in sockets if listener is not None]
    if not listening:
        raise CannotListen(
            f"can't listen on {host}, port {port}: this machine has no such address; choose another host"
        )
    return listening


def listening_socket(address: Any, family: int = socket.AF_INET) -> socket.socket:
    """Return a socket that listens at an address, without Nagle's delay of small packets. Raises ``OSError``."""
    listening = socket.create_server(address, family=family, backlog=2_048)
    # Connections inherit it; otherwise plain asyncio delays the end of an answer by about 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _listen_at(family: int, address: Any) -> socket.socket | None:
    try:
        return listening_socket(address, family)
    except OSError as error:
        if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):  # an IPv6 address of the host, but no IPv6 here
            return None
        raise


def server_config(app: ASGIApp | str, settings: ServiceSettings, **options: Any) -> uvicorn.Config:
    """Return uvicorn's configuration with the limits of ``settings``. It can be pickled for other processes."""
    return uvicorn.Config(
        app,
        http=FirstRequestInTime,
        h11_max_incomplete_event_size=_HEADER_BYTES,
        access_log=False,
        lifespan="on",
        ws="none",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=settings.shutdown_seconds,
        **options,
    )


class Server(uvicorn.Server):
    """uvicorn's server that exits at once on a second Ctrl-C."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle SIGTERM or Ctrl-C: stop. On a second Ctrl-C exit at once, even if worker threads still run."""
        if self.should_exit and sig == signal.SIGINT:
            os._exit(INTERRUPTED)
        if isinstance(self.config.app, Starlette):
            self.config.app.state.stopping = True
        super().handle_exit(sig, frame)
