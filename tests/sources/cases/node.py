"""The made-up node of ``tools/fakenode.py``, as a process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TOOLS = Path(__file__).parent / "tools"
TOKEN = "0x" + "70" * 20


@contextmanager
def made_up_node(mode: str, *arguments: str) -> Iterator[str]:
    """Start the node in a mode of ``fakenode.py --help``, and give its address."""
    command = [sys.executable, "-I", "-S", str(TOOLS / "fakenode.py"), mode, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
