"""A client of the MCP server, in this process."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.helpers.real import missing

if importlib.util.find_spec("mcp") is None:
    missing("the package mcp is not installed: run 'make extras'")

from anyio.from_thread import BlockingPortal, start_blocking_portal

from holderlake.core.warehouse.warehouse import Warehouse
from holderlake.presentation.mcp.sandbox import Bounds
from holderlake.presentation.mcp.spending import Spending

if TYPE_CHECKING:
    from mcp import Client

COMMAND = (sys.executable, "-m", "holderlake.cli.main")


class Assistant:
    """A client in this process: each call waits for its answer."""

    def __init__(self, portal: BlockingPortal, client: Client) -> None:
        self._portal = portal
        self.client = client

    def wait(self, ask: Callable[..., Any], *arguments: Any) -> Any:
        """Return what an asynchronous function of the client returns."""
        return self._portal.call(ask, *arguments)

    def ask(self, tool: str, **arguments: Any) -> Any:
        """Return the structured answer of a tool; an error is an assertion."""
        found = self.wait(self.client.call_tool, tool, arguments)
        assert not found.is_error, found.content
        return found.structured_content

    def refusal(self, tool: str, **arguments: Any) -> str:
        """Return the text of a tool's error."""
        found = self.wait(self.client.call_tool, tool, arguments)
        assert found.is_error, found
        return " ".join(part.text for part in found.content)

    def rows(self, tool: str, **arguments: Any) -> list[dict[str, Any]]:
        answer = self.ask(tool, **arguments)
        return [dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"]]


@contextmanager
def assisting(warehouse: Warehouse, spending: Spending, seconds: float = 600.0) -> Iterator[Assistant]:
    """Serve a warehouse to a client, with a bound for the seconds of a query."""
    from mcp import Client

    from holderlake.presentation.mcp.server import make_server

    server = make_server(warehouse, spending, Bounds(seconds=seconds))
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(Client(server)) as client:
        yield Assistant(portal, client)
