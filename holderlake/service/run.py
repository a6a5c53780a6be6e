"""Runs the service in a thread of this process, on a free port. ``serve`` runs it as a program."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from starlette.types import ASGIApp

from holderlake.engine.store.store import Store
from holderlake.service.app import create_app
from holderlake.service.billing.keys import KeyStore
from holderlake.service.observability import Log, log_config
from holderlake.service.runtime.server import Server, listening_socket, server_config
from holderlake.service.settings import ServiceSettings

_DEFAULTS = ServiceSettings()


class BackgroundApp:
    """A context manager that runs an ASGI app in a thread, on loopback at ``base_url``. It can be entered once."""

    def __init__(self, app: ASGIApp, settings: ServiceSettings = _DEFAULTS, log: Log | None = None) -> None:
        # Without a log it leaves the logging configuration of the process unchanged.
        self._server = Server(server_config(app, settings, log_config=log_config(log) if log else None))
        self._thread = threading.Thread(target=self._run, name="service", daemon=True)
        self._failure: BaseException | None = None
        self.base_url = ""

    def __enter__(self) -> Self:
        self._socket = listening_socket(("127.0.0.1", 0))
        host, port = self._socket.getsockname()
        self.base_url = f"http://{host}:{port}"
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.005)
        if not self._server.started:
            self._socket.close()
            raise RuntimeError("the service could not start: see the log of 'uvicorn.error'") from self._failure
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


class BackgroundService(BackgroundApp):
    """A context manager that runs the service in a thread.

    ``log`` configures logging for the complete process. By default requests are not logged.
    """

    def __init__(
        self, store: Store, keys: KeyStore, settings: ServiceSettings = _DEFAULTS, log: Log | None = None
    ) -> None:
        super().__init__(create_app(store, keys, settings), settings, log)
