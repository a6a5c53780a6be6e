"""Transfers as the addresses have them that take part: what graphs are made of. Their values are found by ``links``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from holderlake.engine.files.dictionary import Dictionary
from holderlake.engine.files.manifest import View
from holderlake.engine.numeric import graph_kernels
from holderlake.engine.numeric.bigint import Array

TokenKeys = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Entries:
    """Transfers that some addresses have part in, not to oneself: ``owners`` are places in the list of addresses, each
    one's by time; ``inward`` where the owner received. One between two of the addresses stands twice."""

    addresses: Array
    owners: Array
    others: Array
    tokens: Array
    inward: Array
    times: Array

    def at(self, places: Array) -> Entries:
        """Some of them."""
        columns = (getattr(self, field.name)[places] for field in fields(self)[1:])
        return Entries(self.addresses, *columns)

    def ends(self) -> tuple[Array, Array]:
        """Senders and receivers."""
        own = self.addresses[self.owners]
        return np.where(self.inward, self.others, own), np.where(self.inward, own, self.others)

    def starts(self, places: Array) -> Array:
        """Where each address's begin among those at the rising places, and where the last one's end."""
        return np.searchsorted(self.owners[places], np.arange(len(self.addresses) + 1, dtype=np.int32))


def token_mask(view: View, tokens: TokenKeys) -> Array:
    """For every token's number, whether it is one of the tokens."""
    counts = np.zeros(max(view.manifest.numbers.values(), default=0) + 1, np.bool_)
    counts[[view.manifest.numbers[key] for key in tokens if key in view.manifest.numbers]] = True
    return counts


def entries_of(view: View, addresses: Array, counts: Array, second: int, others: Array | None = None) -> Entries:
    """All that the addresses sent and received up to the second, of the tokens that count; with the ``others`` or with
    anyone."""
    addresses = addresses.astype(np.int32)
    slots = np.empty(0, np.int32) if others is None else graph_kernels.hash_slots(others)
    pieces = []
    for run in view.runs:
        starts, ends = run.entries(addresses)
        cuts = run.upto(starts, ends, np.full(len(addresses), second))
        columns = graph_kernels.filter_entries(run.others, run.kinds, run.times, addresses, starts, cuts, counts, slots)
        pieces.append(Entries(addresses, *columns))
    pieces = [piece for piece in pieces if len(piece.owners)] or pieces[:1]
    if len(pieces) == 1:
        return pieces[0]
    nobody = np.empty(0, np.int32)
    empty = Entries(addresses, nobody, nobody, nobody, nobody.astype(np.bool_), nobody.astype(np.int64))
    whole = joined_entries([empty, *pieces], addresses)
    return whole.at(np.lexsort((whole.times, whole.owners)))


def joined_entries(pieces: Sequence[Entries], addresses: Array) -> Entries:
    """All entries of the pieces, whose owners are places in the same addresses."""
    columns = (np.concatenate([getattr(piece, field.name) for piece in pieces]) for field in fields(Entries)[1:])
    return Entries(addresses, *columns)


def concatenate_entries(first: Entries, second: Entries) -> Entries:
    """Entries of two lists of addresses as those of one list: the first addresses, then the second ones."""
    addresses = np.concatenate([first.addresses, second.addresses])
    owners = second.owners + np.int32(len(first.addresses))
    moved = Entries(addresses, owners, second.others, second.tokens, second.inward, second.times)
    return joined_entries([first, moved], addresses)


@dataclass(frozen=True)
class Shared:
    """Entries by a key that at least some number of owners have in common: places of the entries, the key of each (a
    place in ``keys``), and whether it is its owner's first with that key."""

    places: Array
    things: Array
    firsts: Array
    keys: Array


def shared_keys(entries: Entries, places: Array, keys: Array, least: int, in_order: Callable[[Array], Array]) -> Shared:
    """The keys of the entries at the places that at least ``least`` owners have; ``in_order`` returns the order in
    which equally strong ones come."""
    numbers, firsts, distinct, crowd = graph_kernels.number_keys(keys, entries.owners[places])
    able = np.flatnonzero(crowd >= least)
    able = able[in_order(distinct[able])]
    place_of = np.full(len(distinct), -1, np.int32)
    place_of[able] = np.arange(len(able), dtype=np.int32)
    things = place_of[numbers]
    kept = np.flatnonzero(things >= 0)
    return Shared(places[kept], things[kept], firsts[kept], distinct[able])


class AddressOrder:
    """Addresses in the order of their texts; their places here say which of them comes first."""

    def __init__(self, dictionary: Dictionary, addresses: Array) -> None:
        self._sorted = np.unique(addresses)
        self._places = dictionary.ranks(self._sorted)
        self.numbers = np.empty_like(self._sorted)
        self.numbers[self._places] = self._sorted

    def places(self, addresses: Array) -> Array:
        """The places of the addresses, -1 for those that are not among these."""
        if not len(self._sorted):
            return np.full(len(addresses), -1)
        found = np.minimum(np.searchsorted(self._sorted, addresses), len(self._sorted) - 1)
        return np.where(self._sorted[found] == addresses, self._places[found], -1)
