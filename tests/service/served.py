"""A small app on the service's server, as a program; arguments: port, number of processes, settings."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.config import STARTUP_FAILURE

from holderlake.service.observability import Metrics, ObservabilityMiddleware
from holderlake.service.runtime.processes import follow_supervisor, serve_processes
from holderlake.service.runtime.server import leave_threads, listen, serve_app
from holderlake.service.settings import ServiceSettings

BROKEN = "TESTS_BROKEN"
"""An environment variable that makes the app's start fail."""


def app() -> Starlette:
    """Return an app: ``/slow`` waits for a file, ``/thread`` never answers, ``/process`` returns the process's id."""
    follow_supervisor()
    if BROKEN in os.environ:
        sys.exit(STARTUP_FAILURE)
    metrics = Metrics()

    async def slow(request: Request) -> Response:
        while not Path(request.query_params["until"]).exists():
            await asyncio.sleep(0.01)
        return PlainTextResponse("answered in full")

    def thread(_: Request) -> Response:
        time.sleep(600)
        return PlainTextResponse("answered in full")

    async def process(_: Request) -> Response:
        return PlainTextResponse(str(os.getpid()))

    async def shown(_: Request) -> Response:
        return PlainTextResponse(metrics.text()())

    routes = {"/slow": slow, "/thread": thread, "/process": process, "/metrics": shown}
    return Starlette(
        routes=[Route(path, endpoint) for path, endpoint in routes.items()],
        middleware=[Middleware(ObservabilityMiddleware, metrics=metrics)],
    )


def main() -> int:
    """Serve in several processes, or in this one if their number is 0."""
    port, processes, settings = (json.loads(argument) for argument in sys.argv[1:])
    sockets, chosen = listen("127.0.0.1", port), ServiceSettings(**settings)
    if processes:
        return serve_processes("tests.service.served:app", processes, sockets, chosen, "off")
    serve_app(app(), sockets, chosen, "off")
    sys.stdout.write("closed in order")
    leave_threads()
    return 0
