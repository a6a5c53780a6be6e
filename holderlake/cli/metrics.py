"""The metrics of a home and of its Dagster runs over HTTP, or once as text."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.exposition import generate_latest

from holderlake import console
from holderlake.monitoring.metrics import HomeMetrics, all_metrics, write_textfile
from holderlake.signals import until_stopped
from holderlake.workspace import Workspace


def print_metrics(workspace: Workspace, to: Path | None) -> None:
    """Print all metrics as text, or replace the file ``to`` by them."""
    with _registry(workspace) as registry:
        if to:
            write_textfile(registry, to)
        else:
            console.out.print(generate_latest(registry).decode(), end="", soft_wrap=True)


def serve_metrics(workspace: Workspace, host: str, port: int, say: Callable[[str], None]) -> None:
    """Serve the metrics until SIGTERM or Ctrl-C; port 0 takes a free port. ``say`` prints the address.

    Raises ``ValueError`` if the port cannot be used.
    """
    with until_stopped(), _registry(workspace) as registry:
        try:
            server, thread = start_http_server(port, host, registry)
        except OSError as error:
            raise ValueError(
                f"cannot listen on {host}, port {port}: {error.strerror}; --port 0 takes a free port"
            ) from error
        try:
            say(f"Metrics are at http://{host}:{server.server_port}/metrics (stop with Ctrl-C)")
            threading.Event().wait()
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


@contextmanager
def _registry(workspace: Workspace) -> Iterator[CollectorRegistry]:
    """Open the metrics of the home, and those of Dagster's runs if it has a history."""
    home = Path(os.environ.get("DAGSTER_HOME") or workspace.settings.dagster_home)
    parts = HomeMetrics(workspace).parts()
    if not (home / "dagster.yaml").exists():
        yield all_metrics(parts)
        return
    from dagster import DagsterInstance

    from holderlake.dagster.run_metrics import run_metrics

    with DagsterInstance.from_config(str(home)) as instance:
        yield all_metrics(parts | {"runs": partial(run_metrics, instance)})
