"""Connections to the nodes of a chain, with the blocks and tokens to read from them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from pydantic import SecretStr

from holderlake.core.contract.chains import KNOWN_CHAINS, NATIVE
from holderlake.core.contract.chains.addresses import typed_token
from holderlake.core.contract.times import to_unix
from holderlake.core.settings import Settings, SettingsError
from holderlake.sources.rpc.checkpoints import imported_chain
from holderlake.sources.rpc.node import Node
from holderlake.sources.rpc.portal import PortalNode
from holderlake.sources.rpc.run import ReadOptions, Selection, chain_named
from holderlake.sources.settings import NodeSettings, SourceSettings


@dataclass(frozen=True)
class ImportOptions:
    """Options of ``holderlake import node``, ``portal`` and ``verify``. An option that is None is taken from the
    settings.

    ``traces`` also imports transfers of the chain's coin inside contract calls. ``sample`` is the number of ranges of
    blocks that a check compares; None means all blocks. ``against`` are the addresses of the nodes whose events a check
    compares. ``imported`` is the root of a store: without ``tokens``, all its tokens that came from nodes are chosen,
    and an unknown chain id is that of the chain that was imported with it. ``balances_at`` are times (UTC) at which
    balances are read, too. ``is_portal``: the addresses are of datasets of SQD portals.
    """

    chain: str | None = None
    tokens: Sequence[str] = ()
    all_tokens: bool = False
    native: bool = False
    traces: bool | None = None
    from_block: int | None = None
    to_block: int | None = None
    confirmations: int | None = None
    sample: int | None = None
    against: Sequence[str] = ()
    imported: Path | None = None
    balances_at: Sequence[datetime] = ()
    is_portal: bool = False


@dataclass(frozen=True)
class Connected:
    """An open node of ``chain``, and what to read from it."""

    node: Node
    chain: str
    selection: Selection
    options: ReadOptions


@asynccontextmanager
async def connected(settings: Settings, urls: Sequence[str], import_options: ImportOptions) -> AsyncIterator[Connected]:
    """Open the nodes at ``urls``, or those of the settings if it is empty, and choose what to read.

    Raises ``SettingsError`` if no node or token is named, and ``RpcError`` if the nodes fail.
    """
    addresses = [SecretStr(url) for url in urls] or endpoints(settings, import_options.chain)
    chain_settings = settings.section(SourceSettings).node(import_options.chain or "")
    kind = PortalNode if import_options.is_portal else Node
    async with open_node(settings, addresses, chain_settings, import_options.chain, kind) as node:
        chain_name = import_options.chain
        if chain_name is None and import_options.imported is not None:
            chain_name = imported_chain(import_options.imported, await node.evm_id())
        chain = await chain_named(node, chain_name)
        options = _read_options(settings.section(SourceSettings).node(chain), import_options.confirmations)
        selection = _selection(settings, chain, import_options)
        if import_options.is_portal:
            _check_portal(chain, selection)
            # its blocks are final, and it limits the rate of requests
            options = replace(options, confirmations=0, reorg_depth=0, concurrency=1, has_state=False)
        yield Connected(node, chain, selection, options)


def endpoints(settings: Settings, chain: str | None) -> list[SecretStr]:
    if chain is None:
        raise SettingsError(
            "neither a node's address nor a chain is set; add the address of a node, or "
            "name with --chain a chain of the settings sources.rpc"
        )
    node_urls = settings.section(SourceSettings).node_endpoints(chain)
    if not node_urls:
        raise SettingsError(
            f"no node of chain {chain} is set; write its address, or set "
            f"HOLDERLAKE_SOURCES__RPC__{chain.upper()}__ENDPOINTS in the environment"
        )
    return node_urls


def open_node(
    settings: Settings,
    addresses: Sequence[SecretStr],
    node_settings: NodeSettings,
    chain: str | None,
    kind: type[Node] = Node,
) -> Node:
    known_chain = KNOWN_CHAINS.get(chain or "")
    return kind(
        addresses,
        known_chain.evm_id if known_chain else None,
        timeout=node_settings.timeout_seconds,
        attempts=node_settings.attempts,
        batch=node_settings.batch,
        connections=2 * node_settings.concurrency,
    )


def _check_portal(chain: str, selection: Selection) -> None:
    """Raise ``SettingsError`` if a portal cannot serve the selection."""
    known_chain = KNOWN_CHAINS.get(chain)
    if known_chain is None or known_chain.evm_id is None:
        evm_chains = ", ".join(each.id for each in KNOWN_CHAINS.values() if each.evm_id is not None)
        raise SettingsError(
            f"a portal does not state its chain id, and that of chain {chain!r} is unknown; known are {evm_chains}. "
            "Use 'holderlake import node' for other chains"
        )
    if selection.has_native:
        raise SettingsError(
            "transfers of the chain's coin are not read from a portal; name tokens with --token, and use "
            "'holderlake import node' for the coin"
        )


def _read_options(node_settings: NodeSettings, confirmations: int | None) -> ReadOptions:
    return ReadOptions(
        confirmations=node_settings.confirmations if confirmations is None else confirmations,
        blocks=node_settings.blocks,
        concurrency=node_settings.concurrency,
        commit_rows=node_settings.commit_rows,
    )


def _selection(settings: Settings, chain: str, import_options: ImportOptions) -> Selection:
    node_settings = settings.section(SourceSettings).node(chain)
    if import_options.imported is not None and not import_options.tokens:
        return Selection(first_block=import_options.from_block or 0, last_block=import_options.to_block)
    token_addresses = [typed_token(chain, token) for token in list(import_options.tokens) or node_settings.tokens]
    token_addresses = token_addresses or settings.watchlist.get(chain, [])
    every = import_options.all_tokens or (node_settings.all_tokens and not import_options.tokens)
    if import_options.native and not import_options.tokens and not every:
        token_addresses = [NATIVE]
    if not token_addresses and not every:
        raise SettingsError(
            f"no token of chain {chain} is chosen; add --token, --native or --all-tokens, or set "
            f"sources.rpc.{chain}.tokens in the settings"
        )
    if import_options.balances_at and (every or token_addresses == [NATIVE]):
        raise SettingsError("--balances-at reads balances of ERC-20 tokens; name them with --token")
    return Selection(
        tokens=None if every else tuple(token_addresses),
        native=import_options.native or NATIVE in token_addresses,
        traced=node_settings.traces if import_options.traces is None else import_options.traces,
        first_block=node_settings.first_block if import_options.from_block is None else import_options.from_block,
        last_block=import_options.to_block,
        balances_at=tuple(map(to_unix, import_options.balances_at)),
    )
