"""The engine in this process: maps and holders of many tokens at many instants as Arrow tables, without HTTP and JSON.

The rows equal those of the embedded service. One computation of several partitions is called a pass; each partition
gets its own commit, as if its answers had been fetched. Heavy modules are imported at their first use, because most
commands do not need them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holderlake.core.archive import provenance
from holderlake.core.contract.requests import HoldersOptions, HoldersRequest, MapOptions, MapRequest, Request
from holderlake.core.contract.tables import INSTANT_TYPE, MAP_TABLES, TABLES, with_fetched_at
from holderlake.core.contract.times import utc_now
from holderlake.core.ingest.partition import Batch, commit, spilled
from holderlake.core.ingest.stream import ChainInstant, IngestContext, MissingSubjects, PartitionResult, Stream
from holderlake.core.provider.errors import NoAnswer, NoHolders, UnknownToken, UnsupportedToken
from holderlake.engine.errors import EngineError
from holderlake.engine.errors import UnknownToken as NotKnown
from holderlake.engine.errors import UnsupportedToken as NotSupported

if TYPE_CHECKING:
    from holderlake.engine.records import TokenInfo
    from holderlake.engine.store.store import Store

_FIRST_PASS: Final = 512
"""Number of answers in the first pass, before the size of an answer is known."""
_BYTES: Final = 64 << 20
"""Maximum bytes of rows that are computed at once. Two passes are in memory at a time."""

_NONE_MISSING: Final = MissingSubjects([], {})

Tables: TypeAlias = dict[str, pa.Table]
_ERRORS: Final[Mapping[str, type[NoAnswer]]] = {
    error.code: error for error in (NoHolders, UnknownToken, UnsupportedToken)
}


@dataclass(frozen=True)
class Refusal:
    """A token without an answer at an instant, and the error that an HTTP request would raise."""

    token_address: str
    as_of: datetime
    error: NoAnswer


@dataclass(frozen=True)
class BulkResult:
    """The rows of many tokens and instants: the lake's tables by name, without the column ``fetched_at``.

    The rows of a token at an instant equal, in content and order, those of its HTTP answer from ``endpoint``.
    ``refused`` are tokens and instants without an answer; ``computed_at`` is naive UTC.
    """

    endpoint: str
    tables: Mapping[str, pa.Table]
    refused: Sequence[Refusal]
    computed_at: datetime


class StoreEngine:
    """The engine over a store. It implements ``core.workspace.Filler``.

    ``chain`` and ``tokens`` (addresses) name the tokens, ``instants`` are naive UTC. A token without an answer is in
    ``BulkResult.refused``; only faults of the engine or its store raise exceptions. ``options.timestamp`` is ignored:
    each answer is as of one of the instants.

    ``store`` and ``provider_id`` are functions that return the value. They are called at its first use.
    """

    def __init__(self, store: Callable[[], Store], provider_id: Callable[[], str]) -> None:
        self._store = store
        self._provider_id = provider_id

    @property
    def provider_id(self) -> str:
        """The id of the provider whose store the engine reads."""
        return self._provider_id()

    @property
    def rules(self) -> Mapping[str, Any]:
        """The store's rules as plain data."""
        from holderlake.engine.catalog.rules import rules_in_force

        return rules_in_force(self._store().rules)

    @property
    def endpoints(self) -> frozenset[str]:
        """The endpoints whose answers the engine computes."""
        return frozenset({MapRequest.endpoint, HoldersRequest.endpoint})

    async def fill(
        self,
        context: IngestContext,
        stream: Stream,
        partitions: Sequence[ChainInstant],
        only: Sequence[str] | None,
        on_result: Callable[[PartitionResult], None] = lambda result: None,
    ) -> list[PartitionResult]:
        """Compute and commit what a chain's partitions lack, and return all results."""
        return await fill_partitions(context, self, stream, partitions, only, on_result)

    def answers(self, request: Request, tokens: Sequence[str], instants: Sequence[datetime]) -> BulkResult:
        """Return the rows of a request's endpoint, with its chain and options, for tokens at instants (UTC)."""
        if isinstance(request, MapRequest):
            return self.maps(request.chain, tokens, instants, request.options)
        if isinstance(request, HoldersRequest):
            return self.holders(request.chain, tokens, instants, request.options)
        raise TypeError(f"the engine computes maps and holders, not {request.endpoint}")

    def maps(self, chain: str, tokens: Sequence[str], instants: Sequence[datetime], options: MapOptions) -> BulkResult:
        """Return the map tables of tokens at instants (UTC), and the tokens and instants that have no map. Raises
        ``EngineError`` if the store can't be read."""
        from holderlake.engine.maps.batch import map_batches

        token_infos, refused = self._supported_tokens(chain, tokens, instants)
        at = utc_now()
        batches = list(map_batches(self._store(), [(chain, address) for address in token_infos], instants, options, at))
        tables = {name: _concat_pieces(name, (batch[name] for batch in batches)) for name in MAP_TABLES}
        missing = _without_holders(tables["maps"], token_infos, instants)
        return BulkResult(MapRequest.endpoint, tables, [*refused, *missing], at)

    def holders(
        self, chain: str, tokens: Sequence[str], instants: Sequence[datetime], options: HoldersOptions
    ) -> BulkResult:
        """Return the ``holders`` rows of tokens at instants (UTC), and the tokens and instants without holders. Raises
        ``EngineError`` if the store can't be read."""
        from holderlake.engine.maps.batch import holder_batches

        token_infos, refused = self._supported_tokens(chain, tokens, instants)
        at = utc_now()
        keys = [(chain, address) for address in token_infos]
        batches = holder_batches(self._store(), keys, instants, options.limit, options.return_metadata)
        rows = _concat_pieces("holders", batches)
        missing = _without_holders(rows.filter(pc.equal(rows["rank"], 1)), token_infos, instants)
        return BulkResult(HoldersRequest.endpoint, {"holders": rows}, [*refused, *missing], at)

    def _supported_tokens(
        self, chain: str, tokens: Sequence[str], instants: Sequence[datetime]
    ) -> tuple[dict[str, TokenInfo], list[Refusal]]:
        """Return the supported tokens by address, and a ``Refusal`` with the reason for each instant of each
        other token."""
        from holderlake.engine.queries.balances import supported_token

        token_infos, refused = {}, []
        store = self._store().snapshot()
        for address in tokens:
            try:
                token_infos[address] = supported_token(store, chain, address)
            except (NotKnown, NotSupported) as error:
                refused += [Refusal(address, as_of, _provider_error(error)) for as_of in instants]
        return token_infos, refused


def _concat_pieces(name: str, pieces: Iterable[pa.Table]) -> pa.Table:
    return pa.concat_tables([TABLES[name].engine_schema.empty_table(), *pieces])


def _without_holders(
    answered_rows: pa.Table, token_infos: Mapping[str, TokenInfo], instants: Sequence[datetime]
) -> list[Refusal]:
    """Return a ``Refusal`` for each token and instant without a row in ``answered_rows``: the token then has no
    holders."""
    from holderlake.engine.queries.balances import no_holders

    keys = set(zip(answered_rows["token_address"].to_pylist(), answered_rows["as_of"].to_pylist(), strict=True))
    return [
        Refusal(address, as_of, _provider_error(no_holders(token, as_of)))
        for address, token in token_infos.items()
        for as_of in instants
        if (token.address, as_of) not in keys
    ]


def _provider_error(error: EngineError) -> NoAnswer:
    return _ERRORS[error.code](str(error))


async def fill_partitions(
    context: IngestContext,
    engine: StoreEngine,
    stream: Stream,
    partitions: Sequence[ChainInstant],
    only: Sequence[str] | None,
    on_result: Callable[[PartitionResult], None] = lambda _: None,
) -> list[PartitionResult]:
    """Compute the missing subjects of a chain's partitions, commit each partition, and return all results.

    ``only`` names the tokens to consider (None: all). ``on_result`` is called with the result of each partition. The
    engine computes the next pass while the partitions of a pass are committed, because commits mostly wait for the
    disk.
    """
    size = _PassSize()
    passes = _passes(context, stream, partitions, only, size)

    def start() -> tuple[Sequence[ChainInstant], MissingSubjects, asyncio.Task[dict[ChainInstant, Batch]]] | None:
        pass_partitions, missing = next(passes, ((), _NONE_MISSING))
        if not pass_partitions:
            return None
        work = asyncio.to_thread(_compute, context, engine, stream, missing, size, pass_partitions)
        return pass_partitions, missing, asyncio.create_task(work)

    results: list[PartitionResult] = []
    running = start()
    try:
        while running is not None:
            pass_partitions, missing, task = running
            batches = await task
            context.fetcher.check_running()
            running = start()
            for partition in pass_partitions:
                results.append(await commit(context, stream, partition, missing, batches.pop(partition)))
                on_result(results[-1])
    finally:
        if running is not None:
            running[2].cancel()
    return results


def _passes(
    context: IngestContext,
    stream: Stream,
    partitions: Sequence[ChainInstant],
    only: Sequence[str] | None,
    size: _PassSize,
) -> Iterator[tuple[Sequence[ChainInstant], MissingSubjects]]:
    """Yield for each pass its partitions and its missing subjects.

    Partitions are in one pass if they are consecutive and lack the same subjects.
    """
    for missing, alike in groupby(partitions, lambda partition: context.missing(stream, partition, only)):
        partitions_left = list(alike)
        while partitions_left:
            count = size.partitions(len(missing.subjects))
            yield partitions_left[:count], missing
            partitions_left = partitions_left[count:]


def _compute(
    context: IngestContext,
    engine: StoreEngine,
    stream: Stream,
    missing: MissingSubjects,
    size: _PassSize,
    partitions: Sequence[ChainInstant],
) -> dict[ChainInstant, Batch]:
    """Compute the missing subjects of the partitions of one pass. Return for each partition the batch to commit.

    The subjects of a single, large partition are computed in several steps. Their rows stay on disk until the commit.
    """
    subjects = missing.subjects
    if not subjects:
        return {partition: Batch() for partition in partitions}
    instants = sorted(partition.as_of for partition in partitions)
    settings = stream.with_options(context.workspace.settings, missing.options)
    batches = {partition: Batch() for partition in partitions}
    subjects_left = subjects
    while subjects_left:
        step_subjects, subjects_left = subjects_left[: size.answers], subjects_left[size.answers :]
        request = stream.requests(settings, partitions[0], step_subjects[:1], False)[0]
        result = engine.answers(request, step_subjects, instants)
        size.update(result, len(step_subjects) * len(instants))
        by_instant = _by_instant(result, instants)
        for partition, batch in batches.items():
            tables, refused = by_instant[partition.as_of]
            if len(step_subjects) < len(subjects):
                tables = spilled(context.workspace.settings.home, tables)
            batch.merge(_batch(result, step_subjects, tables, refused))
    return batches


def _batch(result: BulkResult, subjects: Sequence[str], tables: Tables, refused: Sequence[Refusal]) -> Batch:
    """Return the batch to commit for one partition.

    ``tables`` are the rows of the partition by table name. ``refused`` are the subjects for which the engine has no
    answer, with the error.
    """
    batch = Batch({name: [rows] for name, rows in tables.items()}, computed=len(subjects))
    for refusal in refused:
        batch.fail(result.endpoint, refusal.token_address, refusal.error.code, refusal.error)
    batch.covered |= dict.fromkeys(set(subjects) - {refusal.token_address for refusal in refused}, result.computed_at)
    batch.groups.append(provenance.group_of(subjects, (), (), batch.failures))
    return batch


class _PassSize:
    """The number of answers in the next pass, estimated from the bytes of the answers in earlier passes."""

    def __init__(self) -> None:
        self.answers = _FIRST_PASS

    def partitions(self, subjects: int) -> int:
        """Return the number of partitions in the next pass, at least one.

        ``subjects`` is how many each partition lacks.
        """
        return max(1, self.answers // max(1, subjects))

    def update(self, result: BulkResult, answers: int) -> None:
        """Set the number of answers in the next pass so that their rows fill about ``_BYTES`` bytes.

        ``result`` is the last pass, with the rows of ``answers`` answers. The number at most doubles, because later
        answers may be larger.
        """
        size = sum(rows.nbytes for rows in result.tables.values())
        self.answers = max(1, min(max(2 * answers, _FIRST_PASS), _BYTES * answers // max(size, 1)))


def _by_instant(result: BulkResult, instants: Sequence[datetime]) -> dict[datetime, tuple[Tables, list[Refusal]]]:
    """Return for each instant its tables by name, and the subjects for which the engine has no answer.

    The tables have the column ``fetched_at``.
    """
    by_instant: dict[datetime, tuple[Tables, list[Refusal]]] = {as_of: ({}, []) for as_of in instants}
    for refusal in result.refused:
        by_instant[refusal.as_of][1].append(refusal)
    for name, rows in result.tables.items():
        for as_of, instant_rows in _split(with_fetched_at(TABLES[name], rows, result.computed_at), instants).items():
            by_instant[as_of][0][name] = instant_rows
    return by_instant


def _split(rows: pa.Table, instants: Sequence[datetime]) -> Mapping[datetime, pa.Table]:
    """Return the rows of each instant in their original order. ``instants`` must be sorted."""
    keys = pa.array(instants, INSTANT_TYPE).cast(pa.int64()).to_numpy()
    at = rows["as_of"].cast(pa.int64()).to_numpy()
    order = np.argsort(at, kind="stable")
    ordered, at = rows.take(pa.array(order)), at[order]
    starts, ends = (np.searchsorted(at, keys, side) for side in ("left", "right"))
    return {
        as_of: ordered.slice(start, end - start)
        for as_of, start, end in zip(instants, starts.tolist(), ends.tolist(), strict=True)
    }
