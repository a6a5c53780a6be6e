"""Run the MCP server, over standard input and output or over HTTP on this machine."""

from __future__ import annotations

import os
import secrets
import select
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn

from holderlake.mcp.server import make_server, protected
from holderlake.mcp.spending import Spending
from holderlake.signals import handling, until_stopped
from holderlake.warehouse.warehouse import Warehouse

_HOST: Final = "127.0.0.1"
_TOKEN: Final = "HOLDERLAKE_MCP_TOKEN"  # noqa: S105 - the name of a variable
_CHUNK: Final = 1 << 16
_COMMAND: Final = (sys.executable, "-m", "holderlake.cli.main")


def serve(warehouse: Warehouse, http: bool, port: int, allow_spending: bool, say: Callable[[str], None]) -> None:
    """Serve the warehouse until the client leaves, SIGTERM or Ctrl-C.

    Over HTTP, clients need a token: that of the variable ``HOLDERLAKE_MCP_TOKEN``, or a new one. ``say`` is called with
    lines for the user. Raises ``WarehouseError`` if there is no warehouse, and ``ValueError`` if the port is taken.
    """
    warehouse.connect().close()
    server = make_server(warehouse, Spending(_COMMAND, allow_spending))
    if not http:
        with _input_until_stopped():
            server.run("stdio")
        return
    token = os.environ.get(_TOKEN) or secrets.token_urlsafe(24)
    try:
        listening = socket.create_server((_HOST, port))
    except OSError as error:
        raise ValueError(f"cannot listen on port {port}: {error.strerror}; use --port 0 for a free port") from error
    say(f"The MCP server is at http://{_HOST}:{listening.getsockname()[1]}/mcp (stop with Ctrl-C)")
    if _TOKEN not in os.environ:
        say(f"Its token is {token}; set {_TOKEN} to choose one")
    app = protected(server.streamable_http_app(host=_HOST), token)
    config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False)
    with until_stopped():
        uvicorn.Server(config).run([listening])


@contextmanager
def _input_until_stopped() -> Iterator[None]:
    """In the ``with`` block, end standard input on SIGTERM or Ctrl-C, as if the client had left.

    The server waits for a line in a thread, which no signal and no cancellation interrupts. So its input is a pipe that
    another thread fills from the client's.
    """
    if sys.platform == "win32":  # 'select' works with sockets only
        with until_stopped():
            yield
        return
    client, (reading, writing), (stopped, stop) = os.dup(0), os.pipe(), os.pipe()
    os.dup2(reading, 0)
    os.close(reading)

    def copy() -> None:
        with open(writing, "wb", buffering=0) as to:  # noqa: PTH123 - a descriptor, not a path
            while stopped not in select.select([client, stopped], [], [])[0]:
                lines = os.read(client, _CHUNK)
                if not lines:
                    break
                to.write(lines)

    threading.Thread(target=copy, name="input", daemon=True).start()
    with handling(lambda number, frame: os.write(stop, b"!")):
        yield
