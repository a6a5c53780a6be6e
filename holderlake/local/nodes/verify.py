"""Compare stored transfers with nodes, for ``holderlake verify``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial

from holderlake import console
from holderlake.engine.sources.rpc.importing.checkpoints import ALL_TOKENS
from holderlake.engine.sources.rpc.importing.verified import record
from holderlake.engine.sources.rpc.importing.verify import Scope, Verified, repair, verify
from holderlake.engine.store.store import Store
from holderlake.errors import SomeFailed
from holderlake.local.nodes.connection import ImportOptions, connected
from holderlake.local.store import open_own_store
from holderlake.settings import Settings


def verify_with_nodes(
    settings: Settings, urls: Sequence[str], asked: ImportOptions, repairs: bool, as_json: bool
) -> None:
    """Compare the stored transfers of the chosen tokens with the nodes', and print a report.

    With ``repairs``, what differs is read again (see ``repair``), and compared again. Raises ``SomeFailed`` if rows
    differ or blocks are missing in the end, and the errors of ``verify`` and ``repair``.
    """
    with open_own_store(settings) as store, console.progress("comparing", 0) as bar:

        def on_blocks(done: int, wished: int) -> None:
            bar.update(bar.task_ids[0], total=wished, completed=done, note="blocks")

        checks = asyncio.run(_verify(settings, store, urls, asked, repairs, on_blocks))
    if as_json:
        console.as_json(_together(checks).plain())
    else:
        for one in checks:
            _print_verified(one)
    found = _together(checks)
    if not found.is_complete:
        raise SomeFailed(
            f"{len(found.differences):,} ranges of blocks differ and {len(found.unread):,} are missing; "
            "'holderlake verify' with the same nodes and tokens and --repair reads them again"
        )


async def _verify(
    settings: Settings,
    store: Store,
    urls: Sequence[str],
    asked: ImportOptions,
    repairs: bool,
    on_blocks: Callable[[int, int], None],
) -> list[Verified]:
    async with connected(settings, urls, asked) as to:
        selection, options = to.selection, to.options
        tokens = None if selection.tokens is None else selection.contracts
        scope = Scope(selection.first, selection.last, asked.sample)
        check = partial(verify, store, to.node, to.chain, tokens, options, scope, on_blocks)
        found = await check()
        if repairs and not all(one.is_complete for one in found):
            await repair(store, to.node, to.chain, found, options)
            found = await check()
        for one in found:
            record(store.root, one, datetime.now(UTC).replace(tzinfo=None))
        return found


def _together(checks: Sequence[Verified]) -> Verified:
    """Return several checks as one."""
    found = Verified(checks[0].chain, sorted({token for one in checks for token in one.tokens}), checks[0].source)
    found.first, found.last = min(one.first for one in checks), max(one.last for one in checks)
    found.as_of = max((one.as_of for one in checks if one.as_of), default=None)
    for one in checks:
        found.blocks += one.blocks
        found.events += one.events
        for name in ("unread", "differences", "drifts", "equal", "unasked"):
            getattr(found, name).extend(getattr(one, name))
    return found


def _print_verified(found: Verified) -> None:
    lines: list[tuple[object, ...]] = [
        (one.token, one.first, one.last, one.missing, one.extra) for one in found.differences
    ]
    names = {ALL_TOKENS: "all tokens"}
    lines += [(names.get(gap.token, gap.token), gap.first, gap.last, "not imported", "") for gap in found.unread]
    if lines:
        console.rows("Blocks that differ", ("token", "from block", "to block", "missing rows", "extra rows"), lines)
    for one in found.drifts:
        earlier = f", or has transfers before block {found.first:,}" if found.first else ""
        console.err.print(
            f"{one.token} changes balances without transfers, as rebasing tokens and tokens with a fee do{earlier}: at "
            f"block {one.block:,} its contract has a supply of {one.contract_supply} and its transfers {one.supply}; "
            f"{one.balances} of {one.sampled} sampled balances differ.",
            soft_wrap=True,
        )
    for token in found.unasked:
        console.err.print(
            f"The balances of {token} were not compared: the node keeps no state of block {found.last:,}, or the "
            "contract has no such function.",
            soft_wrap=True,
        )
    console.out.print(
        f"Compared {found.events:,} events of {len(found.tokens):,} tokens, {found.blocks:,} of "
        f"the blocks {found.first:,} to {found.last:,}: "
        + ("all are stored." if found.is_complete else "not all are stored as they are."),
        soft_wrap=True,
    )
