"""How the server runs an app: where it listens, within which limits, what it logs, and how it ends.

It knows nothing of which app that is.
"""

from __future__ import annotations

import errno
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp
from uvicorn.config import STARTUP_FAILURE

from holderlake.service.middleware.client_ip import networks
from holderlake.service.observability import Log, log_config
from holderlake.service.runtime.protocol import limited_protocol
from holderlake.service.settings import ServiceSettings

_log = logging.getLogger(__name__)

MOST_CONNECTIONS: Final = 10_000
"""Open connections of one process, fewer where the system allows fewer open files."""
BACKLOG: Final = 2_048
"""Connections that may wait to be taken."""
_KEEP_ALIVE_SECONDS: Final = 75
"""Longer than the minute after which proxies let go, so that none sends into a connection that we have just closed."""
INTERRUPTED: Final = 130
"""The exit code of who was stopped by a second Ctrl-C."""


def serve_app(app: ASGIApp, sockets: list[socket.socket], settings: ServiceSettings, log: Log) -> None:
    """Serves an app at sockets that listen, and closes them. A second Ctrl-C ends the process at once."""
    server = Server(ServerConfig(app, settings, log_config=log_config(log)))
    with suppress(KeyboardInterrupt), _terminated_once():
        server.run(sockets)


def leave_threads() -> None:
    """Ends the process, in order, where threads still compute what nobody waits for; otherwise it returns.

    To be called when all is closed: the interpreter itself would wait for them.
    """
    if any(thread is not threading.main_thread() and not thread.daemon for thread in threading.enumerate()):
        logging.shutdown()
        sys.stdout.flush()
        os._exit(0)


class CannotListen(ValueError):
    """An address at which this machine cannot listen."""


def raise_open_files(wanted: int = 4 * MOST_CONNECTIONS) -> int:
    """Raise this process's limit of open files as far as the system allows, up to ``wanted``. Return the limit."""
    if sys.platform == "win32":
        return wanted
    import resource  # noqa: PLC0415 - not on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    infinite = resource.RLIM_INFINITY
    if soft == infinite:
        return wanted
    higher = wanted if hard == infinite else min(wanted, hard)
    if higher > soft:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (higher, hard))
    return int(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def listen(host: str, port: int) -> list[socket.socket]:
    """Sockets at all addresses of a host. Raises ``CannotListen`` with the reason."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        places = dict.fromkeys((family, address) for family, _, _, _, address in found)
        sockets = [_listen_at(family, address) for family, address in places]
    except OSError as error:
        reason = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        raise CannotListen(f"can't listen on {host}, port {port}: {reason}") from error
    listening = [one for one in sockets if one is not None]
    if not listening:
        raise CannotListen(f"can't listen on {host}, port {port}: this machine has no such address")
    return listening


def listening_socket(address: Any, family: int = socket.AF_INET) -> socket.socket:
    """A socket that listens at an address. Its connections send small answers at once. Raises ``OSError``."""
    listening = socket.create_server(address, family=family, backlog=BACKLOG)
    # Connections inherit it; without it plain asyncio holds the end of an answer back for some 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _listen_at(family: int, address: Any) -> socket.socket | None:
    try:
        return listening_socket(address, family)
    except OSError as error:
        if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):  # a name's IPv6 address where there is no IPv6
            return None
        raise


class ServerConfig(uvicorn.Config):
    """How the server runs, for this process or to be sent to others."""

    def __init__(self, app: ASGIApp | str, settings: ServiceSettings, **more: Any) -> None:
        self._settings = settings
        super().__init__(
            app,
            access_log=False,
            lifespan="on",
            ws="none",
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=settings.shutdown_seconds,
            **more,
        )

    def load(self) -> None:
        """Makes the protocol where it is used: a class made for its limits can't be sent to another process."""
        self.http = limited_protocol(
            self._settings.header_limit,
            self._settings.header_seconds,
            connections=min(MOST_CONNECTIONS, raise_open_files() // 2),
            connections_per_address=self._settings.connections_per_address,
            trusted=networks(self._settings.trusted_proxies),
        )
        try:
            super().load()
        except Exception:
            _log.exception("the service could not be made")
            sys.exit(STARTUP_FAILURE)  # tells a supervisor that another process would fail alike


class Server(uvicorn.Server):
    """uvicorn's, which ends at once when it is interrupted twice, and in a process of its own collects little garbage.

    What is there when it starts stays to the end; to look through all of that now and then would hold up every caller
    for some 80 ms.
    """

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins to listen."""
        await super().startup(sockets)
        if threading.current_thread() is threading.main_thread():
            gc.collect()
            gc.freeze()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answers what is under way, and ends."""
        await super().shutdown(sockets)
        gc.unfreeze()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A second Ctrl-C ends at once, whatever threads still compute: nobody waits for it any more."""
        if self.should_exit and sig == signal.SIGINT:
            os._exit(INTERRUPTED)
        if isinstance(self.config.app, Starlette):
            self.config.app.state.stopping = True
        super().handle_exit(sig, frame)


@contextmanager
def _terminated_once() -> Iterator[None]:
    """The server raises the signal that stopped it again, which would end the process before our caller cleans up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
