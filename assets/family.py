"""What all families of tables share: cover the subjects of a partition, and commit them to the lake together.

A family is plain data and pure functions: its tables, its subjects (tokens, address sets, …), the requests that tell of
some of them, and the rows in the bytes of the answers. ``ingest`` asks only for subjects that the partition's manifest
does not name yet, so a killed run goes on where it stopped and a finished partition costs nothing. A subject that fails
becomes a row of ``failures``; the rest lands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa

from assets.reading import Reader, Unread
from assets.swept import Pace, by_instant
from contract.requests import Request
from contract.tables import TABLES, build
from contract.times import partition_text, to_unix, utc_now
from resources import journal
from resources.at_hand import Engine, Refused, Swept
from resources.errors import InvalidRequest, MalformedAnswer, NoAnswer, PermanentError, PlanRequired, TransientError
from resources.lake import SUBJECT_COLUMNS
from resources.normalise import BadAnswer
from resources.provider import Fetched, Provider
from resources.settings import Settings
from resources.workspace import Workspace

T = TypeVar("T")
Sweep: TypeAlias = Callable[[Engine, Settings, str, Sequence[str], Sequence[datetime]], Swept]
"""Asks an engine at hand for subjects of a chain at instants, as the settings want them."""

ANSWERS_AT_ONCE = 512
"""Partitions are begun side by side until so many answers are wanted. It bounds what is begun and not committed; how
many calls are under way, and how many answers are held, is the provider's matter."""

OUTAGE = 16
"""So many partitions in a row without an answer are an outage, and nothing more is asked for."""

GRACE = 1.0
"""Seconds in which partitions that have their answers are committed, after credits ran out or a key failed."""

FINAL_FAILURES = frozenset({"no_holders", "unsupported_token"})
"""Answers about the token itself: asking again for the same instant can't change them."""


@dataclass(frozen=True)
class Slice:
    """One chain at one instant. ``live`` instants are asked for without a timestamp, at no surcharge."""

    chain: str
    as_of: datetime
    live: bool

    @property
    def timestamp(self) -> int | None:
        """What endpoints with history mode are asked for."""
        return None if self.live else to_unix(self.as_of)


@dataclass(frozen=True)
class Family:
    """Tables that are fetched and committed together.

    ``by`` is the kind of its subjects: chain, token, address_set or address. ``batch`` subjects at most go into one
    asking. ``historic`` endpoints answer as of a past instant; of the others, one answer a day serves every past.
    ``requests(settings, part, subjects, refresh)`` tells what to ask, and ``rows(part, subjects, answers)`` what the
    answers hold, by table, without ``fetched_at``. A subject that ``named_in`` does not find in the rows was left out
    by the provider, and is a failure. ``together``: ``rows`` takes many subjects at once, an answer each.
    ``sweep``: an engine at hand can tell the same of many partitions in one pass.
    """

    name: str
    by: str
    tables: tuple[str, ...]
    historic: bool
    batch: int
    subjects: Callable[[Workspace, Slice], list[str]]
    requests: Callable[[Settings, Slice, Sequence[str], bool], list[Request]]
    rows: Callable[[Slice, Sequence[str], Sequence[bytes]], dict[str, pa.Table]]
    named_in: Callable[[dict[str, pa.Table], str], bool] = lambda tables, subject: True
    together: bool = False
    sweep: Sweep | None = None

    def batches(self, subjects: Sequence[str]) -> list[Sequence[str]]:
        """The subjects in groups that are asked for together."""
        return [subjects[start : start + self.batch] for start in range(0, len(subjects), self.batch)]

    def known_as_of(self, part: Slice) -> datetime | str:
        """The instant that an answer is archived under: the slice's own, or the day on which it was learnt."""
        return part.as_of if self.historic else f"known {utc_now():%Y-%m-%d}"


@dataclass(frozen=True)
class Asking:
    """What an ingest is handed: the provider to ask, the workspace, and whether to ask anew what is archived.

    ``again`` asks for subjects that are covered too, but takes what the archive holds. ``replayed_at`` is set where a
    commit of that instant is made again from the archive; the journal holds it already.
    """

    provider: Provider
    workspace: Workspace
    refresh: bool = False
    again: bool = False
    replayed_at: datetime | None = None
    reader: Reader = field(default_factory=Reader)


@dataclass(frozen=True)
class Landed:
    """What a partition of a family holds after an ingest, and what the ingest cost (hundredths of a credit)."""

    family: str
    chain: str
    as_of: datetime
    rows: Mapping[str, int]
    failures: int
    credits: int
    calls: int
    skipped: str | None = None
    is_new: bool = True
    """Whether something was asked for; otherwise all was there already."""
    revisions: int = 0
    """How often, over time, a table's rows of a subject were told otherwise than before."""
    computed: int = 0
    """How many subjects the engine at hand told of, without a call."""


@dataclass
class _Batch:
    """What came of asking for some subjects."""

    tables: dict[str, list[pa.Table]] = field(default_factory=dict)
    covered: set[str] = field(default_factory=set)
    failures: list[dict[str, Any]] = field(default_factory=list)
    groups: list[journal.Group] = field(default_factory=list)
    credits: int = 0
    calls: int = 0
    computed: int = 0
    skipped: str | None = None
    outage: TransientError | None = None

    def fail(
        self, endpoint: str, subject: str, code: str, error: Exception | str, answer_hash: str | None = None
    ) -> None:
        """Notes a subject's failure; a final one counts as covered."""
        self.failures.append(
            {"endpoint": endpoint, "subject": subject, "code": code, "reason": str(error), "answer_hash": answer_hash}
        )
        if code in FINAL_FAILURES:
            self.covered.add(subject)


async def ingest(
    asking: Asking,
    family: Family,
    chain: str,
    instants: Iterable[datetime],
    only: Sequence[str] | None = None,
    landed: Callable[[Landed], None] = lambda _: None,
) -> list[Landed]:
    """Fetches and commits partitions of a family; ``landed`` hears of each as it is finished.

    ``only`` narrows token families to some tokens. Raises what stops a whole run: a wrong key, exhausted credits, a
    ceiling; and an outage, where no partition was answered for, or many in a row. Partitions that were finished by then
    are in the lake. One that got no answer among others that did is left out. Where the workspace has an engine at
    hand, it is swept for what it can tell, and nobody is asked.
    """
    engine = sweeping(asking.workspace, family)
    if engine is not None:
        parts = [slice_of(asking.workspace.settings, chain, as_of) for as_of in dict.fromkeys(instants)]
        return await _ingest_swept(asking, engine, family, parts, only, landed)
    gate = asyncio.Semaphore(_partitions_at_once(asking, family, chain, only))
    outages: list[TransientError] = []  # since a partition was last answered for

    async def one(as_of: datetime) -> Landed | None:
        async with gate:
            try:
                done = await ingest_slice(asking, family, slice_of(asking.workspace.settings, chain, as_of), only)
            except TransientError as error:
                outages.append(error)
                if len(outages) == OUTAGE:
                    raise
                return None  # its failures are in the lake, and other partitions may fare better
            outages.clear()
            landed(done)
            return done

    done = [one for one in await _side_by_side((one(as_of) for as_of in instants), GRACE) if one]
    if outages and not done:
        raise outages[0]
    return done


def _partitions_at_once(asking: Asking, family: Family, chain: str, only: Sequence[str] | None) -> int:
    tokens = only if only else asking.workspace.settings.watchlist.get(chain, [])
    return ANSWERS_AT_ONCE // max(1, len(tokens) if family.by == "token" else 1) + 1


async def _side_by_side(works: Iterable[Coroutine[Any, Any, T]], grace: float = 0.0) -> list[T]:
    """The results of all, in order. Where one raises the others are cancelled, and none is left behind.

    ``grace``: seconds that the others are given where asking is in vain from now on, for what they hold is paid.
    """
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return list(await asyncio.gather(*tasks))
    except PermanentError:
        await asyncio.wait(tasks, timeout=grace)
        raise
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def ingest_slice(asking: Asking, family: Family, part: Slice, only: Sequence[str] | None = None) -> Landed:
    """Fetches what one partition lacks and commits it.

    Raises ``TransientError`` when the provider answered for none of the subjects: that is an outage, and no partition.
    """
    engine = sweeping(asking.workspace, family)
    if engine is not None:
        (landed,) = await _ingest_swept(asking, engine, family, [part], only)
        return landed
    wanted = missing(asking.workspace, family, part, only, asking.refresh or asking.again)
    batch = _Batch()
    if wanted:
        groups = [_ask(asking, family, part, group) for group in family.batches(wanted)]
        batch = _together(await _side_by_side(groups))
    return await _finish(asking, family, part, wanted, batch)


def sweeping(workspace: Workspace, family: Family) -> Engine | None:
    """The engine at hand, where it can tell what the family wants to know."""
    return workspace.engine if family.sweep is not None else None


async def _ingest_swept(
    asking: Asking,
    engine: Engine,
    family: Family,
    parts: Sequence[Slice],
    only: Sequence[str] | None,
    landed: Callable[[Landed], None] = lambda _: None,
) -> list[Landed]:
    """Computes what the partitions of a chain lack, many in one pass, and commits each of them on its own.

    While those of one pass are committed, which is mostly waiting for the disk, the next pass is under way.
    """
    pace = Pace()
    passes = _passes(asking, family, parts, only, pace)

    def begin() -> tuple[Sequence[Slice], Sequence[str], asyncio.Task[dict[Slice, _Batch]]] | None:
        some, wanted = next(passes, ((), ()))
        if not some:
            return None
        return some, wanted, asyncio.create_task(asyncio.to_thread(_sweep, asking, engine, family, wanted, pace, some))

    done: list[Landed] = []
    ahead = begin()
    try:
        while ahead is not None:
            some, wanted, under_way = ahead
            batches = await under_way
            ahead = begin()
            for part in some:
                done.append(await _finish(asking, family, part, wanted, batches.pop(part)))
                landed(done[-1])
    finally:
        if ahead is not None:
            ahead[2].cancel()
    return done


def _passes(
    asking: Asking, family: Family, parts: Sequence[Slice], only: Sequence[str] | None, pace: Pace
) -> Iterator[tuple[Sequence[Slice], Sequence[str]]]:
    """Partitions that lack the same subjects, in their order, as many as make a pass; and these subjects."""
    anew = asking.refresh or asking.again
    for wanted, alike in groupby(parts, lambda part: missing(asking.workspace, family, part, only, anew)):
        left = list(alike)
        while left:
            count = pace.partitions(len(wanted))
            yield left[:count], wanted
            left = left[count:]


def _sweep(
    asking: Asking, engine: Engine, family: Family, wanted: Sequence[str], pace: Pace, parts: Sequence[Slice]
) -> dict[Slice, _Batch]:
    """What one pass tells of the subjects in each of the partitions."""
    if not wanted or family.sweep is None:
        return {part: _Batch() for part in parts}
    instants = sorted(part.as_of for part in parts)
    swept = family.sweep(engine, asking.workspace.settings, parts[0].chain, wanted, instants)
    pace.learn(swept, len(wanted) * len(instants))
    told = by_instant(swept, instants)
    return {part: _computed(swept.endpoint, wanted, *told[part.as_of]) for part in parts}


def _computed(
    endpoint: str, wanted: Sequence[str], tables: Mapping[str, pa.Table], refused: Sequence[Refused]
) -> _Batch:
    """What was computed of a partition, as if it had been asked for."""
    batch = _Batch({name: [rows] for name, rows in tables.items()}, computed=len(wanted))
    for one in refused:
        batch.fail(endpoint, one.token_address, one.error.code, one.error)
    batch.covered |= set(wanted) - {one.token_address for one in refused}
    batch.groups.append(journal.group_of(wanted, (), (), batch.failures))
    return batch


async def _finish(asking: Asking, family: Family, part: Slice, wanted: Sequence[str], batch: _Batch) -> Landed:
    """Commits what was learnt of a partition, and tells what it holds then."""
    lake = asking.workspace.lake
    if wanted and not batch.skipped:
        await asking.reader.run(partial(_commit, asking, family, part, wanted), batch)
    if batch.outage and not batch.covered:
        raise batch.outage
    manifest = lake.manifest(family.name, part.chain, part.as_of)
    rows = {name: manifest.tables[name].rows if manifest else 0 for name in family.tables}
    failures = manifest.failures if manifest else 0
    revised = manifest.revisions if manifest else 0
    return Landed(
        family.name,
        part.chain,
        part.as_of,
        rows,
        failures,
        batch.credits,
        batch.calls,
        batch.skipped,
        bool(wanted),
        revised,
        batch.computed,
    )


def _commit(asking: Asking, family: Family, part: Slice, wanted: Sequence[str], batch: _Batch) -> None:
    """Notes a partition's commit in the journal, and makes it."""
    at = _noted(asking, family, part, batch)
    asking.workspace.lake.write(
        family.name,
        part.chain,
        part.as_of,
        {name: _joined(name, batch.tables.get(name, ())) for name in family.tables},
        provider=asking.provider.provider_id,
        by=family.by,
        asked=set(wanted),
        covered=batch.covered,
        failures=_failures(part, batch.failures, at),
        final=family.historic,
    )


def _noted(asking: Asking, family: Family, part: Slice, batch: _Batch) -> datetime:
    """The instant of a commit, which the journal knows before it is made."""
    if asking.replayed_at is not None:
        return asking.replayed_at
    at, timestamp = utc_now(), partition_text(part.as_of)
    commit = journal.Commit(
        family.name, part.chain, timestamp, asking.provider.provider_id, part.live, at, tuple(batch.groups)
    )
    journal.note(asking.workspace.archive, commit)
    return at


def missing(
    workspace: Workspace, family: Family, part: Slice, only: Sequence[str] | None = None, refresh: bool = False
) -> list[str]:
    """The subjects that the partition does not hold yet; with ``refresh`` all of them."""
    subjects = list(only) if only is not None and family.by == "token" else family.subjects(workspace, part)
    manifest = None if refresh else workspace.lake.manifest(family.name, part.chain, part.as_of)
    return [subject for subject in subjects if manifest is None or subject not in manifest.covered]


def slice_of(settings: Settings, chain: str, as_of: datetime) -> Slice:
    """The slice of a chain at an instant: live at the present tick, history beyond the tolerance."""
    tolerance = timedelta(seconds=settings.schedule.live_tolerance_seconds)
    return Slice(chain, as_of, live=as_of >= utc_now() - tolerance)


async def _ask(asking: Asking, family: Family, part: Slice, subjects: Sequence[str]) -> _Batch:
    """Asks for one group of subjects. An error that is theirs alone becomes their failure."""
    batch = _Batch()
    requests = family.requests(asking.workspace.settings, part, subjects, asking.refresh)
    endpoint = requests[0].endpoint
    answers: list[Fetched] = []
    async with asking.provider.room.turn():
        try:
            for request in requests:
                answers.append(await _fetch(asking, family, part, request, batch))
            tables = await asking.reader.read(_unread(family, part, subjects, answers), asking.provider.room)
        except PlanRequired as error:
            batch.skipped = error.detail
        except (NoAnswer, TransientError, InvalidRequest) as error:
            batch.outage = error if isinstance(error, TransientError) else None
            for subject in subjects:
                batch.fail(endpoint, subject, error.code, error)
        except MalformedAnswer as error:
            for subject in subjects:
                batch.fail(endpoint, subject, error.code, error, error.answer_hash)
        except BadAnswer as error:
            for subject in subjects:
                batch.fail(endpoint, subject, MalformedAnswer.code, error, answers[-1].sha256)
        else:
            batch.tables = {name: [rows] for name, rows in tables.items()}
            for subject in subjects:
                if family.together or family.named_in(tables, subject):
                    batch.covered.add(subject)
                else:
                    batch.fail(endpoint, subject, "left_out", f"the provider's answer leaves out {subject}")
    batch.groups.append(journal.group_of(subjects, requests, answers, batch.failures))
    return batch


def _unread(family: Family, part: Slice, subjects: Sequence[str], answers: Sequence[Fetched]) -> Unread:
    rows = partial(family.rows, part)
    if not family.together:
        return Unread(subjects, answers, rows)
    return Unread(subjects, answers, rows, (family.name, part.chain, part.as_of), SUBJECT_COLUMNS[family.by])


async def _fetch(asking: Asking, family: Family, part: Slice, request: Request, batch: _Batch) -> Fetched:
    try:
        fetched = await asking.provider.fetch(request, family.known_as_of(part), refresh=asking.refresh)
    except (NoAnswer, TransientError, InvalidRequest):
        batch.calls += 1
        raise
    batch.credits += fetched.cost
    batch.calls += not fetched.from_archive
    return fetched


def _together(batches: Iterable[_Batch]) -> _Batch:
    total = _Batch()
    for batch in batches:
        for name, tables in batch.tables.items():
            total.tables.setdefault(name, []).extend(tables)
        total.covered |= batch.covered
        total.failures += batch.failures
        total.groups += batch.groups
        total.credits += batch.credits
        total.calls += batch.calls
        total.skipped = total.skipped or batch.skipped
        total.outage = total.outage or batch.outage
    return total


def _joined(name: str, tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables) if tables else TABLES[name].schema.empty_table()


def _failures(part: Slice, rows: Sequence[Mapping[str, Any]], at: datetime) -> pa.Table:
    common = {"chain": part.chain, "as_of": part.as_of}
    return build(TABLES["failures"], [common | dict(row) for row in rows], at)
