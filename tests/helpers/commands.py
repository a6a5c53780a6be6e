"""The command ``holderlake``, run in the process of the tests.

A new interpreter that imports Dagster takes two to four seconds of CPU. ``tests.helpers.processes`` starts one where a
test is about the process itself: signals, kills, two at a time, or an interpreter that leaves standard error empty.
"""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from unittest.mock import patch

from tests.helpers.processes import ROOT, Ended


def holderlake(*arguments: str, env: Mapping[str, str]) -> Ended:
    """Run the command to its end, with this environment; return its exit code and its output."""
    from holderlake.cli.main import main

    out, err = io.StringIO(), io.StringIO()
    command = ["holderlake", *arguments]
    with (
        patch.dict(os.environ, env, clear=True),
        patch.object(sys, "argv", command),
        patch.object(sys, "stdin", io.StringIO()),
        chdir(ROOT),
        redirect_stdout(out),
        redirect_stderr(err),
        _logging_of_a_command(),
    ):
        code = _exit_code(main)
    return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())


def _exit_code(main: object) -> int:
    assert callable(main)
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    except Exception:
        traceback.print_exc()
        return 1
    return 0


@contextmanager
def _logging_of_a_command() -> Iterator[None]:
    """Log as a new process does: no handler of pytest, and the last resort, which prints warnings."""
    handlers, last = logging.root.handlers[:], logging.lastResort
    logging.root.handlers[:] = []
    try:
        yield
    finally:
        logging.root.handlers[:] = handlers
        logging.lastResort = last
