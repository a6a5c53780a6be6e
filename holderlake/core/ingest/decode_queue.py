"""Decoding of answers in a separate thread, several at once, and the other threads of an ingest.

Decoding 32 answers together costs less than decoding each alone. An answer waits up to 0.2 seconds for further answers,
but only if some are expected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from holderlake.core.contract.exact_json import MalformedAnswer
from holderlake.core.contract.tables import INSTANT_TYPE, TABLES, with_fetched_at
from holderlake.core.decoding.answers import Decoded
from holderlake.core.provider import errors
from holderlake.core.provider.client import Response
from holderlake.core.provider.limiter import Slots
from holderlake.core.storage.batches import hand_out

Argument = TypeVar("Argument")
Result = TypeVar("Result")

_BATCH: Final = 32
_COMMITS: Final = 8
"""Maximum commits to a bucket at a time. They run in parallel, because a commit mostly waits for the bucket."""
_LONGEST_WAIT: Final = 0.2
"""Maximum seconds that an answer waits for others to be decoded with it."""

Tables: TypeAlias = dict[str, pa.Table]
Decode: TypeAlias = Callable[[Sequence[bytes], str, Sequence[str], datetime], Decoded]
"""Function (JSON bytes of answers, chain, subjects, as-of instant) that decodes answers into tables."""


@dataclass(frozen=True)
class PendingDecode:
    """Answers of a partition that wait to be decoded, with their subjects and the function that decodes them.

    ``subject_column`` names the column with the subject, if there is exactly one subject and one answer. Only then may
    the answer be decoded together with others of the partition.
    """

    decode: Decode
    chain: str
    as_of: datetime
    subjects: Sequence[str]
    answers: Sequence[Response]
    subject_column: str = ""

    @property
    def group(self) -> Hashable:
        """Key that is equal for pending answers that are decoded together."""
        return self.decode, self.chain, self.as_of, () if self.subject_column else tuple(self.subjects)


class DecodeQueue:
    """Queue that decodes answers into tables with the column ``fetched_at``, for one event loop."""

    def __init__(self) -> None:
        self._waiting: list[tuple[PendingDecode, asyncio.Future[Decoded]]] = []
        self._is_full = asyncio.Event()
        self._batches: asyncio.Task[None] | None = None
        self._running = 0
        # One thread: more would share the interpreter's lock, and need more memory.
        self._thread = ThreadPoolExecutor(1, "decoding")
        self._remote = ThreadPoolExecutor(_COMMITS, "commits")

    async def decode(self, item: PendingDecode, slots: Slots) -> Decoded:
        """Decode ``item`` and return its rows. Raises ``MalformedAnswer`` if its answer cannot be decoded.

        If several items are decoded together, the first item gets the rows of all, and the others get no rows: the rows
        of a large partition are in files, of which one for each answer would be too many.
        ``slots.used`` is the number of answers that wait here or are still being fetched.
        """
        future: asyncio.Future[Decoded] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if len(self._waiting) >= min(_BATCH, slots.used):
            self._is_full.set()
        if self._batches is None:
            self._batches = asyncio.create_task(self._decode_waiting())
        return await future

    async def _decode_waiting(self) -> None:
        while self._waiting:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_full.wait(), _LONGEST_WAIT)
            self._is_full.clear()
            batch, self._waiting = self._waiting, []
            results: Sequence[Decoded | Exception]
            try:
                results = await self.run(_decode_all, [item for item, _ in batch])
            except Exception as error:  # every future gets a result
                results = [error] * len(batch)
            hand_out([future for _, future in batch], results)
        self._batches = None

    async def run(self, work: Callable[[Argument], Result], argument: Argument, *, is_remote: bool = False) -> Result:
        """Call ``work(argument)`` in the decoding thread, or in one of those for commits to a bucket."""
        executor = self._remote if is_remote else self._thread
        self._running += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(executor, work, argument)
        finally:
            self._running -= 1

    @property
    def is_busy(self) -> bool:
        """True while answers wait to be decoded, or the decoding thread works."""
        return bool(self._batches or self._running)

    async def finish(self) -> None:
        """Wait until all answers are decoded. ``decode`` raises their errors."""
        if self._batches is not None:
            await asyncio.wait([self._batches])


def _decode_all(items: Sequence[PendingDecode]) -> list[Decoded | Exception]:
    groups: dict[Hashable, list[int]] = {}
    for place, item in enumerate(items):
        groups.setdefault(item.group, []).append(place)
    results: dict[int, Decoded | Exception] = {}
    for places in groups.values():
        results |= zip(places, _decode([items[place] for place in places]), strict=True)
    return [results[place] for place in range(len(items))]


def _decode(items: Sequence[PendingDecode]) -> list[Decoded | Exception]:
    """Decode pending answers of one group together. If that fails, decode each alone.

    The first result has the rows of the complete group. The unreadable values of an answer are in its own result.
    """
    try:
        subjects = [subject for item in items for subject in item.subjects]
        answers = [fetched.raw for item in items for fetched in item.answers]
        decoded = items[0].decode(answers, items[0].chain, subjects, items[0].as_of)
        tables = _with_fetched_at(decoded.tables, items)
    except Exception as error:
        if len(items) > 1:
            return [result for item in items for result in _decode([item])]
        return [provider_error(items[0].answers[error.answer], error) if isinstance(error, MalformedAnswer) else error]
    if len(items) == 1:
        return [Decoded(tables, decoded.unreadable)]
    unreadable = [
        [replace(value, answer=0) for value in decoded.unreadable if value.answer == place]
        for place in range(len(items))
    ]
    return [Decoded(tables, unreadable[0]), *(Decoded({}, notes) for notes in unreadable[1:])]


def provider_error(fetched: Response, error: MalformedAnswer) -> errors.MalformedAnswer:
    """Return a decoding error as ``provider.errors.MalformedAnswer``, with the hash of the answer ``fetched``."""
    return errors.MalformedAnswer(str(error), fetched.sha256, fetched.digest)


def _with_fetched_at(rows: Tables, items: Sequence[PendingDecode]) -> Tables:
    """Add the column ``fetched_at``: the fetch time of the answer from which a row comes.

    If a subject has several answers, it is the time of the last one.
    """
    at = [max(fetched.fetched_at for fetched in item.answers) for item in items]
    if len(items) == 1:
        return {name: with_fetched_at(TABLES[name], table, at[0]) for name, table in rows.items()}
    subjects = pa.array([item.subjects[0] for item in items], pa.string())
    times = pa.array(at, INSTANT_TYPE)
    return {
        name: with_fetched_at(TABLES[name], table, times.take(pc.index_in(table[items[0].subject_column], subjects)))
        for name, table in rows.items()
    }
