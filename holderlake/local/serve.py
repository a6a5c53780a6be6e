"""``holderlake serve``: from the settings to a service that runs, in this process or in several."""

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

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holderlake import console
from holderlake.engine.errors import EngineError
from holderlake.engine.store.store import Store
from holderlake.local.accounts import open_keys
from holderlake.local.embedded import sample_store
from holderlake.local.store import Say, open_own_store, open_store
from holderlake.service.app import create_app
from holderlake.service.billing.keys import KeyStore
from holderlake.service.observability import Log, log_config
from holderlake.service.runtime.processes import follow_supervisor, serve_processes
from holderlake.service.runtime.server import leave_threads, listen, serve_app
from holderlake.service.settings import ServiceSettings
from holderlake.settings import Settings, load_settings
from holderlake.settings.sections.service import lifetimes_in_seconds

SAMPLE_VARIABLE: Final = "HOLDERLAKE_SERVE_SAMPLE"
"""Hands the sample world's store over to the processes of one service; no setting of a user's."""

_log = logging.getLogger(__name__)


def serve(settings: Settings, sample: bool) -> int:
    """Serves until the process is told to stop. Returns an exit code; raises what keeps the service from starting."""
    section = settings.service
    log = section.log or ("text" if sys.stderr.isatty() else "json")
    sample_folder = sample_store(settings.home) if sample else None
    chosen = service_settings(settings)
    with _opened(settings, sample_folder, lambda text: _say(text, log)) as (store, keys):
        sockets = listen(section.host, section.port)
        _say(_message(settings, store), log)
        if section.processes == 1:
            serve_app(create_app(store, keys, chosen), sockets, chosen, log)
    if section.processes > 1:
        _hand_over(settings, sample_folder)
        return serve_processes("holderlake.local.serve:app", section.processes, sockets, chosen, log)
    leave_threads()
    return 0


def app() -> ASGIApp:
    """The service in one process of several: made of the settings, closed when it ends."""
    follow_supervisor()
    settings = load_settings()
    sample = os.environ.get(SAMPLE_VARIABLE)
    held = ExitStack()
    store, keys = held.enter_context(_opened(settings, Path(sample) if sample else None))
    return _closing(create_app(store, keys, service_settings(settings)), held)


def service_settings(settings: Settings) -> ServiceSettings:
    """The operator's settings in the service's own words."""
    section = settings.service
    return ServiceSettings(
        workers=section.workers,
        calls_per_minute=section.calls_per_minute,
        shared_limits=section.shared_limits or section.processes > 1,
        trusted_proxies=tuple(section.trusted_proxies),
        connections_per_address=section.connections_per_address,
        header_limit=section.header_limit,
        body_limit=section.body_limit,
        header_seconds=section.header_seconds,
        body_seconds=section.body_seconds,
        answer_seconds=section.answer_seconds,
        shutdown_seconds=section.shutdown_seconds,
        cache_bytes=section.cache_megabytes << 20,
        lifetimes=lifetimes_in_seconds(section.lifetimes),
        public_url=section.public_url,
        metrics_from=tuple(section.metrics_from),
        score_names=tuple(section.score_names),
    )


@contextmanager
def _opened(settings: Settings, sample: Path | None, say: Say | None = None) -> Iterator[tuple[Store, KeyStore]]:
    """Open the store that is served and the keys; the sample world has its own rules."""
    store = open_store(sample, None, settings.engine.memory_limit) if sample else open_own_store(settings, say)
    with store, open_keys(settings) as keys:
        threading.Thread(target=_read_files, args=(store,), name="checksums", daemon=True).start()
        yield store, keys


def _read_files(store: Store) -> None:
    """Log each damaged file of the store. A question that needs one gets 503 from then on."""
    try:
        for damage in store.read_all_files():
            _log.error("%s", damage)
    except EngineError as error:
        _log.error("the store's files were not compared: %s", error)


def _message(settings: Settings, store: Store) -> str:
    section = settings.service
    host = f"[{section.host}]" if ":" in section.host else section.host
    held = len(store.histories())
    empty = f"{store.root} holds no transfers yet; import some, or serve the sample world with --sample. "
    return (
        f"{'' if held else empty}"
        f"Serving {held} tokens at {section.public_url or f'http://{host}:{section.port}'}/v0 "
        "(docs at /docs, health at /health and /ready, metrics at /metrics). "
        "Keys are made with 'holderlake keys create NAME'. Stop with Ctrl-C."
    )


def _say(message: str, log: Log) -> None:
    """To people as it is; among lines of JSON, as one."""
    if log == "json":
        logging.config.dictConfig(log_config(log))
        _log.info(message)
    else:
        console.err.print(message, soft_wrap=True)


def _hand_over(settings: Settings, sample: Path | None) -> None:
    """What the command line said, for processes that read the settings anew."""
    os.environ["HOLDERLAKE_SERVICE__PROCESSES"] = str(settings.service.processes)
    os.environ.pop(SAMPLE_VARIABLE, None)
    if sample is not None:
        os.environ[SAMPLE_VARIABLE] = str(sample.resolve())


def _closing(app: ASGIApp, held: ExitStack) -> ASGIApp:
    """The app, which lets go of what it holds when it has ended: the process itself is ended by a signal."""

    async def closing(scope: Scope, receive: Receive, send: Send) -> None:
        async def last(message: Message) -> None:
            if message["type"] == "lifespan.shutdown.complete":
                held.close()
            await send(message)

        await app(scope, receive, last if scope["type"] == "lifespan" else send)

    return closing
