"""Addresses with a balance below zero, and the second since which the balance has been below zero.

A negative balance means that transfers are missing in the store, or that their source rounds amounts. An address with a
negative balance is never a holder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby
from json.encoder import encode_basestring_ascii
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from holderlake.core.contract.chains import ZERO_ADDRESS
from holderlake.core.contract.times import from_unix, to_unix
from holderlake.engine.files.listing import View
from holderlake.engine.numeric.bigint import to_ints
from holderlake.engine.queries.balance_rows import BalanceSpans, largest, negative_at
from holderlake.engine.records import Key, schema_of
from holderlake.engine.store.store import Store

NEGATIVE_BALANCES: Final = schema_of(
    "chain VARCHAR, token_address VARCHAR, address VARCHAR, balance VARCHAR, since TIMESTAMP"
)
"""Columns of a table with a row for each address below zero.

``balance`` is a raw integer as text. The balance has been below zero since the end of the second ``since`` (UTC).
"""

PASSING_BALANCES: Final = schema_of(
    "chain VARCHAR, token_address VARCHAR, address VARCHAR, lowest VARCHAR, since TIMESTAMP, until TIMESTAMP"
)
"""Columns of a table with a row for each time in which an address was below zero, and that is over.

``lowest`` is the lowest raw balance of that time as text. The balance has been below zero from the end of the second
``since`` to the end of the second ``until`` (UTC).
"""

_LISTED: Final = 100
"""The most addresses that the summary of one map lists."""


_INTERVALS: Final = """
-- An address can be below zero only if it is in a file. Statistics of the files skip most rows without such addresses.
SELECT address, since, until, coalesce(wide_balance, CAST(balance AS VARCHAR)) AS balance
FROM read_parquet($files)
WHERE since <= $second AND address IN (
    SELECT address
    FROM read_parquet($files)
    WHERE since <= $second AND address <> $zero AND (balance < 0 OR wide_balance LIKE '-%')
)
ORDER BY address
"""


class _TimeBelow(NamedTuple):
    """A time in which ``address`` is below zero, in unix seconds: from the end of ``since`` to the end of ``until``.

    ``until`` is None if the time is not over. ``lowest`` and ``last`` are raw balances of the time.
    """

    address: str
    lowest: int
    last: int
    since: int
    until: int | None


def negative_balances(store: Store, chain: str, token_address: str, as_of: datetime) -> pa.Table:
    """Return a token's addresses below zero at the end of the second ``as_of``, the lowest balance first.

    The schema is ``NEGATIVE_BALANCES``.
    """
    times = [time for time in _times_below(store, (chain, token_address), to_unix(as_of)) if time.until is None]
    rows = [
        (chain, token_address, time.address, str(time.last), from_unix(time.since))
        for time in sorted(times, key=lambda time: (time.last, time.address))
    ]
    return _table(rows, NEGATIVE_BALANCES)


def passing_balances(store: Store, chain: str, token_address: str, as_of: datetime) -> pa.Table:
    """Return the times in which a token's addresses were below zero and that were over at the end of ``as_of``.

    Maps of these times are wrong, although the last balances are not below zero. Rows are in the schema
    ``PASSING_BALANCES``, by address and time.
    """
    rows = [
        (chain, token_address, time.address, str(time.lowest), from_unix(time.since), from_unix(time.until))
        for time in _times_below(store, (chain, token_address), to_unix(as_of))
        if time.until is not None
    ]
    return _table(rows, PASSING_BALANCES)


def _table(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


def _times_below(store: Store, key: Key, second: int) -> Iterator[_TimeBelow]:
    """Yield the times until ``second`` in which addresses of a token (chain, address) are below zero, by address and
    time."""
    files = list(map(str, store.balance_files(key)))
    bound = {"files": files, "second": second, "zero": ZERO_ADDRESS}
    rows = store.query(_INTERVALS, bound).to_pylist() if files else []
    for address, intervals in groupby(rows, key=lambda row: row["address"]):
        changes: Counter[int] = Counter()
        for row in intervals:
            changes[row["since"]] += int(row["balance"])
            changes[row["until"]] -= int(row["balance"])
        balance, lowest, since = 0, 0, None
        for at in sorted(time for time in changes if time <= second):
            balance += changes[at]
            if balance < 0:
                since = at if since is None else since
                lowest = min(lowest, balance)
            elif since is not None:
                yield _TimeBelow(address, lowest, balance, since, at)
                lowest, since = 0, None
        if since is not None:
            yield _TimeBelow(address, lowest, balance, since, None)


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
