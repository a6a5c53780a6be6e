"""A small app on the service's server, as a program; its arguments are the port, the processes and settings."""

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

from holderlake.service.observability import Metrics, ObservabilityMiddleware
from holderlake.service.runtime.processes import follow_supervisor, serve_processes
from holderlake.service.runtime.server import leave_threads, listen, serve_app
from holderlake.settings.sections.service import ServiceSettings

BROKEN = "TESTS_BROKEN"
"""A variable that keeps the app from starting."""


def app() -> Starlette:
    """``/slow`` is answered when a file is there, ``/thread`` never, ``/process`` by the id of who answers."""
    follow_supervisor()
    if BROKEN in os.environ:
        raise RuntimeError("the app is broken")
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
    """Serves in this process where none of its own are asked for."""
    port, processes, settings = (json.loads(argument) for argument in sys.argv[1:])
    sockets, chosen = listen("127.0.0.1", port), ServiceSettings(**settings)
    if processes:
        return serve_processes("tests.service.served:app", processes, sockets, chosen, "off")
    serve_app(app(), sockets, chosen, "off")
    sys.stdout.write("closed in order")
    leave_threads()
    return 0
