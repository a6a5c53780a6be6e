"""A real S3 server (moto) for tests, on a free port of this machine."""

from __future__ import annotations

import importlib.util
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from tests.helpers.real import missing

KEYS = {"access_key_id": "testing", "secret_access_key": "testing"}


def require_s3() -> None:
    """Skip the test if server or client is not installed; fail it where real parts are required."""
    lacking = [name for name in ("obstore", "moto", "flask", "flask_cors") if importlib.util.find_spec(name) is None]
    if lacking:
        missing(f"object storage can't be tested here, because {', '.join(lacking)} is missing: run 'make extras'")


def s3_bucket(server: str, name: str) -> None:
    """Create a bucket."""
    urllib.request.urlopen(urllib.request.Request(f"{server}/{name}", method="PUT")).close()


@contextmanager
def s3_server(conditional_puts: bool = True) -> Iterator[str]:
    """Yield the address of a server; without ``conditional_puts`` it ignores conditions, as several S3 servers do."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    app, lock = server._server.app, Lock()

    def one_at_a_time(environ: Any, respond: Any) -> Any:
        if not conditional_puts:
            environ = {name: text for name, text in environ.items() if not name.startswith("HTTP_IF_")}
        with lock:  # moto checks a put's condition before it puts: another thread could put in between
            return app(environ, respond)

    server._server.app = one_at_a_time
    try:
        yield "http://{}:{}".format(*server.get_host_and_port())
    finally:
        server.stop()
