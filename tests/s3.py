"""A real S3 server of the tests' own (moto), on a free port of this machine."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from tests.real import missing

KEYS = {"access_key_id": "testing", "secret_access_key": "testing"}


def require_s3() -> None:
    """Skips the test where the server or the client is not installed, or fails it where real parts are required."""
    lacking = [name for name in ("obstore", "moto", "flask", "flask_cors") if importlib.util.find_spec(name) is None]
    if lacking:
        missing(f"object storage can't be tried here, for {', '.join(lacking)} is missing: 'make extras'")


@contextmanager
def s3_server() -> Iterator[str]:
    """The server's address while it runs."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    app, turn = server._server.app, Lock()

    def one_at_a_time(environ: Any, respond: Any) -> Any:
        with turn:  # moto looks at a put's condition and then puts: in between another thread may
            return app(environ, respond)

    server._server.app = one_at_a_time
    try:
        yield "http://{}:{}".format(*server.get_host_and_port())
    finally:
        server.stop()
