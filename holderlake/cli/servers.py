"""Commands that run until they are stopped: ``holderlake serve``, ``explore``, ``metrics`` and ``ui``."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from holderlake import console, extras
from holderlake.cli import shared


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on; default: the settings'.")] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65_535, help="Port to listen on; default: the settings'.")
    ] = None,
    sample: Annotated[bool, typer.Option("--sample", help="Serve the sample world instead of your own store.")] = False,
    processes: Annotated[
        int | None, typer.Option(min=1, max=1_024, help="Worker processes; default: the settings'.")
    ] = None,
    log: Annotated[
        Literal["json", "text", "off"] | None,
        typer.Option(help="Format of the request log; default: the settings'."),
    ] = None,
) -> None:
    """Serve the /v0 API over the engine's store. Stop it with Ctrl-C."""
    from holderlake.local.serve import serve as run_service

    settings = shared.settings().with_service(host=host, port=port, processes=processes, log=log)
    raise typer.Exit(run_service(settings, sample))


def explore(
    host: Annotated[str, typer.Option(help="Address to listen on; only this machine can read the default one.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 takes a free one.")] = 8015,
    opening: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Serve a read-only web page of the warehouse: maps through time, holders, clusters. Stop it with Ctrl-C."""
    from holderlake.explorer.app import serve as serve_page

    workspace = shared.reading()
    explorer_settings = workspace.settings.explorer
    links = {"address": explorer_settings.address_links, "transaction": explorer_settings.transaction_links}
    serve_page(workspace.warehouse, host, port, opening, partial(console.err.print, soft_wrap=True), links)


def metrics(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 takes a free one.")] = 8016,
    once: Annotated[bool, typer.Option("--once", help="Print the metrics and end.")] = False,
    to: Annotated[
        Path | None, typer.Option(help="Write the metrics to this file and end; for the node exporter.")
    ] = None,
) -> None:
    """Serve Prometheus metrics of lake, ledger and runs. Stop it with Ctrl-C."""
    from holderlake.cli.metrics import print_metrics, serve_metrics

    if once or to:
        print_metrics(shared.workspace(), to)
    else:
        serve_metrics(shared.workspace(), host, port, partial(console.err.print, soft_wrap=True))


def ui(port: Annotated[int, typer.Option(help="Port to listen on, on this machine only.")] = 3000) -> None:
    """Start Dagster's web UI and daemon on this home. Stop them with Ctrl-C."""
    from holderlake.dagster.application import checkout, definitions_module
    from holderlake.dagster.launch import prepare_dagster_home
    from holderlake.signals import run_until_stopped

    prepare_dagster_home(shared.settings().dagster_home)
    if not extras.is_installed("dagster_webserver"):
        raise extras.missing("dagster_webserver")
    root = checkout()
    source = ["--workspace", str(root / "workspace.yaml")] if root else ["--module-name", definitions_module()]
    dagster = str(Path(sys.executable).with_name("dagster"))
    # Dagster's own advice to use 'dg dev', which needs another package
    os.environ.setdefault("PYTHONWARNINGS", "ignore:Function `dev_command` is superseded")
    raise typer.Exit(run_until_stopped([dagster, "dev", *source, "--host", "127.0.0.1", "--port", str(port)]))


def mcp(
    http: Annotated[bool, typer.Option("--http", help="Listen on this machine, instead of standard input.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on, with --http; 0: a free one.")] = 8017,
    allow_spending: Annotated[
        bool,
        typer.Option("--allow-spending", help="Offer a tool that fetches planned data within its credits."),
    ] = False,
) -> None:
    """Serve the warehouse to assistants (Model Context Protocol), read-only. With --http, a token is printed."""
    if not extras.is_installed("mcp"):
        raise extras.missing("mcp")
    from holderlake.mcp.server import serve as serve_mcp

    workspace = shared.reading()
    serve_mcp(workspace.warehouse, http, port, allow_spending, partial(console.err.print, soft_wrap=True))
