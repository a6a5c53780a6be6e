"""The adjacency: for each address its transfers of all tokens and chains, by time, as memory-mapped arrays.

A transfer with a value above 0 makes two entries: one with the sender as owner, and one with the receiver as owner. A
transfer to oneself makes one entry. The entries of an owner are adjacent and sorted by time.

Each entry has bits that are set if it is the owner's first transfer with the counterparty. For every 64th entry, the
number of bits set in all earlier entries is stored. The degree of an address (its number of distinct counterparties) as
of any second is therefore a difference of two such numbers.

A run is a file with the entries of some imports. A store has one large run and a few small ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from holderlake.engine.files.arrays import Arrays
from holderlake.engine.numeric.bigint import Array

STEP: Final = 64
"""``Run.sums`` has a row for every ``STEP``-th entry."""

ANY: Final = 1
INWARD: Final = 2
OUTWARD: Final = 4
"""Bits of ``Run.firsts``. A bit marks the owner's first transfer with a counterparty (``ANY``), the first transfer from
it (``INWARD``), or the first transfer to it (``OUTWARD``)."""

NEVER: Final = 2**62
"""A unix second after all transfers, for events that do not happen."""


@dataclass(frozen=True)
class Run:
    """The arrays of a run: a file with the entries of some imports.

    ``addresses`` has the numbers of the addresses that have entries, ascending. The entries of ``addresses[n]`` are
    those from ``starts[n]`` to ``starts[n + 1]`` (excluded). Its first entry is at unix second ``begun[n]``.

    Four arrays have one value for each entry:

    - ``others``: the counterparty's address number.
    - ``kinds``: the token number times 2, plus 1 if the owner received.
    - ``times``: unix seconds.
    - ``firsts``: bits of the first transfer with the counterparty (``ANY``), from it (``INWARD``), to it (``OUTWARD``).

    ``sums`` has a row for every ``STEP``-th entry and a column for each of the three bits. The value is the number of
    earlier entries in which the bit is set.
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
        """Make a run from ``arrays``, the arrays of its file by name."""
        run = Run(*(arrays[name] for name in _COLUMNS))
        if len(run.addresses):
            return run
        # up to version 0.3.0, a large run has values for every address number
        places = np.flatnonzero(np.diff(run.starts))
        starts = np.append(run.starts[places], run.starts[-1])
        return replace(run, addresses=places.astype(np.int32), starts=starts, begun=run.begun[places])

    def entries(self, addresses: Array) -> tuple[Array, Array]:
        """Return two arrays: the index of each address's first entry, and the index after its last entry.

        The two are equal for an address without entries.
        """
        places = np.minimum(np.searchsorted(self.addresses, addresses.astype(np.int32)), len(self.addresses) - 1)
        is_known = self.addresses[places] == addresses
        return np.where(is_known, self.starts[places], 0), np.where(is_known, self.starts[places + 1], 0)

    def entries_before(self, address: int) -> int:
        """Return the number of entries of all addresses whose number is less than ``address``."""
        return int(self.starts[np.searchsorted(self.addresses, address)])

    def upto(self, starts: Array, ends: Array, seconds: Array) -> Array:
        """Return, for each range of entries, the index of the first entry that is later than the range's unix second.

        ``starts``, ``ends`` (excluded) and ``seconds`` have one value for each range. If no entry of a range is later,
        the index is the range's end.
        """
        from holderlake.engine.numeric import graph_kernels  # numba, which listing a store does not need

        return graph_kernels.entries_upto(self.times, starts, ends, seconds)

    def counterparties(self, starts: Array, ends: Array) -> Array:
        """Return a row for each range of entries: the numbers of distinct counterparties, of senders and of receivers.

        A range must begin with the first entry of an address.
        """
        from holderlake.engine.numeric import graph_kernels

        start_counts, end_counts = (
            graph_kernels.bits_before(self.firsts, self.sums, STEP, places) for places in (starts, ends)
        )
        return end_counts - start_counts

    @cached_property
    def entry_counts(self) -> Array:
        """The number of entries of each address in ``addresses``, as an array."""
        return np.diff(self.starts)


_COLUMNS: Final = ("addresses", "starts", "others", "kinds", "times", "firsts", "sums", "begun")
