"""What ``tests.processes`` forks processes from: a Python that has imported what they need, and started nothing.

It reads requests from the socket whose number is its argument. A request is the length of a text and the ends of pipes,
then the text, as JSON: what to import before the fork, and the code, arguments, environment and folder of the process.
Through the last pipe it says the id of the process, and how it ended when it has.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from typing import Any, Final, NoReturn

HEAD: Final = 8
"""Bytes of the length of a request."""
PIPES: Final = 4
"""Standard input, output and error, and where the end of the process is told."""

_ended_to: dict[int, int] = {}


def main() -> None:
    """Forks until nobody asks any more."""
    asked = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGCHLD, _tell_of_the_ended)
    while True:
        head, pipes, *_ = socket.recv_fds(asked, HEAD, PIPES)
        if not head:
            os._exit(0)
        request = json.loads(_received(asked, int.from_bytes(head)))
        for name in request["imports"]:
            if name not in sys.modules:
                with suppress(Exception):  # the process itself tells of it
                    importlib.import_module(name)
                gc.freeze()  # or a collection would copy all of it into each process
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})  # one that ends at once is known by then
        process = os.fork()
        if not process:
            asked.close()
            _become(request, pipes)
            _run(request["code"])
        *given, told = pipes
        for pipe in given:
            os.close(pipe)
        _ended_to[process] = told
        os.write(told, f"{process}\n".encode())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


def _received(asked: socket.socket, length: int) -> bytes:
    read = bytearray()
    while len(read) < length:
        read += asked.recv(length - len(read))
    return bytes(read)


def _tell_of_the_ended(*_: object) -> None:
    for process in list(_ended_to):  # others, which an import started, are not ours to wait for
        try:
            ended, status = os.waitpid(process, os.WNOHANG)
        except ChildProcessError:  # another signal came meanwhile, and told of it
            continue
        if not ended:
            continue
        told = _ended_to.pop(process)
        with suppress(BrokenPipeError):  # nobody waits for it
            os.write(told, f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os.close(told)


def _become(request: dict[str, Any], pipes: list[int]) -> None:
    """Leaves of this process what a started one would have."""
    for number, pipe in enumerate(pipes[:-1]):
        os.dup2(pipe, number)
    for pipe in (*pipes, *_ended_to.values()):
        os.close(pipe)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.argv = ["-c", *request["arguments"]]


def _run(code: str) -> NoReturn:
    """Runs code and ends as Python does, but for taking all modules apart, which would take a second."""
    status = 0
    try:
        exec(code, {"__name__": "__main__"})
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    threading._shutdown()  # waits for threads
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(status)
