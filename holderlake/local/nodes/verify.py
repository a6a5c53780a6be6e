"""Compare stored transfers with nodes, for ``holderlake verify``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
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
from holderlake.units import counted


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
            "'holderlake verify' with the same tokens, a node that has all events, and --repair reads them again"
        )
    if not found.is_equal:
        raise SomeFailed(
            f"all events are stored, but the balances of {len(found.drifts):,} tokens differ from their contracts'; "
            "the causes are above"
        )


async def _verify(
    settings: Settings,
    store: Store,
    urls: Sequence[str],
    asked: ImportOptions,
    repairs: bool,
    on_blocks: Callable[[int, int], None],
) -> list[Verified]:
    asked = replace(asked, imported=store.root)
    async with AsyncExitStack() as stack:
        to = await stack.enter_async_context(connected(settings, urls, asked))
        against = None
        if asked.against:
            other = replace(asked, chain=to.chain)
            against = (await stack.enter_async_context(connected(settings, asked.against, other))).node
        selection, options = to.selection, to.options
        tokens = None if selection.tokens is None else selection.contracts
        scope = Scope(selection.first_block, selection.last_block, asked.sample)
        check = partial(verify, store, to.node, to.chain, tokens, options, scope, on_blocks, against)
        found = await check()
        if repairs and not all(one.is_complete for one in found):
            await repair(store, against or to.node, to.chain, found, options)
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
        found.sampled += one.sampled
        for name in ("unread", "differences", "drifts", "equal", "unasked", "without_state"):
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
    for drift in found.drifts:
        earlier = f" It may have transfers before block {found.first:,}." if found.first else ""
        console.err.print(
            f"{drift.token} differs from its contract at block {drift.block:,}: the supply is {drift.contract_supply} "
            f"by the contract and {drift.supply} by its transfers; {drift.balances:,} of {drift.sampled:,} compared "
            f"balances differ.{earlier}",
            soft_wrap=True,
        )
        for cause in drift.causes:
            place = "" if cause.block is None else f"From block {cause.block:,} on: "
            others = f" (its other events there: {', '.join(cause.other_events)})" if cause.other_events else ""
            console.err.print(f"  {place}{cause.words}{others}.", soft_wrap=True)
    for token in found.unasked:
        console.err.print(
            f"The balances of {token} were not compared: its contract answers neither balanceOf nor totalSupply.",
            soft_wrap=True,
        )
    for token in found.without_state:
        console.err.print(
            f"The balances of {token} were not compared: the node keeps no state at block {found.last:,}; use an "
            "archive node, or compare the events with those of another node (--against URL).",
            soft_wrap=True,
        )
    console.out.print(
        f"Compared {counted(found.events, 'event')} of {counted(len(found.tokens), 'token')}, {found.blocks:,} of "
        f"the blocks {found.first:,} to {found.last:,}: "
        + ("all are stored. " if found.is_complete else "not all are stored as they are. ")
        + f"Compared {found.sampled:,} balances with the contracts.",
        soft_wrap=True,
    )
