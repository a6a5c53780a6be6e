"""Commands that run long end in order on SIGTERM as on Ctrl-C, also where SIGINT was inherited as ignored."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holderlake.core.signals import run_until_stopped, until_stopped
from tests.helpers.chain.scripted import TOKEN, MadeUpChain, ScriptedNode
from tests.helpers.processes import HOLDERLAKE, PATIENCE, PIPE, Process, start, wait_until
from tests.presentation.explorer.world import fill

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to send"),
]
IGNORED = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "


@pytest.fixture(autouse=True)
def ignored_interrupt() -> Iterator[None]:
    """Ignore SIGINT as in the background of a script, and check that this is restored."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    assert signal.signal(signal.SIGINT, before) is signal.SIG_IGN


async def _wait(stop: signal.Signals) -> None:
    asyncio.get_running_loop().call_soon(signal.raise_signal, stop)
    await asyncio.Event().wait()


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("wait", [signal.raise_signal, lambda stop: asyncio.run(_wait(stop))])
def test_a_stop_leaves_the_block_without_an_error(wait: Callable[[signal.Signals], None], stop: signal.Signals) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with until_stopped():
        wait(stop)
        pytest.fail("the signal did not end the block")
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_stop_ends_a_command_with_its_children(tmp_path: Path) -> None:
    child = tmp_path / "child"
    script = f"sleep 1000 & echo $! > {child}; kill -TERM {os.getpid()}; wait"
    assert run_until_stopped([["sh", "-c", script]]) is None
    wait_until(lambda: not _runs(int(child.read_text())))


def test_the_end_of_a_command_ends_the_others_with_its_code(tmp_path: Path) -> None:
    other = tmp_path / "other"
    commands = [["sh", "-c", f"echo $$ > {other}; exec sleep 1000"], ["sh", "-c", "exit 7"]]
    assert run_until_stopped(command for command in commands) == 7
    assert not other.exists() or not _runs(int(other.read_text()))


def test_a_stop_while_a_command_starts_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    start_process, started = subprocess.Popen, []

    def start_and_stop(*command: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(start_process(*command, **options))
        signal.raise_signal(signal.SIGTERM)
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", start_and_stop)
    assert run_until_stopped([["sleep", "1000"]]) is None
    assert started[0].returncode == -signal.SIGTERM


def _runs(pid: int) -> bool:
    """Return whether a process runs. One that has ended may stay in the list until its new parent notices."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], check=False, capture_output=True, text=True).stdout
    return bool(state.strip()) and not state.startswith("Z")


def _stopped(process: Process) -> tuple[int, str]:
    process.terminate()
    if process.stdin is None:
        _, errors = process.communicate(timeout=PATIENCE)
        return process.returncode, errors
    code = process.wait(PATIENCE)  # its standard input stays open
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdin, process.stdout, process.stderr:
        return code, process.stderr.read()


def test_sigterm_ends_a_follower_in_order(tmp_path: Path) -> None:
    with ScriptedNode(MadeUpChain(3).answer) as node:
        arguments = ["import", "node", node.url, "--chain", "eth", "--token", TOKEN, "--follow", "--json"]
        environment = os.environ | {"HOLDERLAKE_HOME": str(tmp_path)}
        process = start(IGNORED + HOLDERLAKE, *arguments, env=environment, stdout=PIPE, stderr=PIPE)
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["added"] == 3
        assert _stopped(process) == (0, "")


@pytest.mark.long
def test_sigterm_ends_an_mcp_server_whose_client_waits(tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    environment = os.environ | {"HOLDERLAKE_HOME": str(fill(tmp_path).path.parent)}
    process = start(IGNORED + HOLDERLAKE, "mcp", env=environment, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["id"] == 1
    assert _stopped(process) == (0, "")
