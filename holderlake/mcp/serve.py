"""Run the MCP server, over standard input and output or over HTTP on this machine."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import uvicorn

from holderlake.mcp.server import make_server, protected
from holderlake.mcp.spending import Spending
from holderlake.warehouse.warehouse import Warehouse

_HOST: Final = "127.0.0.1"
_TOKEN: Final = "HOLDERLAKE_MCP_TOKEN"  # noqa: S105 - the name of a variable
_COMMAND: Final = (sys.executable, "-m", "pipelines.cli.main")


def serve(warehouse: Warehouse, http: bool, port: int, allow_spending: bool, say: Callable[[str], None]) -> None:
    """Serve the warehouse until the client leaves or Ctrl-C.

    Over HTTP, clients need a token: that of the variable ``HOLDERLAKE_MCP_TOKEN``, or a new one. ``say`` is called with
    lines for the user. Raises ``WarehouseError`` if there is no warehouse, and ``ValueError`` if the port is taken.
    """
    warehouse.connect().close()
    server = make_server(warehouse, Spending(_COMMAND, allow_spending))
    if not http:
        with suppress(KeyboardInterrupt):
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
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run([listening])
