"""The adjacency: each address's transfers of all tokens and chains by time, as memory-mapped arrays.

A transfer of more than nothing is an entry of its sender and an entry of its receiver, or a single entry if these are
the same. The entries of an address come together by rising time, so those as of a second are the first ones. Bits of an
entry mark the first transfer with a counterparty, and every 64th entry has sums of these bits: the degree of an address
as of any second is a difference of two sums. A run holds the transfers of some imports; a store has one large run and a
few small ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from holderlake.engine.files.arrays import Arrays
from holderlake.engine.numeric import graph_kernels
from holderlake.engine.numeric.bigint import Array

STEP: Final = 64
"""Number of entries from one sum to the next."""

ANY: Final = 1
INWARD: Final = 2
OUTWARD: Final = 4
"""Bits of ``firsts``: the first transfer with the counterparty, the first from it, and the first to it."""

NEVER: Final = 2**62


@dataclass(frozen=True)
class Run:
    """The arrays of a run.

    ``addresses``: numbers of the addresses that have entries, rising; empty if the place is the number itself. Entries
    of place n are from ``starts[n]`` to ``starts[n + 1]``, the first at second ``begun[n]`` (the greatest value of the
    type if there is none). Of an entry: ``others`` the counterparty, ``kinds`` the number of the token times two, plus
    one for an incoming transfer, ``times`` unix seconds, ``firsts`` and ``sums`` as above.
    """

    addresses: Array
    starts: Array
    others: Array
    kinds: Array
    times: Array
    firsts: Array
    sums: Array
    begun: Array

    @staticmethod
    def of(arrays: Arrays) -> Run:
        """Make a run of the arrays of its file."""
        return Run(*(arrays[name] for name in _COLUMNS))

    def entries(self, addresses: Array) -> tuple[Array, Array]:
        """Return first and last place (excluded) of the entries of each address; equal places if it has none."""
        if len(self.addresses):
            places = np.searchsorted(self.addresses, addresses.astype(np.int32))
            places = np.minimum(places, len(self.addresses) - 1)
            known = self.addresses[places] == addresses
        else:
            known = addresses < len(self.starts) - 1
            places = np.where(known, addresses, 0)
        if len(self.starts) == 1:
            zeros = np.zeros(len(addresses), np.int64)
            return zeros, zeros
        starts = np.where(known, self.starts[places], 0)
        return starts, np.where(known, self.starts[places + 1], 0)

    def upto(self, starts: Array, ends: Array, seconds: Array) -> Array:
        """Return, for each range of entries, the first place after its own second."""
        return graph_kernels.entries_upto(self.times, starts, ends, seconds)

    def counterparties(self, starts: Array, ends: Array) -> Array:
        """Count distinct counterparties in the first entries of addresses: all, senders, receivers (columns)."""
        before, within = (graph_kernels.bits_before(self.firsts, self.sums, STEP, places) for places in (starts, ends))
        return within - before

    @cached_property
    def entry_counts(self) -> Array:
        """Number of entries of each place."""
        return np.diff(self.starts)


_COLUMNS: Final = ("addresses", "starts", "others", "kinds", "times", "firsts", "sums", "begun")
