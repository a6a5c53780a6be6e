"""The functions between an asset and the socket are those that the page about the architecture lists."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from dagster import DagsterInstance, materialize

from holderlake.assets.holders import holders
from holderlake.core.dagster.partitions import partition_key
from holderlake.core.http import HttpClient
from holderlake.resources.workspace import WORKSPACE
from tests.helpers.lakes import DAYS

ROOT = Path(__file__).parents[3]
WRAPPERS = {"gather_until_stopped", "run", "_few_collections", "cancelling", "fetcher", "slot"}
"""Functions that start tasks or hold a resource open around the path."""


def ours(frame: FrameType | None) -> list[str]:
    """Return the names of this project's functions from a frame outwards, the innermost first."""
    names = []
    while frame is not None and "asyncio/events" not in frame.f_code.co_filename:
        path = Path(frame.f_code.co_filename).resolve()
        if path.is_relative_to(ROOT) and not path.is_relative_to(ROOT / "tests") and ".venv" not in path.parts:
            names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names


@pytest.mark.integration
def test_the_page_lists_the_functions_from_an_asset_to_the_socket(
    make_workspace: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    callers: dict[asyncio.Task[Any], tuple[list[str], asyncio.Task[Any] | None]] = {}
    paths: list[list[str]] = []
    create, send = asyncio.BaseEventLoop.create_task, HttpClient.send

    def create_task(loop: Any, work: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = create(loop, work, **options)
        callers[task] = ours(sys._getframe(1)), asyncio.current_task() if asyncio._get_running_loop() else None
        return task

    async def sent(client: HttpClient, method: str, url: str, **options: Any) -> Any:
        if "/tokens/holders/" in str(url):
            names, task = ours(sys._getframe()), asyncio.current_task()
            while task in callers:
                outer, task = callers[task]
                names += outer
            paths.append(["send", *names])
        return await send(client, method, url, **options)

    monkeypatch.setattr(asyncio.BaseEventLoop, "create_task", create_task)
    monkeypatch.setattr(HttpClient, "send", sent)
    workspace = make_workspace()
    chain = next(iter(workspace.settings.watchlist))
    with DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("chain", [chain])
        key = partition_key(chain, DAYS[0])
        materialize([holders], instance=instance, partition_key=str(key), resources={WORKSPACE: workspace})
    text = (ROOT / "docs" / "design.md").read_text()
    listed = re.findall(
        r"`(\w+)`", text.partition("From the asset to the socket")[2].partition(". From `to_the_end`")[0]
    )
    path = paths[0][: paths[0].index("materialise") + 1]
    assert [name for name in reversed(path) if name not in WRAPPERS] == listed
