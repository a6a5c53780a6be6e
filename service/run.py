"""Runs the service: in the foreground for an operator, or beside other work on a port that the system chooses."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self

import uvicorn

from engine.store import Store
from service.app import create_app
from service.keys import KeyStore
from service.settings import ServiceSettings

_DEFAULTS = ServiceSettings()


def serve(store: Store, keys: KeyStore, host: str, port: int, settings: ServiceSettings = _DEFAULTS) -> None:
    """Serves until the process is told to stop; requests that are under way are answered first. Then it returns."""
    with suppress(KeyboardInterrupt), _terminated_once():
        _server(store, keys, settings, host=host, port=port).run()


class BackgroundService:
    """The service in a thread of this process, on loopback; ready when the ``with`` block begins.

    ``base_url`` is where it listens, without a path. To be entered once.
    """

    def __init__(self, store: Store, keys: KeyStore, settings: ServiceSettings = _DEFAULTS) -> None:
        # No logging configuration: the process that the thread is in has its own.
        self._server = _server(store, keys, settings, log_config=None)
        self._thread = threading.Thread(target=self._run, name="service", daemon=True)
        self._failure: BaseException | None = None
        self.base_url = ""

    def __enter__(self) -> Self:
        self._socket = socket.create_server(("127.0.0.1", 0))
        host, port = self._socket.getsockname()
        self.base_url = f"http://{host}:{port}"
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.005)
        if not self._server.started:
            self._socket.close()
            raise RuntimeError("the service could not start; its log says why") from self._failure
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join()

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        except BaseException as failure:
            self._failure = failure


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


def _server(store: Store, keys: KeyStore, settings: ServiceSettings, **config: Any) -> uvicorn.Server:
    app = create_app(store, keys, settings)
    return uvicorn.Server(
        uvicorn.Config(
            app,
            access_log=False,
            lifespan="on",
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=settings.shutdown_seconds,
            **config,
        )
    )
