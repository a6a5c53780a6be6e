"""The processes that tests start, all forked from one: how each of them ended is told, however many end at once."""

from __future__ import annotations

import pytest

from tests.processes import DEVNULL, PIPE, start

WAITS = "import sys; sys.stdin.readline(); sys.exit(3)"


@pytest.mark.parametrize("attempt", range(4))
def test_of_processes_that_end_at_once_each_one_s_end_is_told(attempt: int) -> None:
    processes = [start(WAITS, stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL) for _ in range(16)]
    for process in processes:
        assert process.stdin
        process.stdin.close()
    assert [process.wait(20) for process in processes] == [3] * 16
