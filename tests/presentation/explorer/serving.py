"""Run ``holderlake explore`` as a process."""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.helpers.processes import PATIENCE, PIPE, start_holderlake
from tests.helpers.real import missing

ROOT: Final = Path(__file__).parents[3]
MODULES: Final = ROOT / "web" / "node_modules"


@contextmanager
def exploring(home: Path, *options: str, **settings: str) -> Iterator[str]:
    """Start the explorer of a home and yield its address; it must exit cleanly on SIGTERM.

    ``options`` are those of the command, and ``settings`` further variables of its environment.
    """
    environment = os.environ | {"HOLDERLAKE_HOME": str(home)} | settings
    with start_holderlake("explore", "--port", "0", *options, env=environment, stderr=PIPE) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", said)
        more: list[str] = []
        reading = threading.Thread(target=lambda: more.extend(process.stderr or ()), daemon=True)
        reading.start()  # a full pipe would hold it up
        try:
            assert found, said
            yield found[0]
        finally:
            process.terminate()
            process.wait(PATIENCE)
            reading.join(5)
    assert (process.returncode, more) == (0, []), "".join(more)


def built_with() -> Path:
    """Return the folder of the page's libraries. Without it, skip or fail the test."""
    if shutil.which("node") is None or not (MODULES / ".package-lock.json").exists():
        missing("the page's libraries are not installed; 'npm ci --prefix web' installs them")
    return MODULES
