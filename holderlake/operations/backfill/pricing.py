"""Price the gaps of a plan: list the calls that fill them, and count the requests that need no call.

The size of an answer is estimated from archived answers of the same kind, or assumed. A size is in bytes of
uncompressed JSON for each unit of the request: a holder, a token, an address.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

from holderlake.core.archive.archive import AnswerArchive
from holderlake.core.contract.prices import ADDRESS_METADATA
from holderlake.core.contract.requests import AddressesMetadataRequest, Request
from holderlake.core.ingest.stream import filler_of
from holderlake.core.workspace import Workspace
from holderlake.operations.backfill.coverage import Gap

_ADDRESSES_KIND: Final = "addresses/metadata"
_FIRST_TRANSFERS: Final = """
SELECT chain, token_address, min(min_date)
FROM tokens
WHERE min_date IS NOT NULL
GROUP BY ALL
"""
_UNSUPPORTED: Final = """
SELECT DISTINCT endpoint, chain, subject
FROM failures
WHERE code = 'unsupported_token'
    AND (chain, subject) NOT IN (SELECT (chain, token_address) FROM maps)
"""
_MOST_ANSWERS_READ: Final = 300
_ENOUGH_OF_A_KIND: Final = 30

ASSUMED: Final[Mapping[str, tuple[int, str]]] = MappingProxyType(
    {
        "chains": (3_000, "an answer"),
        "tokens/map": (1_000, "a holder of the limit"),
        "tokens/holders": (180, "a holder of the limit"),
        "tokens/holders, with metadata": (500, "a holder of the limit"),
        "tokens/metadata": (300, "a token"),
        "relationships/subgraph": (400, "an address"),
        "addresses/metadata": (320, "an address"),
    }
)
"""Bytes for each unit, and the unit, by kind of request, for kinds without archived answers. Measured on
answers over the sample world, rounded up; doubled for maps and subgraphs, because real tokens have more transfers
between their holders."""
_ANY_ANSWER: Final = (3_000, "an answer")
"""The same for any other kind."""


@lru_cache(maxsize=100_000)
def encoded(subject: str) -> str:
    """Return a subject percent-encoded, as the last segment of its request's path."""
    return quote(subject, safe="")


@dataclass(frozen=True)
class Call:
    """A call for a stream (``family``). ``cost`` is in hundredths of a credit, ``kind`` is for example ``tokens/map``.

    ``units`` is the number of holders, tokens or addresses in the answer, by which its size is estimated.
    """

    chain: str
    family: str
    endpoint: str
    cost: int
    kind: str
    units: int


@dataclass(frozen=True)
class Known:
    """Facts about tokens by which the provider will refuse requests. A refused call costs nothing.

    ``firsts`` has the time of each token's first transfer, by chain and token. ``unsupported`` has the endpoint, chain
    and token of each request that was refused as ``unsupported_token``, if the token has no map at any instant.
    """

    firsts: Mapping[tuple[str, str], datetime] = field(default_factory=dict)
    unsupported: frozenset[tuple[str, str, str]] = frozenset()

    def refused(self, gap: Gap) -> set[str]:
        """Return the missing tokens of a gap whose requests the provider will refuse."""
        chain, endpoint, as_of = gap.partition.chain, gap.stream.endpoint, gap.partition.as_of
        if not self.firsts and not self.unsupported:
            return set()
        return {
            token
            for token in gap.missing
            if self.firsts.get((chain, token), as_of) > as_of or (endpoint, chain, token) in self.unsupported
        }


def known_refusals(workspace: Workspace) -> Known:
    """Return the facts from the warehouse; none without a warehouse."""
    if workspace.warehouse.version is None:
        return Known()
    with workspace.warehouse.connect() as connection:
        firsts = connection.execute(_FIRST_TRANSFERS).fetchall()
        unsupported = connection.execute(_UNSUPPORTED).fetchall()
    return Known({(chain, token): first_transfer for chain, token, first_transfer in firsts}, frozenset(unsupported))


@dataclass
class Bill:
    """The calls of a plan, and its counts of partitions and requests for each stream.

    ``calls`` has the number of calls of each kind, in the order of the plan. The other counters have the stream's name
    as key. ``partitions`` counts all partitions, ``complete`` the complete ones. ``archived``, ``shared`` and
    ``computed`` count requests that need no call, ``refused`` counts calls that the provider will refuse (see
    ``PlanLine``).
    """

    calls: Counter[Call] = field(default_factory=Counter)
    partitions: Counter[str] = field(default_factory=Counter)
    complete: Counter[str] = field(default_factory=Counter)
    archived: Counter[str] = field(default_factory=Counter)
    shared: Counter[str] = field(default_factory=Counter)
    computed: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    stale: Counter[str] = field(default_factory=Counter)
    """Partitions by stream that were computed before the own store changed."""
    other_gaps: dict[str, list[Gap]] = field(default_factory=dict)
    """Gaps by stream, of partitions that were fetched with other request options than those of the settings."""

    @property
    def credits(self) -> int:
        return sum(call.cost * count for call, count in self.calls.items())


def price(
    workspace: Workspace,
    provider_id: str,
    gaps: Iterable[Gap],
    refresh: bool = False,
    look_up: bool = True,
    refusals: Known | None = None,
) -> Bill:
    """Return the bill of the calls that fill the gaps. The calls are in the order of the gaps.

    Requests with an archived answer cost nothing; with ``refresh``, they are paid again. With ``look_up=False``, the
    archive is not searched for answers about one token, which is faster; their requests are priced as calls. Calls that
    the provider will refuse by ``refusals`` cost nothing; without it, every call has the price of an answer. Calls to
    the user's own store cost nothing.
    """
    bill, refusals = Bill(), refusals or Known()
    keys: set[str] = set()
    timeless: dict[tuple[str, str, bytes], int] = {}
    look_up = look_up and not refresh and workspace.archive.newest_day() is not None
    for gap in gaps:
        name = gap.stream.name
        bill.partitions[name] += 1
        bill.stale[name] += gap.is_stale
        if gap.other_options is not None:
            bill.other_gaps.setdefault(name, []).append(gap)
        if gap.is_none:
            bill.complete[name] += 1
        elif gap.unnamed:
            _price_unnamed(gap, bill)
        elif filler_of(workspace, gap.stream):
            bill.computed[name] += len(gap.missing)
        elif gap.stream.together and gap.stream.historic:
            _price_alike(workspace, provider_id, gap, bill, refresh, look_up, refusals.refused(gap))
        elif gap.stream.historic or refresh:
            _price_requests(workspace, provider_id, gap, bill, keys if gap.stream.historic else set(), refresh)
        else:  # one answer a day serves all past instants, so an equal gap sends no further request
            gap_key = (name, gap.partition.chain, blake2b("\n".join(gap.missing).encode()).digest())
            if gap_key in timeless:
                bill.shared[name] += timeless[gap_key]
            else:
                timeless[gap_key] = _price_requests(workspace, provider_id, gap, bill, keys)
    return _free(bill) if workspace.settings.provider.is_own_store else bill


def _free(bill: Bill) -> Bill:
    """Return the bill with the same calls at no cost."""
    calls: Counter[Call] = Counter()
    for call, count in bill.calls.items():
        calls[replace(call, cost=0)] += count
    return replace(bill, calls=calls)


def _price_alike(
    workspace: Workspace,
    provider_id: str,
    gap: Gap,
    bill: Bill,
    refresh: bool,
    look_up: bool,
    refused: set[str],
) -> None:
    """Add to ``bill`` the calls that fill a gap of a stream with one request for each subject, all at the same cost.

    With ``look_up``, requests whose answers are in the archive count as archived. With ``refresh``, the requests ask
    the provider for new answers. Calls about the subjects ``refused`` cost nothing.
    """
    name, chain, as_of = gap.stream.name, gap.partition.chain, gap.stream.archive_as_of(gap.partition)
    settings = gap.stream.with_options(workspace.settings, gap.options)
    (request,) = gap.stream.requests(settings, gap.partition, gap.missing[:1], refresh)
    called: Sequence[str] = gap.missing
    if look_up:
        folder = request.path.removesuffix(encoded(gap.missing[0]))
        paths = (folder + encoded(subject) for subject in gap.missing)
        keys = workspace.archive.keys(provider_id, request, paths, as_of)
        archived_keys = workspace.archive.held(keys, as_of if isinstance(as_of, datetime) else None)
        called = [subject for subject, key in zip(gap.missing, keys, strict=True) if key not in archived_keys]
        bill.archived[name] += len(gap.missing) - len(called)
    free = [subject for subject in called if subject in refused]
    paid_subjects = [subject for subject in called if subject not in refused] if free else called
    bill.refused[name] += len(free)
    kind, units = measure_request(request)
    for cost, subjects in ((request.cost, paid_subjects), (0, free)):
        if subjects:
            bill.calls[Call(chain, name, request.endpoint, cost, kind, units if cost else 0)] += len(subjects)


def _price_unnamed(gap: Gap, bill: Bill) -> None:
    """Add the calls of a gap of the stream ``addresses`` with ``unnamed`` subjects, at the highest possible cost."""
    subjects_left = len(gap.missing) + gap.unnamed
    while subjects_left:
        units = min(subjects_left, gap.stream.batch)
        endpoint, cost = AddressesMetadataRequest.endpoint, ADDRESS_METADATA * units
        bill.calls[Call(gap.partition.chain, gap.stream.name, endpoint, cost, _ADDRESSES_KIND, units)] += 1
        subjects_left -= units


def _price_requests(
    workspace: Workspace, provider_id: str, gap: Gap, bill: Bill, keys: set[str], refresh: bool = False
) -> int:
    """Add a gap's requests to the bill, and return their number. With ``refresh``, archived answers are paid again.

    ``keys`` are the archive keys of the requests that the bill contains already. The gap's keys are added to them.
    """
    name, as_of = gap.stream.name, gap.stream.archive_as_of(gap.partition)
    settings = gap.stream.with_options(workspace.settings, gap.options)
    requests = [
        request
        for group in gap.stream.batches(gap.missing)
        for request in gap.stream.requests(settings, gap.partition, group, refresh)
    ]
    for request in requests:
        key = workspace.archive.key(provider_id, request, as_of)
        if key in keys:
            bill.shared[name] += 1
        elif not refresh and workspace.archive.holds(key, as_of if isinstance(as_of, datetime) else None):
            bill.archived[name] += 1
        else:
            kind, units = measure_request(request)
            bill.calls[Call(gap.partition.chain, name, request.endpoint, request.cost, kind, units)] += 1
        keys.add(key)
    return len(requests)


@dataclass(frozen=True)
class Size:
    """Average size of answers of one kind: bytes of JSON for each ``unit``, a text such as "a token".

    ``answers`` is the number of archived answers that were measured; 0 for an assumed size.
    """

    by_unit: float
    unit: str
    answers: int


def measure(path: str, query: Mapping[str, Any], body: Any) -> tuple[str, int]:
    """Return the kind of a request (such as ``tokens/map``), and its number of units: holders, tokens or addresses.

    ``query`` has the parameters of the request's URL, ``body`` its decoded JSON or None.
    """
    parts = path.strip("/").split("/")[1:]
    kind = "/".join(parts[:2])
    if kind in ("tokens/map", "tokens/holders"):
        suffix = ", with metadata" if "return_metadata" in query else ""
        return kind + suffix, int(query.get("limit", 80))
    return kind, len(body["addresses"] if isinstance(body, Mapping) else body) if body else 1


def measure_request(request: Request) -> tuple[str, int]:
    """Return the kind of a request (a key of ``ASSUMED``), and its number of units: holders, tokens or addresses."""
    return measure(request.path, request.query, request.body)


def sample_sizes(archive: AnswerArchive, provider_id: str, kinds: Collection[str]) -> dict[str, Size]:
    """Return the size of each kind, measured on the provider's answers among the first 300 of the archive.

    Archived answers are sorted by hash, so the first ones are a random sample.
    """
    read = {kind: [0, 0, 0] for kind in kinds}  # answers, bytes, units
    for count, answer in enumerate(archive, start=1):
        if answer.provider_id == provider_id:
            kind, units = measure(answer.request["path"], answer.request["query"], answer.request["body"])
            if kind in read:
                read[kind] = [a + b for a, b in zip(read[kind], (1, len(answer.raw), units), strict=True)]
        if count >= _MOST_ANSWERS_READ or all(answers >= _ENOUGH_OF_A_KIND for answers, _, _ in read.values()):
            break
    return {kind: _size(kind, *counts) for kind, counts in read.items()}


def _size(kind: str, answers: int, octets: int, units: int) -> Size:
    assumed, unit = ASSUMED.get(kind, _ANY_ANSWER)
    return Size(octets / units, unit, answers) if answers else Size(assumed, unit, 0)
