"""Transfers as the addresses have them that take part: what graphs are made of. Their values are found by ``links``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from engine import kernels
from engine.dictionary import Dictionary
from engine.manifest import View
from engine.words import Array

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


def counting(view: View, tokens: TokenKeys) -> Array:
    """For every token's number, whether it is one of the tokens."""
    counts = np.zeros(max(view.manifest.numbers.values(), default=0) + 1, np.bool_)
    counts[[view.manifest.numbers[key] for key in tokens if key in view.manifest.numbers]] = True
    return counts


def entries_of(view: View, addresses: Array, counts: Array, second: int, others: Array | None = None) -> Entries:
    """All that the addresses sent and received up to the second, of the tokens that count; with the ``others`` or with
    anyone."""
    addresses = addresses.astype(np.int32)
    slots = np.empty(0, np.int32) if others is None else kernels.slots_of(others)
    pieces = []
    for run in view.runs:
        starts, ends = run.entries(addresses)
        cuts = run.upto(starts, ends, np.full(len(addresses), second))
        columns = kernels.kept_entries(run.others, run.kinds, run.times, addresses, starts, cuts, counts, slots)
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


class Names:
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
