"""Work in processes that are killed (SIGKILL) when they change a file: each at another of its changes.

``python -m tests.helpers.killing MODULE:FUNCTION FOLDER…`` runs the function on the first folder to its end and counts
its changes. On each further folder a forked process runs it until its n-th change, and is killed there.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
_CHANGES: Final = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.chmod", "sqlite3.connect"}


def kill_everywhere(work: str, folders: Sequence[Path], **env: str) -> None:
    """Run ``work`` to its end on the first folder, and kill it at different changes on each other folder."""
    command = [sys.executable, "-m", "tests.helpers.killing", work, *map(str, folders)]
    ended = subprocess.run(
        command, cwd=ROOT, env=os.environ | env, capture_output=True, text=True, timeout=1200, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == ["0", *["-9"] * (len(folders) - 1)], ended.stdout + ended.stderr


def _main(work: str, folders: Sequence[str]) -> None:
    module, _, name = work.partition(":")
    function: Callable[[Path], None] = getattr(import_module(module), name)
    reader, writer = os.pipe()
    codes = [_forked(lambda: os.write(writer, b"%d" % _counted(function, Path(folders[0]))))]
    changes = int(os.read(reader, 20))
    assert changes >= len(folders) - 1, f"only {changes} changes"
    for number, folder in enumerate(folders[1:]):
        last = 1 + number * changes // (len(folders) - 1)
        codes.append(_forked(lambda last=last, folder=folder: _killed(function, Path(folder), last)))
    sys.stdout.write(" ".join(map(str, codes)))


def _forked(run: Callable[[], Any]) -> int:
    """Run a function in a forked process, and return its exit code, negative for a signal."""
    child = os.fork()
    if not child:
        code = 1
        try:
            run()
            code = 0
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _counted(function: Callable[[Path], None], folder: Path) -> int:
    changes = []
    sys.addaudithook(lambda event, arguments: changes.append(event) if _is_change(event, arguments) else None)
    function(folder)
    return len(changes)


def _killed(function: Callable[[Path], None], folder: Path, last: int) -> None:
    """Run a function until the process is about to make its change number ``last``."""
    left = iter(range(last - 1))

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if _is_change(event, arguments) and next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    function(folder)


def _is_change(event: str, arguments: tuple[Any, ...]) -> bool:
    """Return whether an audit event is a change of a file, or opens one to write."""
    if event == "open":
        return bool(arguments[2] & (os.O_WRONLY | os.O_RDWR)) if isinstance(arguments[2], int) else False
    return event in _CHANGES


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2:])
