"""Reading what was fetched: answers that come one after another are read together, in a thread beside the event loop.

Which rows an answer makes is the family's; what becomes of a subject whose answer can't be read, ``family``'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from holderlake.contract.tables import INSTANT_TYPE, TABLES, with_fetched_at
from holderlake.decoding import Decoded, MalformedAnswer
from holderlake.provider import errors
from holderlake.provider.concurrency import Gate
from holderlake.provider.fetcher import Fetched
from holderlake.storage.batches import hand_out

Argument = TypeVar("Argument")
Result = TypeVar("Result")

_AT_ONCE: Final = 32
_PATIENCE: Final = 0.2
"""Seconds that an answer is held at most."""

Tables: TypeAlias = dict[str, pa.Table]
ReadRows: TypeAlias = Callable[[Sequence[str], Sequence[bytes]], Decoded]
"""Decodes the answers about some subjects."""


@dataclass(frozen=True)
class PendingDecode:
    """Subjects, the answers about them, and how these are read.

    Those with the same ``together`` may be read at once: they have an answer a subject, and the column of that name
    tells whose a row is. None where they must be read alone.
    """

    subjects: Sequence[str]
    answers: Sequence[Fetched]
    rows: ReadRows
    together: tuple[object, ...] | None = None
    subject_column: str = ""


class Reader:
    """Reads answers into tables with ``fetched_at``; for one event loop.

    Answers are held until some are there, for reading many at once costs less; never for long, and not where none but
    they are waited for.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[PendingDecode, asyncio.Future[Decoded]]] = []
        self._begun: set[asyncio.Task[None]] = set()
        self._working = 0
        # One thread: several would only take turns at the interpreter, each with memory of its own.
        self._thread = ThreadPoolExecutor(1, "reading")
        self._timer: asyncio.TimerHandle | None = None

    async def read(self, unread: PendingDecode, room: Gate) -> Decoded:
        """Return the rows, with ``fetched_at``. Where several were read at once, the first one gets the rows of all.

        ``room`` is where all wait whose answers may come soon. Raises ``MalformedAnswer`` if its own answers cannot be
        parsed.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Decoded] = loop.create_future()
        self._waiting.append((unread, future))
        if len(self._waiting) >= min(_AT_ONCE, room.inside):
            self._begin()
        elif self._timer is None:
            self._timer = loop.call_later(_PATIENCE, self._begin)
        return await future

    async def run(self, work: Callable[[Argument], Result], argument: Argument) -> Result:
        """The result of work on tables, in the thread where all such work is done."""
        self._working += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work, argument)
        finally:
            self._working -= 1

    @property
    def is_busy(self) -> bool:
        """Whether answers are being read, or what came of them committed."""
        return bool(self._waiting or self._begun or self._working)

    async def finish(self) -> None:
        """Returns when nothing is being read any more, as where somebody raised and nobody waits for the others."""
        while self._begun:
            await asyncio.wait(self._begun)

    def _begin(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch, self._waiting = self._waiting, []
        if batch:
            task = asyncio.create_task(self._carry_out(batch))
            self._begun.add(task)
            task.add_done_callback(self._begun.discard)

    async def _carry_out(self, batch: Sequence[tuple[PendingDecode, asyncio.Future[Decoded]]]) -> None:
        results: Sequence[Decoded | Exception]
        try:
            results = await self.run(_read_all, [unread for unread, _ in batch])
        except Exception as error:  # nobody is to wait for ever
            results = [error] * len(batch)
        hand_out([future for _, future in batch], results)


def _read_all(items: Sequence[PendingDecode]) -> list[Decoded | Exception]:
    order = sorted(range(len(items)), key=lambda place: str(items[place].together))
    results: list[Decoded | Exception] = [Decoded({})] * len(items)
    for together, places in groupby(order, key=lambda place: items[place].together):
        found = list(places)
        alone = [[place] for place in found]
        for group in alone if together is None else [found]:
            for place, result in zip(group, _read([items[place] for place in group]), strict=True):
                results[place] = result
    return results


def _read(items: Sequence[PendingDecode]) -> list[Decoded | Exception]:
    """Return the rows of all in the first result; if one of them cannot be parsed, each result has its own."""
    first = items[0]
    try:
        decoded = first.rows([one for item in items for one in item.subjects], _bytes(items))
        stamped = _stamped(decoded.tables, items)
    except MalformedAnswer as error:
        return [named(first.answers[error.answer], error)] if len(items) == 1 else [_read([item])[0] for item in items]
    except Exception as error:
        return [error] if len(items) == 1 else [_read([item])[0] for item in items]
    if len(items) == 1:
        return [Decoded(stamped, decoded.unreadable)]
    own = [[replace(one, answer=0) for one in decoded.unreadable if one.answer == place] for place in range(len(items))]
    return [Decoded(stamped, own[0]), *(Decoded({}, notes) for notes in own[1:])]


def _bytes(items: Sequence[PendingDecode]) -> list[bytes]:
    return [fetched.raw for item in items for fetched in item.answers]


def named(fetched: Fetched, error: MalformedAnswer) -> errors.MalformedAnswer:
    """Return the error with the hash of the answer that it is about, and without the key."""
    return errors.MalformedAnswer(fetched.reader.redacted(str(error)), fetched.sha256, fetched.digest)


def _stamped(rows: Tables, items: Sequence[PendingDecode]) -> Tables:
    """The rows with the instant at which each was learnt: of several answers about the same, the last one's."""
    at = [max(fetched.fetched_at for fetched in item.answers) for item in items]
    if len(items) == 1:
        return {name: with_fetched_at(TABLES[name], table, at[0]) for name, table in rows.items()}
    subjects = pa.array([item.subjects[0] for item in items], pa.string())
    stamps = pa.array(at, INSTANT_TYPE)
    return {
        name: with_fetched_at(TABLES[name], table, stamps.take(pc.index_in(table[items[0].subject_column], subjects)))
        for name, table in rows.items()
    }
