"""The server as a process: over standard input, and over HTTP with a token."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.explorer.world import TIDE
from tests.mcp.client import COMMAND  # it skips the module if the SDK is missing
from tests.processes import PATIENCE, PIPE, start_holderlake

from mcp import Client, StdioServerParameters, stdio_client  # isort: skip


async def asked(transport: Any) -> Any:
    async with Client(transport) as client:
        return await client.call_tool("find_tokens", {"text": "tide"})


def test_an_assistant_starts_the_server_as_a_program(home: Path) -> None:
    program, *arguments = COMMAND
    environment = {"HOLDERLAKE_HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    started = StdioServerParameters(command=program, args=[*arguments, "mcp"], env=environment)
    found = asyncio.run(asked(stdio_client(started)))
    assert found.structured_content["rows"][0][1] == TIDE


@pytest.mark.parametrize("header", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer right"}])
def test_http_needs_the_token(home: Path, header: dict[str, str]) -> None:
    environment = os.environ | {"HOLDERLAKE_HOME": str(home), "HOLDERLAKE_MCP_TOKEN": "right"}
    with start_holderlake("mcp", "--http", "--port", "0", env=environment, stderr=PIPE) as process:
        assert process.stderr is not None
        said = re.search(r"http://127\.0\.0\.1:\d+/mcp", process.stderr.readline())
        assert said
        message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        accepted = {"Accept": "application/json, text/event-stream"}
        status = httpx.post(said[0], json=message, headers=header | accepted, timeout=60).status_code
        other = httpx.post(said[0], json=message, headers=header | accepted | {"Host": "evil.example"}, timeout=60)
        process.terminate()
        assert process.wait(PATIENCE) == 0
    assert (status == 401) == (header.get("Authorization") != "Bearer right")
    assert other.status_code >= 400
