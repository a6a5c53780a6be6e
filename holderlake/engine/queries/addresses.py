"""What the engine knows of addresses: relations and age from the transfers, kind and name from the labels.

An address is judged over all chains and tokens of the store, for it is the same wallet everywhere. Transfers of nothing
are left out: anyone can make one between any two addresses, so they say nothing of either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa

from holderlake.contract.tables import TABLES
from holderlake.contract.times import to_unix
from holderlake.engine.catalog.labels import UNLABELLED, AddressLabel
from holderlake.engine.files.adjacency import NEVER, Run
from holderlake.engine.files.arrays import expand_ranges
from holderlake.engine.files.dictionary import UNKNOWN
from holderlake.engine.files.manifest import View
from holderlake.engine.numeric import graph_kernels
from holderlake.engine.numeric.bigint import Array
from holderlake.engine.queries.tables import Columns, instants_of, table_of
from holderlake.engine.records import Rules
from holderlake.engine.store.store import Store

CEX: Final = 1
DEX: Final = 2
CONTRACT: Final = 4
BUSY: Final = 8
"""It has more transfers than a map allows, if not at every instant."""
LABELLED: Final = 16
"""A label, or a token of that address, tells something of it."""
MARKED: Final = CEX | DEX | CONTRACT | BUSY
"""Kinds by which maps leave addresses out, or treat them in a way of their own."""


@dataclass(frozen=True)
class AddressFacts:
    """An address as of an instant. ``transfers`` counts each transfer once; ``first_time`` is in unix seconds."""

    degree: int = 0
    inward_relations: int = 0
    outward_relations: int = 0
    transfers: int = 0
    first_time: int | None = None
    label: AddressLabel = UNLABELLED

    def is_supernode(self, rules: Rules) -> bool:
        """Has very many counterparties."""
        return self.degree >= rules.supernode_degree

    def is_shown(self, rules: Rules) -> bool:
        """Belongs on a map: no exchange, contract or hypernode (seed, section 2.6)."""
        label = self.label
        return not (label.is_cex or label.is_dex or label.is_contract or self.transfers > rules.hypernode_transfers)


@dataclass(frozen=True)
class Activity:
    """Addresses as of a second, as arrays: distinct counterparties (columns: all, inward, outward), transfers, and the
    second of the first one, ``NEVER`` where there is none."""

    relations: Array
    transfers: Array
    first_times: Array

    def at(self, places: Array) -> Activity:
        """Some of them."""
        return Activity(self.relations[places], self.transfers[places], self.first_times[places])

    def facts(self, place: int, label: AddressLabel) -> AddressFacts:
        """The facts of one of them."""
        first = int(self.first_times[place])
        degree, inward, outward = self.relations[place].tolist()
        return AddressFacts(
            degree, inward, outward, int(self.transfers[place]), None if first == NEVER else first, label
        )


def activity(view: View, addresses: Array, seconds: Array) -> Activity:
    """What the transfers say of the addresses, over all tokens and chains, each up to a second of its own."""
    relations = np.zeros((len(addresses), 3), np.int64)
    transfers = np.zeros(len(addresses), np.int64)
    first_times = np.full(len(addresses), NEVER)
    later: list[_Pairs] = []
    for number, run in enumerate(view.runs):
        starts, ends = run.entries(addresses)
        cuts = run.upto(starts, ends, seconds)
        transfers += cuts - starts
        some = np.flatnonzero(cuts > starts)
        first_times[some] = np.minimum(first_times[some], run.times[starts[some]])
        if number == 0:
            relations += run.counterparties(starts, cuts)
        elif len(some):
            later.append(_Pairs.of(run, addresses, starts, cuts))
    if later:
        relations += _further_relations(view.runs[0], addresses, later, seconds)
    return Activity(relations, transfers, first_times)


@dataclass(frozen=True)
class _Pairs:
    """Entries of addresses (by their places in a list) with others; ``inward`` where they received."""

    owners: Array
    others: Array
    inward: Array

    @staticmethod
    def of(run: Run, addresses: Array, starts: Array, ends: Array) -> _Pairs:
        entries = expand_ranges(starts, ends)
        owners = np.repeat(np.arange(len(addresses)), ends - starts)
        others = run.others[entries]
        apart = np.flatnonzero(others != addresses[owners])
        return _Pairs(owners[apart], others[apart], (run.kinds[entries[apart]] & 1).astype(np.bool_))


def _further_relations(base: Run, addresses: Array, pieces: Sequence[_Pairs], seconds: Array) -> Array:
    """Counterparties that the small runs know and the large one does not: all, inward, outward."""
    keys = np.concatenate([(piece.owners.astype(np.int64) << 32) | piece.others for piece in pieces])
    inward = np.concatenate([piece.inward for piece in pieces])
    pairs, which = np.unique(keys, return_inverse=True)
    owners, others = pairs >> 32, (pairs & 0xFFFFFFFF).astype(np.int32)
    received = np.bincount(which[inward], minlength=len(pairs)) > 0
    sent = np.bincount(which[~inward], minlength=len(pairs)) > 0
    knew_received, knew_sent = _known_pairs(base, addresses[owners], others, seconds[owners])
    fresh = np.stack([~(knew_received | knew_sent), received & ~knew_received, sent & ~knew_sent], axis=1)
    further = np.zeros((len(addresses), 3), np.int64)
    np.add.at(further, owners, fresh)
    return further


def _known_pairs(run: Run, ones: Array, others: Array, seconds: Array) -> tuple[Array, Array]:
    """Whether each one received from the other up to its second, and whether it sent to it.

    The entries of whichever of the two has fewer are looked through.
    """
    (starts, ends), (other_starts, other_ends) = run.entries(ones), run.entries(others)
    turned = other_ends - other_starts < ends - starts
    starts, ends = np.where(turned, other_starts, starts), np.where(turned, other_ends, ends)
    sought = np.where(turned, ones, others)
    entries, owner = expand_ranges(starts, ends), np.repeat(np.arange(len(ones)), ends - starts)
    met = np.flatnonzero((run.others[entries] == sought[owner]) & (run.times[entries] <= seconds[owner]))
    owner, inward = owner[met], (run.kinds[entries[met]] & 1).astype(np.bool_) != turned[owner[met]]
    size = len(ones)
    return np.bincount(owner[inward], minlength=size) > 0, np.bincount(owner[~inward], minlength=size) > 0


def first_times(store: Store, view: View) -> Array:
    """The second of the first transfer ever of every address by its number; the last there is where there is none."""

    def find() -> Array:
        runs, size = view.runs, view.dictionary.size
        dtype = np.result_type(*(run.times.dtype for run in runs)) if runs else np.dtype(np.uint32)
        found = np.full(size, np.iinfo(dtype).max, dtype)
        for run in runs:
            if len(run.addresses):
                found[run.addresses] = np.minimum(found[run.addresses], run.begun)
            else:
                own = found[: len(run.begun)]
                np.minimum(own, np.where(run.begun == np.iinfo(run.begun.dtype).max, own, run.begun), out=own)
        return found

    return store.cached("first times", view, find)


def _busy_addresses(store: Store, view: View) -> Array:
    """Addresses that ever have more transfers than the rules allow on a map; of few it must be asked when."""
    most = store.rules.hypernode_transfers
    found: list[Array] = [np.empty(0, np.int64)]
    for run in view.runs:
        places = np.flatnonzero(run.entry_counts * len(view.runs) > most)
        found.append(run.addresses[places].astype(np.int64) if len(run.addresses) else places)
    return np.unique(np.concatenate(found))


def _entries_upto(view: View, addresses: Array, seconds: Array) -> Array:
    """How many transfers each of the addresses has up to its second."""
    counted = np.zeros(len(addresses), np.int64)
    for run in view.runs:
        starts, ends = run.entries(addresses)
        counted += run.upto(starts, ends, seconds) - starts
    return counted


def _entries_ever(view: View, addresses: Array) -> Array:
    """How many transfers each of the addresses has."""
    counted = np.zeros(len(addresses), np.int64)
    for run in view.runs:
        starts, ends = run.entries(addresses)
        counted += ends - starts
    return counted


def _first_instants(holds: Callable[[Array, Array], Array], addresses: Array, seconds: Array) -> Array:
    """The place among the rising seconds from which something holds of each address, their number where it never does.

    ``holds`` tells it for addresses, each at a second of its own; once it holds, it does for ever.
    """
    low, high = np.zeros(len(addresses), np.int64), np.full(len(addresses), len(seconds))
    while (undecided := np.flatnonzero(low < high)).size:
        middle = (low[undecided] + high[undecided]) // 2
        held = holds(addresses[undecided], seconds[middle])
        high[undecided[held]] = middle[held]
        low[undecided[~held]] = middle[~held] + 1
    return low


def wallets_until(store: Store, view: View, all_kinds: Array, addresses: Array, seconds: Array) -> Array:
    """The place among the rising seconds from which each address belongs on no map: it is an exchange or a contract
    (from the first on), or becomes a hypernode."""
    most = store.rules.hypernode_transfers
    kinds = all_kinds[addresses]
    until = np.where((kinds & (CEX | DEX | CONTRACT)) != 0, np.int32(0), np.int32(len(seconds)))
    busy = np.flatnonzero(((kinds & BUSY) != 0) & (until > 0))
    if len(busy):
        which, back = np.unique(addresses[busy], return_inverse=True)
        until[busy] = _first_instants(lambda some, at: _entries_upto(view, some, at) > most, which, seconds)[back]
    return until


def supernodes_from(store: Store, view: View, addresses: Array, seconds: Array) -> Array:
    """The place among the rising seconds from which each address is a supernode, their number where it never is."""
    least = store.rules.supernode_degree
    from_ = np.full(len(addresses), len(seconds))
    able = np.flatnonzero(_entries_ever(view, addresses) >= least)
    # token after token meets the same few, at the same seconds
    known: dict[int, int] = store.cached("supernodes", (view, least, seconds.tobytes()), dict)
    asked = addresses[able].tolist()
    fresh = np.array([address for address in {*asked} if address not in known], addresses.dtype)
    found = _first_instants(lambda some, at: activity(view, some, at).relations[:, 0] >= least, fresh, seconds)
    known.update(zip(fresh.tolist(), found.tolist(), strict=True))
    from_[able] = [known[address] for address in asked]
    return from_


def kinds_of_addresses(store: Store, view: View) -> Array:
    """Of every address by its number: its kinds, as labels and tokens say now, ``LABELLED`` and ``BUSY``."""

    def find() -> Array:
        kinds = np.zeros(max(view.dictionary.size, 1), np.uint8)
        marked = store.marked_addresses()
        numbers = view.dictionary.find(list(marked))
        known = numbers != UNKNOWN
        kinds[numbers[known]] = np.array([_kind(label) for label in marked.values()], np.uint8)[known]
        kinds[_busy_addresses(store, view)] |= BUSY
        return kinds

    return store.cached("kinds", (view, store.metadata_generation()), find)


def sieve_of_kinds(store: Store, view: View) -> Array:
    """What rules out most addresses that have none of the kinds ``MARKED``, see ``kernels.sieve_of``."""

    def find() -> Array:
        return graph_kernels.bloom_filter(np.flatnonzero(kinds_of_addresses(store, view) & MARKED))

    return store.cached("sieve of kinds", (view, store.metadata_generation()), find)


def _kind(label: AddressLabel) -> int:
    return CEX * label.is_cex + DEX * label.is_dex + CONTRACT * label.is_contract + LABELLED


def labels_of_kinds(
    store: Store, kinds: Array, addresses: Array, texts: Sequence[str], chain: str | None
) -> list[AddressLabel]:
    """The label of each address, given by number and text; the kinds tell which have any. Labels of ``chain`` name an
    address first."""
    labelled = [texts[place] for place in np.flatnonzero(kinds[addresses] & LABELLED).tolist()]
    labels = store.labels(labelled, chain) if labelled else {}
    return [labels.get(text, UNLABELLED) for text in texts]


def detail_columns(known: Activity, labels: Sequence[AddressLabel], which: Array, rules: Rules) -> Columns:
    """The contract's address details, as columns of ``tables.table_of``; ``which`` of the labels is each one's."""
    places = pa.array(which)
    degrees = known.relations[:, 0]
    told: dict[str, Any] = {
        "is_contract": [label.is_contract for label in labels],
        "is_cex": [label.is_cex for label in labels],
        "is_dex": [label.is_dex for label in labels],
        "label": pa.array([label.name for label in labels], pa.string()),
        "entity_id": pa.array([label.entity_id for label in labels], pa.string()),
        "is_paid_label": [label.is_paid_label for label in labels],
    }
    return {
        "degree": pa.array(degrees),
        "inward_relations": pa.array(known.relations[:, 1]),
        "outward_relations": pa.array(known.relations[:, 2]),
        "is_supernode": pa.array(degrees >= rules.supernode_degree),
        "first_activity_date": instants_of(known.first_times, known.first_times != NEVER),
        **{
            name: (pa.array(column, pa.bool_()) if isinstance(column, list) else column).take(places)
            for name, column in told.items()
        },
    }


def address_facts(
    store: Store, addresses: Sequence[str], as_of: datetime, chain: str | None = None
) -> dict[str, AddressFacts]:
    """Facts of each address, those without any transfer included. Labels of ``chain`` name an address first."""
    known, labels = _known(store, addresses, as_of, chain)
    return {text: known.facts(place, labels[place]) for place, text in enumerate(addresses)}


def _known(
    store: Store, addresses: Sequence[str], as_of: datetime, chain: str | None
) -> tuple[Activity, list[AddressLabel]]:
    view, texts = store.view(), list(addresses)
    numbers = view.dictionary.find(texts)
    numbers[numbers == UNKNOWN] = view.dictionary.size
    labels = store.labels(texts, chain)
    known = activity(view, numbers, np.full(len(numbers), to_unix(as_of)))
    return known, [labels.get(text, UNLABELLED) for text in texts]


def addresses_table(store: Store, addresses: Sequence[str], as_of: datetime, chain: str | None = None) -> pa.Table:
    """The lake's ``addresses`` rows of the addresses, in the order asked for."""
    known, labels = _known(store, addresses, as_of, chain)
    columns = {"address": list(addresses)} | detail_columns(known, labels, np.arange(len(labels)), store.rules)
    return table_of(TABLES["addresses"], columns, {"chain": chain or "", "as_of": as_of})
