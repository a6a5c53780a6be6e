"""Addresses with a balance below zero, and the second since which the balance has been below zero.

A negative balance means that transfers are missing in the store, or that their source rounds amounts. An address with a
negative balance is never a holder.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from json.encoder import encode_basestring_ascii
from typing import Final

import numpy as np
import pyarrow as pa

from holderlake.core.contract.times import from_unix, to_unix
from holderlake.engine.files.arrays import count_until
from holderlake.engine.files.listing import View
from holderlake.engine.files.parts import Moves, changes_of, joined_moves
from holderlake.engine.numeric.bigint import Array, digits_to_ints, to_digits, to_ints
from holderlake.engine.queries.balance_rows import BalanceSpans, largest, negative_at
from holderlake.engine.store.store import Store

NEGATIVE_BALANCES: Final = pa.schema(
    [
        pa.field("chain", pa.string(), nullable=False),
        pa.field("token_address", pa.string(), nullable=False),
        pa.field("address", pa.string(), nullable=False),
        pa.field("balance", pa.string(), nullable=False),
        pa.field("since", pa.timestamp("us"), nullable=False),
    ]
)
"""Columns of a table with a row for each address below zero.

``balance`` is a raw integer as text. The balance has been below zero since the end of the second ``since`` (UTC).
"""

PASSING_BALANCES: Final = pa.schema(
    [
        pa.field("chain", pa.string(), nullable=False),
        pa.field("token_address", pa.string(), nullable=False),
        pa.field("address", pa.string(), nullable=False),
        pa.field("lowest", pa.string(), nullable=False),
        pa.field("since", pa.timestamp("us"), nullable=False),
        pa.field("until", pa.timestamp("us"), nullable=False),
    ]
)
"""Columns of a table with a row for each time in which an address was below zero, and that is over.

``lowest`` is the lowest raw balance of that time as text. The balance has been below zero from the end of the second
``since`` to the end of the second ``until`` (UTC).
"""

_LISTED: Final = 100
"""The most addresses that the summary of one map lists."""


@dataclass(frozen=True)
class Negative:
    """An address with a balance below zero.

    It has the raw balance, and the unix second since which the balance has been below zero.
    """

    address: str
    balance: int
    since: int


def negative_balances(store: Store, chain: str, token_address: str, as_of: datetime) -> pa.Table:
    """Return a token's addresses below zero at the end of the second ``as_of``, the lowest balance first.

    The schema is ``NEGATIVE_BALANCES``.
    """
    view, seconds = store.view(), np.array([to_unix(as_of)])
    (negatives,) = negative_addresses(
        view, (chain, token_address), negative_at(view, (chain, token_address), seconds), seconds
    )
    rows = [
        (chain, token_address, negative.address, str(negative.balance), from_unix(negative.since))
        for negative in negatives
    ]
    return pa.Table.from_pylist(
        [dict(zip(NEGATIVE_BALANCES.names, row, strict=True)) for row in rows], NEGATIVE_BALANCES
    )


def negative_counts(store: Store, as_of: datetime) -> dict[tuple[str, str], int]:
    """Return the number of addresses below zero at the end of the second, by token. Tokens without any are left out."""
    view, seconds = store.view(), np.array([to_unix(as_of)])
    keys = [(history.chain, history.token_address) for history in store.histories()]
    counts = {key: len(negative_at(view, key, seconds).addresses) for key in keys}
    return {key: count for key, count in counts.items() if count}


def summaries_of(view: View, negative: BalanceSpans, instants: int) -> list[str | None]:
    """Return a JSON text for each instant, for the column ``negative_balances`` of ``maps``; None if no balance is
    negative.

    ``negative`` are the balances below zero, the lowest first. The JSON has the number of addresses, and address and
    raw balance of the lowest ones. It has no times, because finding them would take too long for a map.
    """
    if not len(negative.addresses):
        return [None] * instants
    begun, ended = (np.bincount(ends, minlength=instants + 1) for ends in (negative.firsts, negative.lasts))
    counts = np.cumsum(begun - ended)
    instant_of, places = largest(negative, instants, _LISTED)
    listed, inverse = np.unique(places, return_inverse=True)
    rows = negative.at(listed)
    texts, balances = view.dictionary.texts(rows.addresses), to_ints(rows.balances)
    order = sorted(range(len(listed)), key=lambda place: (balances[place], texts[place]))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    quoted = map(encode_basestring_ascii, texts)
    entries = [f'{{"address": {text}, "balance": "{balance}"}}' for text, balance in zip(quoted, balances, strict=True)]
    sorted_entries = [entries[place] for place in order]
    ranks = rank[inverse][np.lexsort((rank[inverse], instant_of))].tolist()
    ends = np.searchsorted(instant_of, np.arange(instants + 1)).tolist()
    return [
        f'{{"count": {count}, "lowest": [{", ".join(sorted_entries[place] for place in ranks[begin:end])}]}}'
        if count
        else None
        for count, begin, end in zip(counts.tolist(), ends, ends[1:], strict=False)
    ]


def negative_addresses(
    view: View, key: tuple[str, str], negative: BalanceSpans, seconds: Array
) -> list[list[Negative]]:
    """Return a list for each of the ascending unix ``seconds``: the addresses whose balance is below zero at its end.

    ``negative`` has the balances below zero at these seconds. The lowest balance is first in each list.
    """
    if not len(negative.addresses):
        return [[] for _ in seconds]
    numbers = np.unique(negative.addresses)
    texts = dict(zip(numbers.tolist(), view.dictionary.texts(numbers), strict=True))
    falls = _falls(view, key, numbers, int(seconds[-1]))
    negatives: list[list[Negative]] = [[] for _ in seconds]
    ends = zip(negative.firsts.tolist(), negative.lasts.tolist(), strict=True)
    for number, balance, (begin, end) in zip(
        negative.addresses.tolist(), to_ints(negative.balances), ends, strict=True
    ):
        for instant in range(begin, end):
            since = falls[number][bisect_right(falls[number], int(seconds[instant])) - 1]
            negatives[instant].append(Negative(texts[number], balance, since))
    return [sorted(entries, key=lambda entry: (entry.balance, entry.address)) for entries in negatives]


def _falls(view: View, key: tuple[str, str], numbers: Array, second: int) -> dict[int, list[int]]:
    """Return for each address number the unix seconds, until ``second``, at whose end its balance fell below zero."""
    return {
        number: list(_crossings([(time, change) for _, time, change in group]))
        for number, group in groupby(_changes(view, key, numbers, second), key=lambda change: change[0])
    }


def _changes(view: View, key: tuple[str, str], numbers: Array, second: int) -> list[tuple[int, int, int]]:
    """Return the changes of the addresses' balances as sorted tuples (address number, unix second, exact change)."""
    changes: list[tuple[int, int, int]] = []
    for part in view.parts(key):
        moves = part.moves.at(slice(count_until(part.moves.times, second)))
        concerned = np.isin(moves.senders, numbers) | np.isin(moves.receivers, numbers)
        moves = moves.at(np.flatnonzero(concerned & moves.are_changes))
        addresses, spread = changes_of(moves)
        places = np.flatnonzero(np.isin(addresses, numbers))
        times = np.concatenate([moves.times, moves.times])[places]
        changes += zip(addresses[places].tolist(), times.tolist(), digits_to_ints(spread[places]), strict=True)
    return sorted(changes)


def passing_balances(store: Store, chain: str, token_address: str, as_of: datetime) -> pa.Table:
    """Return the times in which a token's addresses were below zero and that were over at the end of ``as_of``.

    Maps of these times are wrong, although the last balances are not below zero. Rows are in the schema
    ``PASSING_BALANCES``, by address and time.
    """
    view, key = store.view(), (chain, token_address)
    rows = []
    numbers = _ever_below(view, key, to_unix(as_of))
    texts = dict(zip(numbers.tolist(), view.dictionary.texts(numbers), strict=True)) if len(numbers) else {}
    changes = (
        groupby(_changes(view, key, numbers, to_unix(as_of)), key=lambda change: change[0]) if len(numbers) else ()
    )
    for number, group in changes:
        rows += [
            (chain, token_address, texts[number], str(lowest), from_unix(since), from_unix(until))
            for lowest, since, until in _times_below([(time, change) for _, time, change in group])
        ]
    listed = [dict(zip(PASSING_BALANCES.names, row, strict=True)) for row in sorted(rows, key=lambda row: row[2:])]
    return pa.Table.from_pylist(listed, PASSING_BALANCES)


def _times_below(changes: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Yield the lowest balance, the first second and the end of each time below zero that is over."""
    balance, lowest, since = 0, 0, None
    for second, group in groupby(changes, key=lambda change: change[0]):
        balance += sum(change for _, change in group)
        if balance < 0:
            since = second if since is None else since
            lowest = min(lowest, balance)
        elif since is not None:
            yield lowest, since, second
            lowest, since = 0, None


def _ever_below(view: View, key: tuple[str, str], second: int) -> Array:
    """Return the numbers of the addresses, ascending, that were below zero at the end of any second until ``second``.

    Sums of digits are exact in 64 bits for up to 2^31 changes of a token. Chunks of changes bound the memory.
    """
    pieces = [part.moves.at(slice(count_until(part.moves.times, second))) for part in view.parts(key)]
    pieces = [moves for moves in pieces if len(moves)]
    if not pieces:
        return np.zeros(0, np.int32)
    moves = joined_moves(pieces)
    ends = np.concatenate([moves.senders, moves.receivers])
    order = np.argsort(ends, kind="stable")  # each half is in the order of time
    order = order[np.lexsort((np.concatenate([moves.times, moves.times])[order], ends[order]))]
    owners = ends[order]
    cuts = np.flatnonzero(np.diff(owners)) + 1
    pieces_below: list[Array] = []
    start = 0
    while start < len(order):
        place = np.searchsorted(cuts, start + _CHUNK)
        end = int(cuts[place]) if place < len(cuts) else len(order)
        pieces_below.append(_below_in(moves, order[start:end], owners[start:end]))
        start = end
    numbers: Array = np.unique(np.concatenate(pieces_below))
    addresses: Array = numbers[numbers != view.zero]
    return addresses


_CHUNK: Final = 1 << 18


def _below_in(moves: Moves, order: Array, owners: Array) -> Array:
    """Return the owners that are below zero at the end of any second.

    ``order`` has the changes of these owners by owner and time: below the number of transfers those of senders, then
    those of receivers. Transfers to oneself add and subtract the same.
    """
    rows, signs = order % len(moves), np.where(order < len(moves), -1, 1)
    sums = np.cumsum(to_digits(moves.values[rows]) * signs[:, None], axis=0)
    firsts = np.flatnonzero(np.concatenate([[True], owners[1:] != owners[:-1]]))
    sums_before = np.concatenate([np.zeros((1, sums.shape[1]), np.int64), sums])[firsts]
    sums -= np.repeat(sums_before, np.diff(np.append(firsts, len(owners))), axis=0)
    for place in range(sums.shape[1] - 1):
        sums[:, place + 1] += sums[:, place] >> 32
    times = moves.times[rows]
    is_last = np.append((owners[1:] != owners[:-1]) | (times[1:] != times[:-1]), True)
    return np.unique(owners[is_last & (sums[:, -1] < 0)])


def _crossings(changes: Sequence[tuple[int, int]]) -> Iterator[int]:
    balance, was_below = 0, False
    for second, group in groupby(changes, key=lambda change: change[0]):
        balance += sum(change for _, change in group)
        if balance < 0 and not was_below:
            yield second
        was_below = balance < 0
