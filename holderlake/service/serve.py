"""``holderlake serve``: run the HTTP service from the settings, in one process or in several."""

from __future__ import annotations

import logging
import logging.config
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from starlette.types import ASGIApp
from uvicorn.config import STARTUP_FAILURE

from holderlake.core.settings import Settings, load_settings
from holderlake.core.signals import until_stopped
from holderlake.core.units import counted
from holderlake.engine.errors import EngineError
from holderlake.engine.settings import EngineSettings
from holderlake.engine.store.store import Store
from holderlake.service.accounts import wait_for_keys
from holderlake.service.app import create_app
from holderlake.service.billing.keys import KeyStore
from holderlake.service.observability import log_config
from holderlake.service.runtime.processes import follow_supervisor, serve_processes
from holderlake.service.runtime.server import leave_threads, listen, serve_app
from holderlake.service.settings import ServiceSettings
from holderlake.sources.sample_world import sample_store
from holderlake.sources.store import Say, open_own_store, open_store

SAMPLE_VARIABLE: Final = "HOLDERLAKE_SERVE_SAMPLE"
"""Environment variable by which the service's processes get the folder of the sample world's store. It is not a
setting."""

_log = logging.getLogger(__name__)


def serve(settings: Settings, sample: bool, say: Say) -> int:
    """Run the HTTP service until SIGTERM or Ctrl-C, and return the exit code. With ``sample``, serve the sample world.

    ``say`` shows a message to the user. If the log's format is JSON, messages are lines of the log instead.

    Raises the error that prevents the start.
    """
    section = settings.section(ServiceSettings)
    log = section.log or ("text" if sys.stderr.isatty() else "json")
    if log == "json":
        logging.config.dictConfig(log_config(log))
        say = _log.info
    sample_folder = sample_store(settings.home) if sample else None
    with until_stopped():
        with _opened(settings, sample_folder, say) as (store, keys):
            sockets = listen(section.host, section.port)
            say(_message(settings, store))
            if section.processes == 1:
                serve_app(create_app(store, keys, section), sockets, section, log)
        if section.processes > 1:
            _export_options(settings, sample_folder)
            return serve_processes("holderlake.service.serve:app", section.processes, sockets, section, log)
    leave_threads()
    return 0


def app() -> ASGIApp:
    """Return the ASGI app for one of several processes. It closes its store and its database of keys when it shuts
    down."""
    follow_supervisor()
    exit_stack = ExitStack()
    try:
        settings = load_settings()
        sample = os.environ.get(SAMPLE_VARIABLE)
        store, keys = exit_stack.enter_context(_opened(settings, Path(sample) if sample else None))
        return create_app(store, keys, settings.section(ServiceSettings), exit_stack.close)
    except Exception:
        _log.exception("the service could not start")
        sys.exit(STARTUP_FAILURE)  # so that the supervisor starts no other process


@contextmanager
def _opened(settings: Settings, sample: Path | None, say: Say | None = None) -> Iterator[tuple[Store, KeyStore]]:
    """Context manager that opens the engine's store and the database of API keys.

    ``sample`` is the folder of the sample world's store; None opens the user's own store. ``say`` is called with a
    message if rules have changed.
    """
    store = (
        open_store(sample, None, settings.section(EngineSettings).memory_limit)
        if sample
        else open_own_store(settings, say)
    )
    with store, wait_for_keys(settings, say or _log.warning) as keys:
        threading.Thread(target=_read_files, args=(store,), name="checksums", daemon=True).start()
        yield store, keys


def _read_files(store: Store) -> None:
    """Read all files of the store, and log each damaged file. Requests that need a damaged file then get status 503."""
    try:
        for damage in store.read_all_files():
            _log.error("%s", damage)
    except EngineError as error:
        _log.error("the store's files could not be checked: %s", error)


def _message(settings: Settings, store: Store) -> str:
    section = settings.section(ServiceSettings)
    host = f"[{section.host}]" if ":" in section.host else section.host
    tokens = len(store.histories())
    empty = f"{store.root} holds no transfers yet; import some, or serve the sample world with --sample. "
    return (
        f"{'' if tokens else empty}"
        f"Serving {counted(tokens, 'token')} at {section.public_url or f'http://{host}:{section.port}'}/v0 "
        "(docs at /docs, health at /health and /ready, metrics at /metrics). "
        "Keys are made with 'holderlake keys create NAME'. Stop with Ctrl-C."
    )


def _export_options(settings: Settings, sample: Path | None) -> None:
    """Set environment variables for options of the command line. The service's processes load the settings
    themselves."""
    os.environ["HOLDERLAKE_SERVICE__PROCESSES"] = str(settings.section(ServiceSettings).processes)
    os.environ.pop(SAMPLE_VARIABLE, None)
    if sample is not None:
        os.environ[SAMPLE_VARIABLE] = str(sample.resolve())
