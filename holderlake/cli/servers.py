"""Commands that run until they are stopped: ``holderlake serve``, ``explore``, ``mcp`` and ``ui``."""

from __future__ import annotations

import socket
import sys
import tempfile
import threading
import time
import webbrowser
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from holderlake.cli import shared
from holderlake.cli.shared import HOST, PORT, Host, Open, Port
from holderlake.core import extras
from holderlake.presentation import console


def serve(
    host: Annotated[str | None, HOST] = None,
    port: Annotated[int | None, PORT] = None,
    sample: Annotated[bool, typer.Option("--sample", help="Serve the sample world instead of your own store.")] = False,
    processes: Annotated[int | None, typer.Option(min=1, max=1_024, help="Worker processes.")] = None,
    log: Annotated[
        Literal["json", "text", "off"] | None,
        typer.Option(help="Format of the request log."),
    ] = None,
) -> None:
    """Serve the /v0 API over the engine's store. Stop it with Ctrl-C.

    Host, port, processes and log format are those of the settings, unless options give others.

    Example: holderlake serve

    Example: holderlake serve --sample --port 8080
    """
    from holderlake.service.serve import serve as run_service

    settings = shared.settings().with_values("service", host=host, port=port, processes=processes, log=log)
    raise typer.Exit(run_service(settings, sample, partial(console.err.print, soft_wrap=True)))


def explore(
    host: Host = "127.0.0.1",
    port: Port = 8015,
    opening: Open = False,
    edit: Annotated[
        bool, typer.Option("--edit", help="Let readers name wallets; names are labels of your store.")
    ] = False,
) -> None:
    """Serve a web page of the warehouse: maps through time, holders, clusters. Stop it with Ctrl-C.

    By default it only reads, and only this machine can read it. Port 0 takes a free port.

    Example: holderlake explore --open

    Example: holderlake explore --edit
    """
    from holderlake.engine.settings import store_folder
    from holderlake.presentation.explorer.app import PageOptions
    from holderlake.presentation.explorer.app import serve as serve_page
    from holderlake.presentation.settings import ExplorerSettings
    from holderlake.sources.store import name_address

    workspace = shared.reading()
    page, provider = workspace.settings.section(ExplorerSettings), workspace.settings.provider
    is_sample = provider.url is None and provider.local == "sample"
    if edit and is_sample and not store_folder(workspace.settings).exists():
        raise ValueError(
            "--edit stores names in your own store, which this home lacks: import transfers or labels first"
        )
    options = PageOptions(page.links, page.embed_in, partial(name_address, workspace) if edit else None)
    serve_page(workspace.warehouse, host, port, opening, partial(console.err.print, soft_wrap=True), options)


def ui(port: Port = 3000, opening: Open = False) -> None:
    """Start Dagster's web UI and daemon on this home. Stop them with Ctrl-C.

    Only this machine can read it. With --open, the browser shows the lineage of all assets.

    Example: holderlake ui --port 3001
    """
    from holderlake.core.signals import run_until_stopped
    from holderlake.operations.history.instance import prepare_dagster_home

    prepare_dagster_home(shared.settings().dagster_home)
    if not extras.is_installed("dagster_webserver"):
        raise extras.missing("dagster_webserver")
    lineage = f"http://127.0.0.1:{port}/asset-groups"
    console.err.print(f"The lineage of all assets: {lineage}", soft_wrap=True)
    if opening:
        threading.Thread(target=_open_when_served, args=(lineage, port), daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        code = run_until_stopped(_processes_of_ui(Path(folder), port))
    if code is not None:
        from holderlake.errors import RunFailed

        raise RunFailed("Dagster's page, its daemon or the code server has ended, see the log above; start it again")


def _processes_of_ui(folder: Path, port: int) -> Iterator[list[str] | None]:
    """Yield the commands of Dagster's code server, page and daemon, which share the server's socket in ``folder``.

    ``dagster dev`` runs the same ones in a process that needs as much memory as the page.
    """
    server, workspace = folder / "code-server", folder / "workspace.yaml"
    location = ["--module-name", "holderlake.pipelines.definitions", "--location-name", "holderlake"]
    dagster, page, daemon = (
        str(Path(sys.executable).with_name(name)) for name in ("dagster", "dagster-webserver", "dagster-daemon")
    )
    workspace.write_text(f"load_from: [{{grpc_server: {{socket: '{server}', location_name: holderlake}}}}]\n", "utf-8")
    yield [dagster, "code-server", "start", "--socket", str(server), *location, "--log-level", "warning"]
    while not server.exists():  # it has loaded the definitions then; a page without them shows an error first
        yield None
    yield [page, "--workspace", str(workspace), "--host", "127.0.0.1", "--port", str(port)]
    yield [daemon, "run", "--workspace", str(workspace)]


def _open_when_served(address: str, port: int) -> None:
    """Open a page of this machine in the browser once its port accepts connections."""
    while True:
        with socket.socket() as caller:
            if not caller.connect_ex(("127.0.0.1", port)):
                break
        time.sleep(0.5)
    webbrowser.open(address)


def mcp(
    http: Annotated[bool, typer.Option("--http", help="Listen on this machine, instead of standard input.")] = False,
    port: Port = 8017,
    allow_spending: Annotated[
        bool,
        typer.Option("--allow-spending", help="Offer a tool that fetches planned data within its credits."),
    ] = False,
) -> None:
    """Serve the warehouse to assistants (Model Context Protocol), read-only. With --http, a token is printed.

    With --http, port 0 takes a free port.

    Example: holderlake mcp --http
    """
    if not extras.is_installed("mcp"):
        raise extras.missing("mcp")
    from holderlake.presentation.mcp.server import serve as serve_mcp

    workspace = shared.reading()
    serve_mcp(workspace.warehouse, http, port, allow_spending, partial(console.err.print, soft_wrap=True))
