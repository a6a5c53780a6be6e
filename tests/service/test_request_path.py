"""The modules that a request passes between the socket and its answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

import holderlake.service
from holderlake.engine.store.store import Store
from holderlake.service.api.backend import Backend
from holderlake.service.billing.keys import KeyStore
from holderlake.service.settings import ServiceSettings
from tests.service.conftest import World

MAX_MODULES = 13
SERVICE = str(Path(holderlake.service.__file__).parent)


@contextmanager
def _modules_on_event_loop() -> Iterator[set[str]]:
    """Collect the service's modules whose functions run in the server's thread, which the block has to start."""
    modules: set[str] = set()

    def profile(frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(SERVICE) and threading.current_thread().name == "service":
            modules.add(file.removeprefix(SERVICE))

    threading.setprofile(profile)
    try:
        yield modules
    finally:
        threading.setprofile(None)


@pytest.mark.parametrize("query", ["", "refresh=true"], ids=["cached", "computed"])
def test_map_request_passes_at_most_thirteen_modules(start, world: World, tmp_path: Path, query: str) -> None:
    with KeyStore(tmp_path / "keys.sqlite") as keys, _modules_on_event_loop() as modules:
        caller = start(keys).caller()
        path = f"/v0/tokens/map/eth/{world.token}"
        assert caller.http.get(path).status_code == 200
        modules.clear()
        assert caller.http.get(f"{path}?{query}").status_code == 200
        assert caller.spent > 0
        assert "/api/metering.py" in modules
        assert len(modules) <= MAX_MODULES, "\n".join(sorted(modules))


def test_parsed_requests_with_junk_parameters_take_bounded_memory(tmp_path: Path) -> None:
    with Store(tmp_path / "store") as store, KeyStore(tmp_path / "keys.sqlite") as keys:
        backend = Backend(store, keys, ServiceSettings())
        for number in range(25_000):
            backend.keep_parsed(("GET", "/v0/chains", b"junk=%d" % number), ())
        backend.keep_parsed(("GET", "/v0/chains", b"junk=" + b"x" * 500), ())
        asyncio.run(backend.close())
    targets = list(backend.parsed_requests)
    assert len(targets) == 20_000
    assert max(sum(map(len, target)) for target in targets) <= 500
