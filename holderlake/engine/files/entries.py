"""Read the transfers of given addresses from the adjacency. These transfers are the edges of the graphs of maps.

``maps.links`` adds the values of the transfers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from holderlake.engine.files.arrays import are_among, expand_ranges
from holderlake.engine.files.dictionary import Dictionary
from holderlake.engine.files.listing import View
from holderlake.engine.numeric.bigint import Array

TokenKeys = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class AddressEntries:
    """Transfers of some addresses, without transfers to oneself. A transfer between two of the addresses has two
    entries.

    ``addresses`` are the address numbers. The other arrays have one value for each entry: ``owners`` (index into
    ``addresses``), ``others`` (address number of the counterparty), ``tokens`` (token number), ``inward`` (True if the
    owner received) and ``times`` (unix seconds). Entries are sorted by owner, then time.
    """

    addresses: Array
    owners: Array
    others: Array
    tokens: Array
    inward: Array
    times: Array

    def at(self, places: Array) -> AddressEntries:
        """Return the entries at the indices ``places``."""
        columns = (getattr(self, field.name)[places] for field in fields(self)[1:])
        return AddressEntries(self.addresses, *columns)

    def ends(self) -> tuple[Array, Array]:
        """Return two arrays: the address number of each entry's sender, and of its receiver."""
        owners = self.addresses[self.owners]
        return np.where(self.inward, self.others, owners), np.where(self.inward, owners, self.others)

    def starts(self, places: Array) -> Array:
        """Return where the entries of each address begin in ``places``, which are ascending indices of entries.

        The result has a position in ``places`` for each address, and ``len(places)`` as last value.
        """
        return np.searchsorted(self.owners[places], np.arange(len(self.addresses) + 1, dtype=np.int32))


def token_mask(view: View, tokens: TokenKeys) -> Array:
    """Return a mask by token number that is True for the given tokens (chain, address)."""
    counts = np.zeros(max(view.listing.numbers.values(), default=0) + 1, np.bool_)
    counts[[view.listing.numbers[key] for key in tokens if key in view.listing.numbers]] = True
    return counts


def entries_of(
    view: View, addresses: Array, counts: Array, second: int, counterparties: Array | None = None
) -> AddressEntries:
    """Return the entries of addresses up to and including the unix second ``second``.

    ``addresses`` are address numbers. ``counts`` is a mask by token number (``token_mask``) of the tokens to include.
    If ``counterparties`` (address numbers) is given, only transfers with these counterparties are returned.
    """
    addresses = addresses.astype(np.int32)
    pieces = []
    for run in view.runs:
        starts, ends = run.entries(addresses)
        cuts = run.upto(starts, ends, np.full(len(addresses), second))
        places = expand_ranges(starts, cuts)
        owners = np.repeat(np.arange(len(addresses), dtype=np.int32), cuts - starts)
        others, kinds = run.others[places], run.kinds[places]
        is_kept = counts[kinds >> 1] & (others != addresses[owners])
        if counterparties is not None:
            is_kept &= are_among(others, counterparties)
        kept = np.flatnonzero(is_kept)
        columns = (owners[kept], others[kept], kinds[kept] >> 1, (kinds[kept] & 1).astype(np.bool_))
        pieces.append(AddressEntries(addresses, *columns, run.times[places[kept]].astype(np.int64)))
    pieces = [piece for piece in pieces if len(piece.owners)] or pieces[:1]
    if len(pieces) == 1:
        return pieces[0]
    none = np.empty(0, np.int32)
    empty = AddressEntries(addresses, none, none, none, none.astype(np.bool_), none.astype(np.int64))
    entries = joined_entries([empty, *pieces], addresses)
    return entries.at(np.lexsort((entries.times, entries.owners)))


def joined_entries(pieces: Sequence[AddressEntries], addresses: Array) -> AddressEntries:
    """Join several ``AddressEntries`` into one. The ``owners`` of all ``pieces`` must be indices into the same
    ``addresses``."""
    columns = (np.concatenate([getattr(piece, field.name) for piece in pieces]) for field in fields(AddressEntries)[1:])
    return AddressEntries(addresses, *columns)


def concatenate_entries(entries: AddressEntries, further: AddressEntries) -> AddressEntries:
    """Join the entries of two lists of addresses. The result's addresses are those of ``entries``, then those of
    ``further``."""
    addresses = np.concatenate([entries.addresses, further.addresses])
    owners = further.owners + np.int32(len(entries.addresses))
    shifted = AddressEntries(addresses, owners, further.others, further.tokens, further.inward, further.times)
    return joined_entries([entries, shifted], addresses)


@dataclass(frozen=True)
class Shared:
    """Entries with a key (for example the counterparty) that several owners have in common.

    Three arrays have one value for each of these entries: ``places`` (its index in the searched entries),
    ``key_places`` (the index of its key in ``keys``) and ``firsts`` (True for the owner's first entry with the key).
    """

    places: Array
    key_places: Array
    firsts: Array
    keys: Array


def shared_keys(
    entries: AddressEntries, places: Array, keys: Array, least: int, in_order: Callable[[Array], Array]
) -> Shared:
    """Return the entries whose key belongs to at least ``least`` different owners.

    ``places`` are the indices of the entries to examine. ``keys`` has an integer key for each of the ``places``.
    ``in_order`` is a function that takes distinct keys and returns the indices that sort them; the result's ``keys``
    are in this order.
    """
    from holderlake.engine.numeric import graph_kernels  # numba, which opening a store does not need

    numbers, firsts, distinct, owner_counts = graph_kernels.number_keys(keys, entries.owners[places])
    shared = np.flatnonzero(owner_counts >= least)
    shared = shared[in_order(distinct[shared])]
    place_of = np.full(len(distinct), -1, np.int32)
    place_of[shared] = np.arange(len(shared), dtype=np.int32)
    key_places = place_of[numbers]
    kept_places = np.flatnonzero(key_places >= 0)
    return Shared(places[kept_places], key_places[kept_places], firsts[kept_places], distinct[shared])


class AddressOrder:
    """The alphabetical order of some addresses. ``numbers`` has the address numbers in that order."""

    def __init__(self, dictionary: Dictionary, addresses: Array) -> None:
        self._sorted = np.unique(addresses)
        self._places = dictionary.ranks(self._sorted)
        self.numbers = np.empty_like(self._sorted)
        self.numbers[self._places] = self._sorted

    def places(self, addresses: Array) -> Array:
        """Return the position of each address in ``numbers``; -1 if it is not there."""
        if not len(self._sorted):
            return np.full(len(addresses), -1)
        slots = np.minimum(np.searchsorted(self._sorted, addresses), len(self._sorted) - 1)
        return np.where(self._sorted[slots] == addresses, self._places[slots], -1)
