"""Follow the head of a chain: each new block is stored at once, and alerts are evaluated as of it."""

from __future__ import annotations

import asyncio
import ctypes
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import pyarrow as pa

from holderlake.core.contract.times import to_unix, utc_now
from holderlake.core.storage.locks import locked
from holderlake.core.workspace import Workspace
from holderlake.engine.direct import StoreEngine
from holderlake.engine.errors import BadSource
from holderlake.engine.store.store import Store
from holderlake.operations.alerts.head import HeadAlerts
from holderlake.operations.follow.followers import Follower, read_state, state_file, write_state
from holderlake.sources.nodes.connection import Connected, ImportOptions, connected
from holderlake.sources.rpc.checkpoints import ChainBusy
from holderlake.sources.rpc.errors import ChainMoved, InvalidAnswer, Unavailable
from holderlake.sources.rpc.node import Node
from holderlake.sources.rpc.run import ChainImport, NodeReport
from holderlake.sources.rpc.undone import undone_after
from holderlake.sources.store import open_own_store, own_store_id

_LOOK_SECONDS: Final = 0.5
_LONGEST_PAUSE: Final = 60.0
_NOTE_SECONDS: Final = 5.0
_M_ARENA_MAX: Final = -8
"""Number of the option of glibc's ``mallopt`` for the number of its heaps."""


@dataclass(frozen=True)
class Head:
    """The newest stored ``block`` of a chain, after an import that changed the store.

    ``time`` is its time, ``since`` that of the last block that was evaluated before and still is stored (unix seconds).
    ``undone_after`` is the last block before those that a reorganisation undid; None without one. ``made_at`` is the
    time of the import's end (naive UTC).
    """

    block: int
    time: int
    since: int
    undone_after: int | None
    made_at: datetime


@dataclass(frozen=True)
class Callbacks:
    """Functions that ``follow`` calls: with the report of each import, with the state every few seconds, and with each
    failure and the seconds until the next look (None if alerts failed, which the next block repeats)."""

    on_report: Callable[[NodeReport], None] = lambda _: None
    on_state: Callable[[Follower], None] = lambda _: None
    on_failure: Callable[[Exception, float | None], None] = lambda _error, _pause: None


def follow(
    workspace: Workspace,
    urls: Sequence[str],
    import_options: ImportOptions,
    calls: Callbacks,
    seconds: float | None = None,
) -> None:
    """Follow the head of a chain for ``seconds``, or without end if it is None.

    Blocks that the chain reorganised are rolled back and read again. Without ``confirmations``, the newest block counts
    at once. The alert rules are evaluated as of each block, and alerts sent. After a failure that a retry may solve,
    the next look follows after a pause of up to a minute. Raises ``BadSource`` if another process follows the chain,
    ``SettingsError``, and ``RpcError`` for permanent failures.
    """
    newest = replace(import_options, confirmations=import_options.confirmations or 0, to_block=None)
    _share_one_heap()
    with open_own_store(workspace.settings) as store:
        engine = StoreEngine(lambda: store, lambda: own_store_id(workspace.settings))

        async def run() -> None:
            async with connected(workspace.settings, urls, newest) as to:
                alerts = HeadAlerts(workspace, engine, to.chain, lambda token: store.files([(to.chain, token)]))

                await _Following(store, to, alerts, calls, seconds).run()

        asyncio.run(run())


def _share_one_heap() -> None:
    """Let all threads of this process use one heap, so that they use memory again that another one freed.

    With a heap for each thread, and those of Arrow's own allocator, a follower grew by 100 MB in half an hour.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    if sys.platform == "linux":
        with suppress(AttributeError):  # another C library than glibc
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


class _Following:
    """Following one chain, with its state."""

    def __init__(
        self, store: Store, to: Connected, alerts: HeadAlerts, calls: Callbacks, seconds: float | None
    ) -> None:
        self._store, self._to, self._alerts, self._calls = store, to, alerts, calls
        self._end = None if seconds is None else time.monotonic() + seconds
        self._path = state_file(store.root, to.chain)
        self._state = Follower(to.chain, to_unix(utc_now()))
        self._noted = 0.0
        self._since: int | None = None
        """Time of the newest block that was stored at the last evaluation of alerts, and still is; None without any."""
        self._is_changed = False
        """True if rows were stored after the last head."""
        self._undone_after: int | None = None
        self._heads: asyncio.Queue[Head] = asyncio.Queue()

    async def run(self) -> None:
        """Follow until the end, if there is one."""
        with self._alone():
            self._begin()
            evaluating = asyncio.create_task(self._evaluate())
            try:
                await self._look()
            finally:
                evaluated = asyncio.create_task(self._heads.join())
                try:  # Ctrl-C waits for the evaluation of the heads
                    await asyncio.wait({evaluated, evaluating}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    evaluating.cancel()
                    self._note()

    def _begin(self) -> None:
        """Set the block that the first evaluation compares with: the last one that an earlier follower evaluated.

        Without an earlier follower it is the newest stored one.
        """
        chain, root = self._to.chain, self._store.root
        earlier = read_state(self._path)
        if earlier and earlier.evaluated is not None:
            self._since, self._is_changed, evaluated_at = earlier.evaluated, True, earlier.evaluated_at
            self._undone_after = undone_after(root, chain, datetime.fromisoformat(evaluated_at))
            self._alerts.forget()
        else:
            times = [history.last_time for history in self._store.histories() if history.chain == chain]
            self._since, evaluated_at = max(times, default=None), utc_now().isoformat()
        self._state.evaluated, self._state.evaluated_at = self._since, evaluated_at
        self._note()  # the first import may take hours

    @contextmanager
    def _alone(self) -> Iterator[None]:
        busy = BadSource(f"another process follows chain {self._to.chain}; 'holderlake doctor' shows its state")
        with locked(self._path.with_suffix(".lock"), busy):
            yield

    async def _look(self) -> None:
        seen_head, failures = None, 0
        while self._end is None or time.monotonic() < self._end:
            pause = _LOOK_SECONDS
            try:
                head = await self._to.node.head()
                newest = head, (await self._to.node.headers([head]))[head].hash
                if newest != seen_head:
                    await self._import()
                seen_head, failures, self._state.error = newest, 0, ""
                self._state.looked_at = to_unix(utc_now())
            except (Unavailable, InvalidAnswer, ChainMoved, ChainBusy) as error:
                pause = min(_LONGEST_PAUSE, 2.0**failures)
                failures += 1
                self._state.error = str(error)
                self._calls.on_failure(error, pause)
            if time.monotonic() - self._noted > _NOTE_SECONDS:
                self._note()
            await asyncio.sleep(pause)

    async def _import(self) -> None:
        to, state = self._to, self._state
        chain_import = ChainImport(self._store, to.node, to.chain, to.selection, to.options)
        try:
            await chain_import.run()
        finally:  # rows of an import that failed later are stored too
            self._is_changed |= chain_import.report.added > 0
            if (undone := chain_import.report.undone_after) is not None:
                self._undone_after = undone if self._undone_after is None else min(undone, self._undone_after)
        report = chain_import.report
        state.blocks, state.rows = state.blocks + report.blocks, state.rows + report.added
        state.reorgs, state.undone = state.reorgs + report.reorgs, state.undone + report.removed
        self._calls.on_report(report)
        if report.last_block >= 0:
            at = await _time_of(to.node, report.last_block)
            state.block, state.block_time = report.last_block, at
            if self._is_changed or self._undone_after is not None:
                self._heads.put_nowait(await self._head(report.last_block, at))

    async def _head(self, block: int, at: int) -> Head:
        """Return the head ``block`` of the time ``at``, and take it as the last one that was evaluated."""
        since, undone = at if self._since is None else self._since, self._undone_after
        if undone is not None:
            since = min(since, await _time_of(self._to.node, undone))
        since = min(since, at - 1)  # blocks may have the same time
        self._since, self._undone_after, self._is_changed = at, None, False
        return Head(block, at, since, undone, utc_now())

    async def _evaluate(self) -> None:
        """Evaluate the alerts as of each head, in a thread. Blocks that come meanwhile are evaluated together."""
        failed: Head | None = None
        while True:
            head = await self._heads.get()
            queued_heads = [head, *(self._heads.get_nowait() for _ in range(self._heads.qsize()))]
            head = _merge_heads(queued_heads if failed is None else [failed, *queued_heads])
            try:
                changes = (head.since, head.time, head.block, head.undone_after)
                alert_count = await asyncio.to_thread(self._alerts.evaluate, *changes)
                self._state.alerts += alert_count
                self._state.evaluated, self._state.evaluated_at = head.time, head.made_at.isoformat()
                failed = None
                self._note()
            except Exception as error:  # a rule or a webhook that fails must not stop the import
                failed = head
                self._calls.on_failure(error, None)
            for _ in queued_heads:
                self._heads.task_done()

    def _note(self) -> None:
        """Write the state for other processes."""
        self._noted = time.monotonic()
        self._calls.on_state(self._state)
        write_state(self._path, self._state)


def _merge_heads(heads: Sequence[Head]) -> Head:
    """Return the change from before the first head to the last one."""
    undone = min((head.undone_after for head in heads if head.undone_after is not None), default=None)
    return replace(heads[-1], since=min(head.since for head in heads), undone_after=undone)


async def _time_of(node: Node, block: int) -> int:
    return int((await node.headers([block]))[block].timestamp, 16)
