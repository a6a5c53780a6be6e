"""Details of addresses: counterparties and age from the transfers, kinds and name from the labels.

The transfers of all chains and tokens count, because an address is the same wallet on all chains. Transfers of value 0
do not count, because anyone can make one between any two addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa

from holderlake.core.contract.rules import Rules
from holderlake.core.contract.tables import TABLES
from holderlake.core.contract.times import to_unix
from holderlake.engine.catalog.labels import UNLABELLED, AddressLabel, marked_always, marked_in_period
from holderlake.engine.files.adjacency import NEVER, Run
from holderlake.engine.files.arrays import expand_ranges
from holderlake.engine.files.dictionary import UNKNOWN
from holderlake.engine.files.listing import View
from holderlake.engine.numeric.bigint import Array
from holderlake.engine.queries.tables import Columns, instants_of, table_of
from holderlake.engine.store.store import Store

CEX: Final = 1
DEX: Final = 2
CONTRACT: Final = 4
BUSY: Final = 8
"""Bit among an address's kinds: it is a hypernode at some instant."""
LABELLED: Final = 16
"""Bit among an address's kinds: it has a label, or is the address of a token."""
MARKED: Final = CEX | DEX | CONTRACT | BUSY
"""Bits of the kinds of addresses that maps leave out or treat differently."""


@dataclass(frozen=True)
class Activity:
    """Activity of addresses, each as of a second, as arrays with a row for each address.

    ``relations`` has three columns: the numbers of distinct counterparties, of senders to the address, and of receivers
    from it. ``transfers`` are numbers of transfers. ``first_times`` are unix seconds of the first transfer, ``NEVER``
    without transfers.
    """

    relations: Array
    transfers: Array
    first_times: Array


def activity(view: View, addresses: Array, seconds: Array) -> Activity:
    """Return the activity of addresses over all tokens and chains.

    ``seconds`` has a unix second for each address; transfers of the address after this second are left out.
    """
    relations = np.zeros((len(addresses), 3), np.int64)
    transfers = np.zeros(len(addresses), np.int64)
    first_times = np.full(len(addresses), NEVER)
    later: list[_Pairs] = []
    for number, run in enumerate(view.runs):
        starts, ends = run.entries(addresses)
        cuts = run.upto(starts, ends, seconds)
        transfers += cuts - starts
        active = np.flatnonzero(cuts > starts)
        first_times[active] = np.minimum(first_times[active], run.times[starts[active]])
        if number == 0:
            relations += run.counterparties(starts, cuts)
        elif len(active):
            later.append(_Pairs.of(run, addresses, starts, cuts))
    if later:
        relations += _further_relations(view.runs[0], addresses, later, seconds)
    return Activity(relations, transfers, first_times)


@dataclass(frozen=True)
class _Pairs:
    """Transfers of some addresses as arrays with a value for each transfer, without transfers to oneself.

    ``owners`` is the index of the address in the list for which the transfers were read. ``counterparties`` has
    the address numbers of the counterparties. ``inward`` is True if the address received.
    """

    owners: Array
    counterparties: Array
    inward: Array

    @staticmethod
    def of(run: Run, addresses: Array, starts: Array, ends: Array) -> _Pairs:
        entries = expand_ranges(starts, ends)
        owners = np.repeat(np.arange(len(addresses)), ends - starts)
        counterparties = run.others[entries]
        apart = np.flatnonzero(counterparties != addresses[owners])
        return _Pairs(owners[apart], counterparties[apart], (run.kinds[entries[apart]] & 1).astype(np.bool_))


def _further_relations(base: Run, addresses: Array, pieces: Sequence[_Pairs], seconds: Array) -> Array:
    """Return for each address the number of its counterparties in the small runs that are not in the large run
    ``base``.

    A run is a file of the adjacency. ``pieces`` are the transfers of the small runs. The result has three columns: all
    counterparties, senders to the address, and receivers from it.
    """
    keys = np.concatenate([(piece.owners.astype(np.int64) << 32) | piece.counterparties for piece in pieces])
    inward = np.concatenate([piece.inward for piece in pieces])
    pairs, inverse = np.unique(keys, return_inverse=True)
    owners, counterparties = pairs >> 32, (pairs & 0xFFFFFFFF).astype(np.int32)
    is_received = np.bincount(inverse[inward], minlength=len(pairs)) > 0
    is_sent = np.bincount(inverse[~inward], minlength=len(pairs)) > 0
    knew_received, knew_sent = _known_pairs(base, addresses[owners], counterparties, seconds[owners])
    fresh = np.stack([~(knew_received | knew_sent), is_received & ~knew_received, is_sent & ~knew_sent], axis=1)
    further = np.zeros((len(addresses), 3), np.int64)
    np.add.at(further, owners, fresh)
    return further


def _known_pairs(run: Run, addresses: Array, counterparties: Array, seconds: Array) -> tuple[Array, Array]:
    """Return two masks for pairs of an address (``addresses``) and a counterparty (``counterparties``).

    The first is True if the address received from the counterparty, the second if it sent to the counterparty.
    Transfers after the pair's unix second in ``seconds`` are left out. For speed, the shorter list of the two
    addresses' transfers is searched.
    """
    (starts, ends), (other_starts, other_ends) = run.entries(addresses), run.entries(counterparties)
    turned = other_ends - other_starts < ends - starts
    starts, ends = np.where(turned, other_starts, starts), np.where(turned, other_ends, ends)
    sought = np.where(turned, addresses, counterparties)
    entries, owner = expand_ranges(starts, ends), np.repeat(np.arange(len(addresses)), ends - starts)
    met = np.flatnonzero((run.others[entries] == sought[owner]) & (run.times[entries] <= seconds[owner]))
    owner, inward = owner[met], (run.kinds[entries[met]] & 1).astype(np.bool_) != turned[owner[met]]
    size = len(addresses)
    return np.bincount(owner[inward], minlength=size) > 0, np.bincount(owner[~inward], minlength=size) > 0


def first_times(store: Store, view: View) -> Array:
    """Return the unix second of each address's first transfer, by address number.

    An address without transfers has the largest value of the array's type.
    """

    def compute() -> Array:
        runs, size = view.runs, view.dictionary.size
        dtype = np.result_type(*(run.times.dtype for run in runs)) if runs else np.dtype(np.uint32)
        times = np.full(size, np.iinfo(dtype).max, dtype)
        for run in runs:
            times[run.addresses] = np.minimum(times[run.addresses], run.begun)
        return times

    return store.cached("first times", view, compute)


def _busy_addresses(store: Store, view: View) -> Array:
    """Return the numbers of all addresses that are hypernodes at some instant. Other addresses may be included."""
    limit = store.rules.hypernode_transfers
    pieces: list[Array] = [np.empty(0, np.int64)]
    for run in view.runs:
        places = np.flatnonzero(run.entry_counts * len(view.runs) > limit)
        pieces.append(run.addresses[places].astype(np.int64))
    return np.unique(np.concatenate(pieces))


def _entries_upto(view: View, addresses: Array, seconds: Array) -> Array:
    """Return the number of transfers of each address until its unix second in ``seconds``."""
    counts = np.zeros(len(addresses), np.int64)
    for run in view.runs:
        starts, ends = run.entries(addresses)
        counts += run.upto(starts, ends, seconds) - starts
    return counts


def _entries_ever(view: View, addresses: Array) -> Array:
    """Return the number of transfers of each address."""
    counts = np.zeros(len(addresses), np.int64)
    for run in view.runs:
        starts, ends = run.entries(addresses)
        counts += ends - starts
    return counts


def _first_instants(holds: Callable[[Array, Array], Array], addresses: Array, seconds: Array) -> Array:
    """Return for each address the first index into the ascending ``seconds`` at which ``holds`` is true.

    If there is none, the index is the number of seconds. ``holds`` is a function that takes addresses and a second for
    each address, and returns a mask. If it is true for an address, it must also be true at all later seconds.
    """
    low, high = np.zeros(len(addresses), np.int64), np.full(len(addresses), len(seconds))
    while (undecided := np.flatnonzero(low < high)).size:
        middle = (low[undecided] + high[undecided]) // 2
        is_true = holds(addresses[undecided], seconds[middle])
        high[undecided[is_true]] = middle[is_true]
        low[undecided[~is_true]] = middle[~is_true] + 1
    return low


def wallets_until(store: Store, view: View, all_kinds: Array, addresses: Array, seconds: Array) -> Array:
    """Return for each address the first index into the ascending ``seconds`` at which maps do not show it.

    The index is 0 for exchanges and contracts. Another address is not shown from the second on at which it becomes a
    hypernode. If it never becomes one, the index is the number of seconds. ``all_kinds`` has the kinds of every
    address, by number.
    """
    limit = store.rules.hypernode_transfers
    kinds = all_kinds[addresses]
    until = np.where((kinds & (CEX | DEX | CONTRACT)) != 0, np.int32(0), np.int32(len(seconds)))
    busy = np.flatnonzero(((kinds & BUSY) != 0) & (until > 0))
    if len(busy):
        distinct, back = np.unique(addresses[busy], return_inverse=True)
        until[busy] = _first_instants(lambda batch, at: _entries_upto(view, batch, at) > limit, distinct, seconds)[back]
    return until


def supernodes_from(store: Store, view: View, addresses: Array, seconds: Array) -> Array:
    """Return for each address the first index into the ascending ``seconds`` at which it is a supernode.

    The index is the number of seconds if the address never is one.
    """
    least = store.rules.supernode_degree
    from_ = np.full(len(addresses), len(seconds))
    candidates = np.flatnonzero(_entries_ever(view, addresses) >= least)
    # the same few addresses are in the maps of many tokens at the same seconds
    cache: dict[int, int] = store.cached("supernodes", (view, least, seconds.tobytes()), dict)
    numbers = addresses[candidates].tolist()
    uncached = np.array([address for address in {*numbers} if address not in cache], addresses.dtype)
    first_indices = _first_instants(
        lambda batch, at: activity(view, batch, at).relations[:, 0] >= least, uncached, seconds
    )
    cache.update(zip(uncached.tolist(), first_indices.tolist(), strict=True))
    from_[candidates] = [cache[address] for address in numbers]
    return from_


def kinds_of_addresses(store: Store, view: View, chain: str | None, label_time: int | None) -> Array:
    """Return the kinds of every address on a chain as bits, by address number.

    The kinds follow from the labels of the chain and of ``label_time`` (see ``Store.label_time``), the current tokens,
    and all transfers.
    """
    generation = store.metadata_generation()

    def compute() -> Array:
        kinds = np.zeros(max(view.dictionary.size, 1), np.uint8)
        _mark(view, kinds, store.read(marked_always, chain))
        kinds[_busy_addresses(store, view)] |= BUSY
        return kinds

    def compute_in_period() -> Array:
        kinds: Array = always.copy()
        _mark(view, kinds, store.read(marked_in_period, chain, label_time))
        return kinds

    always: Array = store.cached(f"kinds on {chain}", (view, generation), compute)
    if not store.period_starts():
        return always
    return store.cached(f"kinds on {chain} in a period", (view, generation, label_time), compute_in_period)


def _mark(view: View, kinds: Array, marked: Mapping[str, AddressLabel]) -> None:
    numbers = view.dictionary.find(list(marked))
    is_known = numbers != UNKNOWN
    kinds[numbers[is_known]] |= np.array([_kind(label) for label in marked.values()], np.uint8)[is_known]


def _kind(label: AddressLabel) -> int:
    return CEX * label.is_cex + DEX * label.is_dex + CONTRACT * label.is_contract + LABELLED


def labels_of_kinds(
    store: Store, kinds: Array, addresses: Array, texts: Sequence[str], chain: str | None, label_time: int | None
) -> list[AddressLabel]:
    """Return the label of each address on a chain; ``UNLABELLED`` if it has none.

    ``label_time`` is the second whose labels count, see ``Store.label_time``. ``addresses`` are numbers, and ``texts``
    the same addresses as text. ``kinds`` (see ``kinds_of_addresses``) shows which addresses have a label.
    """
    labelled = [texts[place] for place in np.flatnonzero(kinds[addresses] & LABELLED).tolist()]
    labels = store.labels(labelled, chain, label_time) if labelled else {}
    return [labels.get(text, UNLABELLED) for text in texts]


def detail_columns(activities: Activity, labels: Sequence[AddressLabel], label_places: Array, rules: Rules) -> Columns:
    """Return the contract's address details as columns for ``tables.table_of``.

    ``activities`` has the activity of each row's address. ``label_places`` has for each row the index of its label in
    ``labels``.
    """
    places = pa.array(label_places)
    degrees = activities.relations[:, 0]
    of_labels: dict[str, Any] = {
        "is_contract": [label.is_contract for label in labels],
        "is_cex": [label.is_cex for label in labels],
        "is_dex": [label.is_dex for label in labels],
        "label": pa.array([label.name for label in labels], pa.string()),
        "entity_id": pa.array([label.entity_id for label in labels], pa.string()),
        "is_paid_label": [label.is_paid_label for label in labels],
    }
    return {
        "degree": pa.array(degrees),
        "inward_relations": pa.array(activities.relations[:, 1]),
        "outward_relations": pa.array(activities.relations[:, 2]),
        "is_supernode": pa.array(degrees >= rules.supernode_degree),
        "first_activity_date": instants_of(activities.first_times, activities.first_times != NEVER),
        **{
            name: (pa.array(column, pa.bool_()) if isinstance(column, list) else column).take(places)
            for name, column in of_labels.items()
        },
    }


def _activities(
    store: Store, addresses: Sequence[str], as_of: datetime, chain: str | None
) -> tuple[Activity, list[AddressLabel]]:
    view, texts = store.view(), list(addresses)
    numbers = view.dictionary.find(texts)
    numbers[numbers == UNKNOWN] = view.dictionary.size
    labels = store.labels(texts, chain, store.label_time(to_unix(as_of)))
    activities = activity(view, numbers, np.full(len(numbers), to_unix(as_of)))
    return activities, [labels.get(text, UNLABELLED) for text in texts]


def addresses_table(store: Store, addresses: Sequence[str], as_of: datetime, chain: str | None = None) -> pa.Table:
    """Return the lake's ``addresses`` rows of the addresses as of an instant, in their order."""
    activities, labels = _activities(store, addresses, as_of, chain)
    columns = {"address": list(addresses)} | detail_columns(activities, labels, np.arange(len(labels)), store.rules)
    return table_of(TABLES["addresses"], columns, {"chain": chain or "", "as_of": as_of})
