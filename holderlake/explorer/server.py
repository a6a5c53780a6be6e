"""Runs the web server of the explorer, the web page that shows the warehouse's maps, on this machine."""

from __future__ import annotations

import socket
import webbrowser
from collections.abc import Callable
from typing import Final

import uvicorn
from starlette.applications import Starlette

from holderlake.explorer.app import Links, create_app
from holderlake.service.runtime.protocol import limited_protocol
from holderlake.signals import until_stopped
from holderlake.warehouse.warehouse import Warehouse

_HEADER_BYTES: Final = 64 << 10
_HEADER_SECONDS: Final = 10.0
"""Seconds after which a connection without a request is closed."""
_CONNECTIONS: Final = 400


def serve(warehouse: Warehouse, host: str, port: int, opening: bool, say: Callable[[str], None], links: Links) -> None:
    """Serve the explorer's page until SIGTERM or Ctrl-C. Port 0 takes a free port.

    ``opening`` opens the page in the browser. ``say`` is called with a line that has the page's address. ``links`` are
    the pages of block explorers, see ``create_app``. Raises ``WarehouseError`` if there is no warehouse, and
    ``ValueError`` if the port cannot be used.
    """
    warehouse.connect().close()
    listening = _listen(host, port)
    url_host = f"[{host}]" if ":" in host else host
    address = f"http://{url_host}:{listening.getsockname()[1]}/"
    say(f"The explorer is at {address} (read-only; stop with Ctrl-C)")
    if opening:
        webbrowser.open(address)
    with until_stopped():
        uvicorn.Server(config_of(create_app(warehouse, [host], links))).run([listening])


def config_of(app: Starlette, header_seconds: float = _HEADER_SECONDS) -> uvicorn.Config:
    """Return the configuration of the server. A connection without a complete request is closed after that time."""
    return uvicorn.Config(
        app,
        http=limited_protocol(_HEADER_BYTES, header_seconds, _CONNECTIONS),
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
    )


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address, family=family)
    except OSError as error:
        raise ValueError(
            f"cannot listen on {host}, port {port}: {error.strerror}; use --port 0 for a free port"
        ) from error
