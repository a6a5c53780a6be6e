"""Locks that threads and processes share."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holderlake.core.storage.locks import is_held, locked

HOLD = """
import sys, time
from pathlib import Path
from holderlake.core.storage.locks import locked
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
        assert is_held(path)
        holder.kill()
    assert not is_held(path)
    with locked(path):
        assert path.exists()
