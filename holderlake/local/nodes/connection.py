"""Connections to the nodes of a chain, with the blocks and tokens to read from them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from holderlake.contract.chains import KNOWN_CHAINS, NATIVE
from holderlake.contract.chains.addresses import typed_token
from holderlake.engine.sources.rpc.client.node import Node
from holderlake.engine.sources.rpc.importing.checkpoints import imported_chain
from holderlake.engine.sources.rpc.importing.run import ReadOptions, Selection, chain_named
from holderlake.settings import Settings, SettingsError
from holderlake.settings.sections.nodes import NodeSettings


@dataclass(frozen=True)
class ImportOptions:
    """Options of ``holderlake import-rpc`` and ``verify``. An option that is None is taken from the settings.

    ``traces`` also imports transfers of the chain's coin inside contract calls. ``sample`` is the number of ranges of
    blocks that a check compares; None means all blocks. ``against`` are the addresses of the nodes whose events a check
    compares. ``imported`` is the root of a store: without ``tokens``, all its tokens that came from nodes are chosen,
    and an unknown chain id is that of the chain that was imported with it.
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


@dataclass(frozen=True)
class Connected:
    """An open node of ``chain``, and what to read from it."""

    node: Node
    chain: str
    selection: Selection
    options: ReadOptions


@asynccontextmanager
async def connected(settings: Settings, urls: Sequence[str], asked: ImportOptions) -> AsyncIterator[Connected]:
    """Open the nodes at ``urls``, or those of the settings if it is empty, and choose what to read.

    Raises ``SettingsError`` if no node or token is named, and ``RpcError`` if the nodes fail.
    """
    addresses = [SecretStr(url) for url in urls] or endpoints(settings, asked.chain)
    async with open_node(settings, addresses, settings.node(asked.chain or ""), asked.chain) as node:
        named = asked.chain
        if named is None and asked.imported is not None:
            named = imported_chain(asked.imported, await node.evm_id())
        chain = await chain_named(node, named)
        options = _read_options(settings.node(chain), asked.confirmations)
        yield Connected(node, chain, _selection(settings, chain, asked), options)


def endpoints(settings: Settings, chain: str | None) -> list[SecretStr]:
    if chain is None:
        raise SettingsError(
            "neither a node's address nor a chain is set; add the address of a node, or "
            "name with --chain a chain of the settings sources.rpc"
        )
    found = settings.node_endpoints(chain)
    if not found:
        raise SettingsError(
            f"no node of chain {chain} is set; write its address, or set "
            f"HOLDERLAKE_SOURCES__RPC__{chain.upper()}__ENDPOINTS in the environment"
        )
    return found


def open_node(settings: Settings, addresses: Sequence[SecretStr], chosen: NodeSettings, chain: str | None) -> Node:
    known = KNOWN_CHAINS.get(chain or "")
    return Node(
        addresses,
        known.evm_id if known else None,
        timeout=chosen.timeout_seconds,
        attempts=chosen.attempts,
        batch=chosen.batch,
        connections=2 * chosen.concurrency,
        transport=settings.http_transport,
    )


def _read_options(chosen: NodeSettings, confirmations: int | None) -> ReadOptions:
    return ReadOptions(
        confirmations=chosen.confirmations if confirmations is None else confirmations,
        blocks=chosen.blocks,
        concurrency=chosen.concurrency,
        commit_rows=chosen.commit_rows,
    )


def _selection(settings: Settings, chain: str, asked: ImportOptions) -> Selection:
    chosen = settings.node(chain)
    if asked.imported is not None and not asked.tokens:
        return Selection(first_block=asked.from_block or 0, last_block=asked.to_block)
    named = [typed_token(chain, token) for token in list(asked.tokens) or chosen.tokens]
    named = named or settings.watchlist.get(chain, [])
    every = asked.all_tokens or (chosen.all_tokens and not asked.tokens)
    if asked.native and not asked.tokens and not every:
        named = [NATIVE]
    if not named and not every:
        raise SettingsError(
            f"no token of chain {chain} is chosen; add --token, --native or --all-tokens, or set "
            f"sources.rpc.{chain}.tokens in the settings"
        )
    return Selection(
        tokens=None if every else tuple(named),
        native=asked.native or NATIVE in named,
        traced=chosen.traces if asked.traces is None else asked.traces,
        first_block=chosen.first_block if asked.from_block is None else asked.from_block,
        last_block=asked.to_block,
    )
