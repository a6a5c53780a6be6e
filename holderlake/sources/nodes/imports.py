"""Import a chain's transfers from nodes, for ``holderlake import node`` and the asset ``transfers``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from holderlake.core.contract.times import to_unix
from holderlake.core.settings import Settings, SettingsError
from holderlake.engine.store.store import Store
from holderlake.sources.nodes.connection import ImportOptions, connected, endpoints, open_node
from holderlake.sources.rpc.errors import Diverged, Refused, WrongChain
from holderlake.sources.rpc.node import first_block_from
from holderlake.sources.rpc.run import ChainImport, NodeReport, OnProgress
from holderlake.sources.settings import SourceSettings
from holderlake.sources.store import open_own_store


def import_from_nodes(
    settings: Settings, urls: Sequence[str], import_options: ImportOptions, on_progress: OnProgress
) -> NodeReport:
    """Import transfers from nodes into the user's own store.

    ``urls`` are addresses of nodes; if empty, those of the settings are used. Raises ``SettingsError`` if no node or
    token is named, and ``RpcError`` if the nodes fail.
    """
    with open_own_store(settings) as store:
        return asyncio.run(_import(settings, store, urls, import_options, on_progress))


def import_day(settings: Settings, chain: str, day: str) -> tuple[NodeReport, bool]:
    """Import the blocks of the day ``day`` (YYYY-MM-DD, UTC) of a chain that are final, with the options of the
    settings. Return the report, and True if the store now has all blocks of the day.

    Raises ``SettingsError`` for permanent failures, and ``RpcError`` for failures that a retry may solve.
    """
    with open_own_store(settings) as store:
        try:
            return asyncio.run(_import_day(settings, store, chain, day))
        except (WrongChain, Diverged, Refused) as error:
            raise SettingsError(
                f"chain {chain} was not imported: {error}; check the settings sources.rpc.{chain}"
            ) from error


async def newest_block(settings: Settings, chain: str) -> int:
    """Return the number of the chain's newest block.

    Raises ``SettingsError`` if no node is set, and ``RpcError`` if all nodes fail.
    """
    async with open_node(
        settings, endpoints(settings, chain), settings.section(SourceSettings).node(chain), chain
    ) as node:
        return await node.head()


async def _import(
    settings: Settings,
    store: Store,
    urls: Sequence[str],
    import_options: ImportOptions,
    on_progress: OnProgress,
) -> NodeReport:
    async with connected(settings, urls, import_options) as to:
        return await ChainImport(store, to.node, to.chain, to.selection, to.options, on_progress).run()


async def _import_day(settings: Settings, store: Store, chain: str, day: str) -> tuple[NodeReport, bool]:
    start = datetime.strptime(day, "%Y-%m-%d")
    async with connected(settings, [], ImportOptions(chain)) as to:
        head = await to.node.head()
        first_block = await first_block_from(to.node, to_unix(start), head)
        next_day_block = await first_block_from(to.node, to_unix(start + timedelta(days=1)), head)
        selection = replace(to.selection, first_block=first_block, last_block=next_day_block - 1)
        report = await ChainImport(store, to.node, chain, selection, to.options).run()
    return report, next_day_block <= head and report.last_block == next_day_block - 1
