"""Compare stored transfers with nodes, for ``holderlake import verify``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from holderlake.core.settings import Settings
from holderlake.core.units import counted
from holderlake.engine.store.store import Store
from holderlake.errors import SomeFailed
from holderlake.presentation import console
from holderlake.sources.nodes.connection import ImportOptions, connected
from holderlake.sources.rpc.checkpoints import ALL_TOKENS
from holderlake.sources.rpc.verified import record
from holderlake.sources.rpc.verify import NodeCheck, repair, verify
from holderlake.sources.store import open_own_store


def verify_with_nodes(
    settings: Settings, urls: Sequence[str], import_options: ImportOptions, repairs: bool, as_json: bool
) -> None:
    """Compare the stored transfers of the chosen tokens with the nodes', and print a report.

    With ``repairs``, what differs is read again (see ``repair``), and compared again. Raises ``SomeFailed`` if rows
    differ or blocks are missing in the end, and the errors of ``verify`` and ``repair``.
    """
    with open_own_store(settings) as store, console.progress("comparing", 0) as bar:

        def on_blocks(done: int, wished: int) -> None:
            bar.update(bar.task_ids[0], total=wished, completed=done, note="blocks")

        checks = asyncio.run(_verify(settings, store, urls, import_options, repairs, on_blocks))
    if as_json:
        console.as_json(_together(checks).plain())
    else:
        for check in checks:
            _print_verified(check)
    total = _together(checks)
    if not total.is_complete:
        raise SomeFailed(
            f"{counted(len(total.differences), 'range')} of blocks with differences, {len(total.unread):,} "
            "missing; 'holderlake import verify' with the same tokens, a node that has all events, and --repair "
            "reads them again"
        )
    if not total.is_equal:
        raise SomeFailed(
            f"all events are stored, but the balances of {counted(len(total.drifts), 'token')} differ from the "
            "contract's; the causes are above"
        )


async def _verify(
    settings: Settings,
    store: Store,
    urls: Sequence[str],
    import_options: ImportOptions,
    repairs: bool,
    on_blocks: Callable[[int, int], None],
) -> list[NodeCheck]:
    import_options = replace(import_options, imported=store.root)
    async with AsyncExitStack() as stack:
        to = await stack.enter_async_context(connected(settings, urls, import_options))
        against = None
        if import_options.against:
            against_options = replace(import_options, chain=to.chain)
            against = (
                await stack.enter_async_context(connected(settings, import_options.against, against_options))
            ).node
        sample, options = import_options.sample, to.options
        check = partial(verify, store, to.node, to.chain, to.selection, options, sample, on_blocks, against)
        checks = await check()
        if repairs and not all(verified.is_complete for verified in checks):
            await repair(store, against or to.node, to.chain, checks, options)
            checks = await check()
        for verified in checks:
            record(store.root, verified, datetime.now(UTC).replace(tzinfo=None))
        return checks


def _together(checks: Sequence[NodeCheck]) -> NodeCheck:
    """Return several checks as one."""
    total = NodeCheck(checks[0].chain, sorted({token for check in checks for token in check.tokens}), checks[0].source)
    total.first, total.last = min(check.first for check in checks), max(check.last for check in checks)
    total.as_of = max((check.as_of for check in checks if check.as_of), default=None)
    for check in checks:
        total.blocks += check.blocks
        total.events += check.events
        total.sampled += check.sampled
        for name in ("unread", "differences", "drifts", "equal", "unasked", "without_state"):
            getattr(total, name).extend(getattr(check, name))
    return total


def _print_verified(verified: NodeCheck) -> None:
    lines: list[tuple[object, ...]] = [
        (difference.token, difference.first, difference.last, difference.missing, difference.extra)
        for difference in verified.differences
    ]
    names = {ALL_TOKENS: "all tokens"}
    lines += [(names.get(gap.token, gap.token), gap.first, gap.last, "not imported", "") for gap in verified.unread]
    if lines:
        console.rows("Blocks that differ", ("token", "from block", "to block", "missing rows", "extra rows"), lines)
    for sentence in _sentences(verified):
        console.err.print(sentence, soft_wrap=True)
    console.out.print(
        f"Compared {counted(verified.events, 'event')} of {counted(len(verified.tokens), 'token')}, "
        f"{verified.blocks:,} of the blocks {verified.first:,} to {verified.last:,}: "
        + ("all are stored. " if verified.is_complete else "some are missing or differ. ")
        + f"Compared {counted(verified.sampled, 'balance')} with the contracts.",
        soft_wrap=True,
    )


def _sentences(verified: NodeCheck) -> Iterator[str]:
    for drift in verified.drifts:
        earlier = f" It may have transfers before block {verified.first:,}." if verified.first else ""
        yield (
            f"{drift.token} differs from its contract at block {drift.block:,}: the supply is {drift.contract_supply} "
            f"by the contract and {drift.supply} by its transfers; {drift.balances:,} of {drift.sampled:,} compared "
            f"balances differ.{earlier}"
        )
        for cause in drift.causes:
            place = "" if cause.block is None else f"From block {cause.block:,} on: "
            if len(cause.blocks) > 1:
                place = f"In the blocks {', '.join(f'{block:,}' for block in cause.blocks)}: "
            events_text = f" (its other events there: {', '.join(cause.other_events)})" if cause.other_events else ""
            yield f"  {place}{cause.words}{events_text}."
    no_state = (
        f"the node keeps no state at block {verified.last:,}; use an archive node, or compare the events with those of "
        "another node (--against URL)."
    )
    no_answer = "its contract answers neither balanceOf nor totalSupply."
    reasons = ((verified.unasked, no_answer), (verified.without_state, no_state))
    yield from (f"The balances of {token} were not compared: {why}" for tokens, why in reasons for token in tokens)
