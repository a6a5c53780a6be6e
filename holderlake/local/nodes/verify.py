"""Compare stored transfers with nodes, for ``holderlake verify``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from holderlake import console
from holderlake.contract.chains import NATIVE
from holderlake.engine.sources.rpc.importing.run import ChainImport
from holderlake.engine.sources.rpc.importing.verified import record
from holderlake.engine.sources.rpc.importing.verify import Scope, Verified, undo_from, verify
from holderlake.engine.store.store import Store
from holderlake.errors import SomeFailed
from holderlake.local.nodes.connection import ImportOptions, connected
from holderlake.local.store import open_own_store
from holderlake.settings import Settings


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
    async with connected(settings, urls, asked) as to:
        chain, selection, options = to.chain, to.selection, to.options
        tokens = selection.contracts or [one.token_address for one in store.histories() if one.chain == chain]
        tokens = [token for token in tokens if token != NATIVE]
        scope = Scope(selection.first, selection.last, asked.sample)
        check = partial(verify, store, to.node, chain, tokens, options, scope, on_blocks)
        found = await check()
        if repair and not found.is_complete:
            if found.differences:
                undo_from(store, chain, min(one.first for one in found.differences))
            until = replace(selection, last=found.last)
            await ChainImport(store, to.node, chain, until, replace(options, confirmations=0)).run()
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
