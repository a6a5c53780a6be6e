"""The server as a process: over standard input, and over HTTP with a token."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.helpers.processes import PATIENCE, PIPE, start_holderlake
from tests.presentation.explorer.world import TIDE
from tests.presentation.mcp.client import COMMAND  # it skips the module if the SDK is missing

pytestmark = pytest.mark.integration


async def asked(transport: Any) -> Any:
    from mcp import Client

    async with Client(transport) as client:
        return await client.call_tool("find_tokens", {"text": "tide"})


def test_an_assistant_starts_the_server_as_a_program(home: Path) -> None:
    from mcp import StdioServerParameters, stdio_client

    program, *arguments = COMMAND
    environment = {"HOLDERLAKE_HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    started = StdioServerParameters(command=program, args=[*arguments, "mcp"], env=environment)
    found = asyncio.run(asked(stdio_client(started)))
    assert found.structured_content["rows"][0][1] == TIDE


@pytest.fixture(scope="module")
def address(home: Path) -> Iterator[str]:
    """The address of a server that needs the token ``right``. It ends in order at SIGTERM."""
    environment = os.environ | {"HOLDERLAKE_HOME": str(home), "HOLDERLAKE_MCP_TOKEN": "right"}
    with start_holderlake("mcp", "--http", "--port", "0", env=environment, stderr=PIPE) as process:
        assert process.stderr is not None
        match = re.search(r"http://127\.0\.0\.1:\d+/mcp", process.stderr.readline())
        assert match
        yield match[0]
        process.terminate()
        assert process.wait(PATIENCE) == 0


@pytest.mark.long
@pytest.mark.parametrize("header", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer right"}])
def test_http_needs_the_token(address: str, header: dict[str, str]) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    accepted = {"Accept": "application/json, text/event-stream"}
    status = httpx.post(address, json=message, headers=header | accepted, timeout=PATIENCE).status_code
    other = httpx.post(address, json=message, headers=header | accepted | {"Host": "evil.example"}, timeout=PATIENCE)
    assert (status == 401) == (header.get("Authorization") != "Bearer right")
    assert other.status_code >= 400
