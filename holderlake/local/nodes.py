"""Import a chain's transfers from nodes, for ``holderlake import-rpc`` and the asset ``transfers``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from pydantic import SecretStr

from holderlake import console
from holderlake.contract.chains import KNOWN_CHAINS, NATIVE
from holderlake.contract.chains.addresses import typed_token
from holderlake.contract.times import to_unix
from holderlake.engine.sources.rpc.client.blocks import first_block_from
from holderlake.engine.sources.rpc.client.errors import (
    ChainMoved,
    Diverged,
    InvalidAnswer,
    Refused,
    Unavailable,
    WrongChain,
)
from holderlake.engine.sources.rpc.client.node import Node
from holderlake.engine.sources.rpc.importing.run import (
    ChainImport,
    NodeReport,
    Progress,
    ReadOptions,
    Selection,
    chain_named,
)
from holderlake.engine.sources.rpc.importing.verified import record
from holderlake.engine.sources.rpc.importing.verify import Scope, Verified, undo_from, verify
from holderlake.engine.store.store import Store
from holderlake.errors import SomeFailed
from holderlake.local.store import open_own_store
from holderlake.provider.node_imports import DayReport
from holderlake.settings import Settings, SettingsError
from holderlake.settings.sections.nodes import NodeSettings

_LOOK_SECONDS: Final = 0.5
_LONGEST_PAUSE: Final = 60.0


@dataclass(frozen=True)
class ImportOptions:
    """Options of ``holderlake import-rpc`` and ``verify``. An option that is None is taken from the settings.

    ``traces`` also imports transfers of the chain's coin inside contract calls. ``sample`` is the number of ranges of
    blocks that a check compares; None means all blocks.
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


def import_from_nodes(settings: Settings, urls: Sequence[str], asked: ImportOptions, as_json: bool) -> None:
    """Import transfers from nodes into the user's own store, and print a report.

    ``urls`` are addresses of nodes; if empty, those of the settings are used. Raises ``SettingsError`` if no node or
    token is named, and ``RpcError`` if the nodes fail.
    """
    with open_own_store(settings) as store, console.progress("importing", 0) as bar:

        def on_progress(progress: Progress) -> None:
            rate = progress.logs / max(progress.seconds, 0.001)
            note = f"blocks, {progress.logs:,} logs, {rate:,.0f}/s"
            bar.update(bar.task_ids[0], total=progress.blocks_wished, completed=progress.blocks_done, note=note)

        report = asyncio.run(_import(settings, store, urls, asked, on_progress))
    if as_json:
        console.as_json(report.plain())
    else:
        _print_report(report)


def follow_nodes(settings: Settings, urls: Sequence[str], asked: ImportOptions, as_json: bool) -> None:
    """Import transfers as soon as the nodes have new blocks, until Ctrl-C, and print a line for each import.

    Blocks that the chain reorganised are rolled back and read again. Without ``confirmations``, the newest block counts
    at once. A failure that a retry may solve is printed, and the next look follows after a pause of up to a minute.
    Raises ``SettingsError`` and ``RpcError`` as ``import_from_nodes``, but the latter for permanent failures only.
    """

    def on_report(report: NodeReport) -> None:
        if as_json:
            console.as_json(report.plain(), one_line=True)
        elif report.added or report.removed:
            undone = f", {report.removed:,} undone by a reorganisation" if report.removed else ""
            console.out.print(f"block {report.last_block:,}: {report.added:,} rows{undone}")

    def on_failure(error: Exception, pause: float) -> None:
        console.err.print(f"{error}; trying again in {pause:.0f} s", soft_wrap=True)

    newest = replace(asked, confirmations=asked.confirmations or 0, to_block=None)
    with open_own_store(settings) as store, suppress(KeyboardInterrupt):
        asyncio.run(_follow(settings, store, urls, newest, on_report, on_failure))


async def _follow(
    settings: Settings,
    store: Store,
    urls: Sequence[str],
    asked: ImportOptions,
    on_report: Callable[[NodeReport], None],
    on_failure: Callable[[Exception, float], None],
) -> None:
    addresses = [SecretStr(url) for url in urls] or _endpoints(settings, asked.chain)
    async with _node(settings, addresses, settings.node(asked.chain or ""), asked.chain) as node:
        chain = await chain_named(node, asked.chain)
        selection, options = (
            _selection(settings, chain, asked),
            _read_options(settings.node(chain), asked.confirmations),
        )
        seen, failures = None, 0
        while True:
            try:
                head = await node.head()
                newest = head, (await node.headers([head]))[head].hash
                if newest != seen:
                    on_report(await ChainImport(store, node, chain, selection, options).run())
                seen, failures = newest, 0
                await asyncio.sleep(_LOOK_SECONDS)
            except (Unavailable, InvalidAnswer, ChainMoved) as error:
                pause = min(_LONGEST_PAUSE, 2.0**failures)
                failures += 1
                on_failure(error, pause)
                await asyncio.sleep(pause)


def verify_with_nodes(
    settings: Settings, urls: Sequence[str], asked: ImportOptions, repair: bool, as_json: bool
) -> None:
    """Compare the stored transfers of the chosen tokens with the nodes', and print a report.

    ``repair`` rolls the chain back to the first block that differs, imports again from there, and compares again.
    Raises ``SomeFailed`` if rows differ or blocks are missing in the end, and the errors of ``import_from_nodes``.
    """
    with open_own_store(settings) as store, console.progress("comparing", 0) as bar:

        def on_blocks(done: int, wished: int) -> None:
            bar.update(bar.task_ids[0], total=wished, completed=done, note="blocks")

        found = asyncio.run(_verify(settings, store, urls, asked, repair, on_blocks))
    if as_json:
        console.as_json(found.plain())
    else:
        _print_verified(found)
    if not found.is_complete:
        raise SomeFailed(
            f"{len(found.differences):,} ranges of blocks differ and {len(found.unread):,} were never imported; "
            "'holderlake verify --repair' asks for them again"
        )


async def _verify(
    settings: Settings,
    store: Store,
    urls: Sequence[str],
    asked: ImportOptions,
    repair: bool,
    on_blocks: Callable[[int, int], None],
) -> Verified:
    addresses = [SecretStr(url) for url in urls] or _endpoints(settings, asked.chain)
    async with _node(settings, addresses, settings.node(asked.chain or ""), asked.chain) as node:
        chain = await chain_named(node, asked.chain)
        selection, options = (
            _selection(settings, chain, asked),
            _read_options(settings.node(chain), asked.confirmations),
        )
        tokens = selection.contracts or [one.token_address for one in store.histories() if one.chain == chain]
        tokens = [token for token in tokens if token != NATIVE]
        scope = Scope(selection.first, selection.last, asked.sample)
        check = partial(verify, store, node, chain, tokens, options, scope, on_blocks)
        found = await check()
        if repair and not found.is_complete:
            if found.differences:
                undo_from(store, chain, min(one.first for one in found.differences))
            until = replace(selection, last=found.last)
            await ChainImport(store, node, chain, until, replace(options, confirmations=0)).run()
            found = await check()
        record(store.root, found, datetime.now(UTC).replace(tzinfo=None))
        return found


def _print_verified(found: Verified) -> None:
    lines: list[tuple[object, ...]] = [
        (one.token, one.first, one.last, one.missing, one.extra) for one in found.differences
    ]
    lines += [("all tokens", gap.first, gap.last, "never imported", "") for gap in found.unread]
    if lines:
        console.rows("Blocks that differ", ("token", "from block", "to block", "missing rows", "extra rows"), lines)
    for one in found.drifts:
        console.err.print(
            f"{one.token} changes balances without transfers, as rebasing tokens and tokens with a fee do: at block "
            f"{one.block:,} its contract has a supply of {one.contract_supply} and its transfers {one.supply}; "
            f"{one.balances} of {one.sampled} sampled balances differ.",
            soft_wrap=True,
        )
    for token in found.unasked:
        console.err.print(
            f"{token} was not asked for balances: the node keeps no state of block {found.last:,}.", soft_wrap=True
        )
    console.out.print(
        f"Compared {found.events:,} events of {len(found.tokens):,} tokens, {found.blocks:,} of "
        f"the blocks {found.first:,} to {found.last:,}: "
        + ("all are stored." if found.is_complete else "not all are stored as they are."),
        soft_wrap=True,
    )


def import_day(settings: Settings, chain: str, day: str) -> DayReport:
    """Import the blocks of the day ``day`` (YYYY-MM-DD, UTC) of a chain that are final, with the options of the
    settings.

    Raises ``SettingsError`` for permanent failures, and ``RpcError`` for failures that a retry may solve.
    """
    with open_own_store(settings) as store:
        try:
            report, is_whole = asyncio.run(_import_day(settings, store, chain, day))
        except (WrongChain, Diverged, Refused) as error:
            raise SettingsError(
                f"chain {chain} was not imported: {error}; check the settings sources.rpc.{chain}"
            ) from error
    return DayReport(
        first_block=report.first_block,
        last_block=report.last_block,
        is_whole=is_whole,
        blocks=report.blocks,
        logs=report.logs,
        rows=report.added,
        removed=report.removed,
        requests=report.requests,
        seconds=report.seconds,
    )


async def newest_block(settings: Settings, chain: str) -> int:
    """Return the number of the chain's newest block.

    Raises ``SettingsError`` if no node is set, and ``RpcError`` if all nodes fail.
    """
    async with _node(settings, _endpoints(settings, chain), settings.node(chain), chain) as node:
        return await node.head()


async def _import(
    settings: Settings, store: Store, urls: Sequence[str], asked: ImportOptions, on_progress: Callable[[Progress], None]
) -> NodeReport:
    addresses = [SecretStr(url) for url in urls] or _endpoints(settings, asked.chain)
    async with _node(settings, addresses, settings.node(asked.chain or ""), asked.chain) as node:
        chain = await chain_named(node, asked.chain)
        chosen = settings.node(chain)
        selection = _selection(settings, chain, asked)
        options = _read_options(chosen, asked.confirmations)
        return await ChainImport(store, node, chain, selection, options, on_progress).run()


async def _import_day(settings: Settings, store: Store, chain: str, day: str) -> tuple[NodeReport, bool]:
    start = datetime.strptime(day, "%Y-%m-%d")
    chosen = settings.node(chain)
    async with _node(settings, _endpoints(settings, chain), chosen, chain) as node:
        head = await node.head()
        first = await first_block_from(node, to_unix(start), head)
        after = await first_block_from(node, to_unix(start + timedelta(days=1)), head)
        selection = replace(_selection(settings, chain, ImportOptions(chain)), first=first, last=after - 1)
        report = await ChainImport(store, node, chain, selection, _read_options(chosen, None)).run()
    return report, after <= head and report.last_block == after - 1


def _endpoints(settings: Settings, chain: str | None) -> list[SecretStr]:
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


def _node(settings: Settings, addresses: Sequence[SecretStr], chosen: NodeSettings, chain: str | None) -> Node:
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
        first=chosen.first_block if asked.from_block is None else asked.from_block,
        last=asked.to_block,
    )


def _print_report(report: NodeReport) -> None:
    columns = ("chain", "blocks", "to block", "logs", "rows added", "rows removed", "requests", "seconds")
    line = (
        report.chain,
        report.blocks,
        report.last_block,
        report.logs,
        report.added,
        report.removed,
        report.requests,
        round(report.seconds, 1),
    )
    console.rows("Imported", columns, [line])
    if report.reorgs:
        console.err.print(f"The chain was reorganised; {report.removed:,} rows were removed and read again.")
    if report.conflicts:
        console.err.print(f"{report.conflicts:,} rows differ from stored rows with the same key; those were kept.")
    if report.passed_over:
        console.err.print(f"{report.passed_over:,} events resemble transfers but are none; they were skipped.")
    for reason in report.rejected:
        console.err.print(f"An endpoint was not used: {reason}")
    if report.values_from == "receipts":
        console.err.print("The node has no traces: transfers of the chain's coin by contracts are missing.")
