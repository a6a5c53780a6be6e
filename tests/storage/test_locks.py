"""Locks that tasks, threads and processes share."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from holderlake.storage.locks import locked, locked_for_task

HOLD = """
import sys, time
from pathlib import Path
from holderlake.storage.locks import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


class Held(Exception):
    pass


def test_a_held_lock_is_refused_or_waited_for_until_its_process_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "lock"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(Held), locked(path, Held()):
            pass
        holder.kill()
    with locked(path):
        assert path.exists()


def add_one(path: Path, times: int) -> None:
    """Read a number and write the next one, each time under the lock."""

    async def add() -> None:
        async with locked_for_task(path.with_suffix(".lock")):
            number = int(path.read_text())
            await asyncio.sleep(0.001)
            path.write_text(str(number + 1))

    async def run() -> None:
        await asyncio.gather(*(add() for _ in range(times)))

    asyncio.run(run())


def test_tasks_of_several_processes_hold_a_lock_one_at_a_time(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    with ProcessPoolExecutor(3, get_context("spawn")) as processes:
        list(processes.map(add_one, [counter] * 3, [20] * 3))
    assert counter.read_text() == "60"
    assert [path.name for path in tmp_path.iterdir()] == ["counter"]  # each lock removed its file
