"""Partitions that changed settings make stale, as Dagster's web UI shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from dagster import AssetKey, DagsterInstance, SkipReason, build_sensor_context
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest

from holderlake.cli.launch import fill, ingest_day
from holderlake.core.dagster.versions import watch
from holderlake.core.workspace import Workspace
from holderlake.pipelines.definitions import build_defs
from tests.helpers.filling import MakeWorkspace

pytestmark = pytest.mark.integration

JUNE = datetime(2026, 6, 1)
KEY = "solana|2026-06-01"


def _statuses(workspace: Workspace, instance: DagsterInstance, *tables: str) -> list[str]:
    watch(instance, workspace.settings.watchlist, workspace.settings.watchlist)
    graph = build_defs(workspace).resolve_asset_graph()
    resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
    return [resolver.get_status(AssetKey(table), KEY).value for table in tables]


def _ingest(workspace: Workspace, instance: DagsterInstance, **options: Any) -> None:
    ingest_day(workspace, instance, "solana", [JUNE], **options)


def _backfill(workspace: Workspace, instance: DagsterInstance, **options: Any) -> None:
    fill(workspace, instance, ["solana"], [JUNE], tables=["tokens", "holders", "maps"], **options)


@pytest.fixture
def tokens(make_workspace: MakeWorkspace) -> list[str]:
    return list(make_workspace().settings.watchlist["solana"][:2])


@pytest.mark.long
@pytest.mark.parametrize("run", [_ingest, _backfill])
def test_a_new_token_makes_the_partitions_of_its_chain_stale(
    run: Any, tokens: list[str], make_workspace: MakeWorkspace, instance: DagsterInstance
) -> None:
    before = make_workspace(watchlist={"solana": tokens[:1]})
    assert _statuses(before, instance, "holders") == ["MISSING"]
    run(before, instance)
    assert _statuses(before, instance, "tokens", "holders", "clusters") == ["FRESH"] * 3
    after = make_workspace(watchlist={"solana": tokens})
    assert _statuses(after, instance, "tokens", "holders", "clusters") == ["STALE"] * 3
    run(after, instance)
    assert _statuses(after, instance, "tokens", "holders", "clusters") == ["FRESH"] * 3
    other = make_workspace(watchlist={"solana": tokens, "eth": ["0x" + "1" * 40]})
    assert _statuses(other, instance, "holders") == ["FRESH"]


@pytest.mark.long
@pytest.mark.parametrize("run", [_backfill, _ingest])
def test_a_new_option_makes_partitions_stale_until_a_refresh(
    run: Any, tokens: list[str], make_workspace: MakeWorkspace, instance: DagsterInstance
) -> None:
    watchlist = {"solana": tokens[:1]}
    run(make_workspace(watchlist=watchlist), instance)
    after = make_workspace(watchlist=watchlist, maps={"limit": 250})
    assert _statuses(after, instance, "maps", "holders") == ["STALE", "FRESH"]
    run(after, instance)  # a partition has one set of options
    assert _statuses(after, instance, "maps", "holders") == ["STALE", "FRESH"]
    run(after, instance, refresh=True)
    assert _statuses(after, instance, "maps", "holders") == ["FRESH", "FRESH"]


@pytest.mark.long
@pytest.mark.parametrize("run", [_backfill, _ingest])
def test_a_run_limited_to_some_tokens_leaves_the_others_stale(
    run: Any, tokens: list[str], make_workspace: MakeWorkspace, instance: DagsterInstance
) -> None:
    workspace = make_workspace(watchlist={"solana": tokens})

    def stale() -> set[str]:
        return set(_statuses(workspace, instance, "tokens", "holders", "clusters"))

    run(workspace, instance, tokens=tokens[:1])
    assert stale() == {"STALE"}
    run(workspace, instance, tokens=tokens[1:])
    assert stale() == {"FRESH"}
    run(workspace, instance, tokens=tokens[:1], refresh=True)
    assert stale() == {"FRESH"}


def test_the_sensor_adds_a_newly_watched_chain_as_missing(
    tokens: list[str], make_workspace: MakeWorkspace, instance: DagsterInstance
) -> None:
    workspace = make_workspace(watchlist={"solana": tokens})
    sensor = build_defs(workspace).resolve_sensor_def("watchlist")
    messages = []
    for _ in range(2):
        with build_sensor_context(instance=instance, resources={"workspace": workspace}) as context:
            found = sensor(context)
        assert isinstance(found, SkipReason)
        messages.append(found.skip_message)
    assert messages == ["changed: solana", "the watchlist has not changed"]
    assert instance.get_dynamic_partitions("chain") == ["solana"]
    assert _statuses(workspace, instance, "holders") == ["MISSING"]
