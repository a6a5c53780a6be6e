"""What commands print while they run."""

from __future__ import annotations

import subprocess
import sys

REDIRECTED = """
import os
from holderlake import console
with console.progress("filling", 2):
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    console.err.print("half of it is done")
console.err.print("this is lost")
"""


def test_progress_is_seen_while_standard_error_is_redirected_as_dagster_does() -> None:
    command = [sys.executable, "-c", REDIRECTED]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "half of it is done" in ended.stderr
    assert "this is lost" not in ended.stderr
