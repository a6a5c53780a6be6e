"""One pass over many tokens and instants: their maps or holders as the lake's tables, a batch at a time.

Rows are those that ``map_as_of`` and ``holders_as_of`` give, one token and instant after another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

import pyarrow as pa

from contract.requests import MapOptions
from contract.tables import TABLES
from contract.times import utc_now
from engine.balances import mappable_token
from engine.errors import NoHolders
from engine.holders import holder_columns
from engine.maps import map_columns, map_tables
from engine.store import Store
from engine.tables import Columns, joined_columns, table_of

_MAPS: Final = 32
"""Maps to a batch."""
_ROWS: Final = 10_000
"""Rows of holders to a batch, about."""


def sweep(
    store: Store,
    tokens: Sequence[tuple[str, str]],
    instants: Sequence[datetime],
    options: MapOptions,
    computed_at: datetime | None = None,
) -> Iterator[dict[str, pa.Table]]:
    """The map tables of every token (chain, address) at every instant, some maps to a batch, by token, then instant.

    A token that nobody holds at an instant has no row of it. The store is read as it is when the pass begins. Raises
    ``UnknownToken`` or ``UnsupportedToken`` when it comes to such a token.
    """
    snapshot, made_at = store.remembering(), computed_at or utc_now()
    view = snapshot.view()
    maps: list[dict[str, Columns]] = []
    for chain, address in tokens:
        token = mappable_token(snapshot, chain, address)
        for as_of in instants:
            try:
                maps.append(map_columns(snapshot, view, token, as_of, options, made_at))
            except NoHolders:
                continue
            if len(maps) == _MAPS:
                yield map_tables(maps)
                maps = []
    if maps:
        yield map_tables(maps)


def sweep_holders(
    store: Store, tokens: Sequence[tuple[str, str]], instants: Sequence[datetime], limit: int, details: bool = False
) -> Iterator[pa.Table]:
    """The lake's ``holders`` rows of every token at every instant, some instants to a batch, as ``sweep`` has them."""
    snapshot = store.remembering()
    view = snapshot.view()
    found: list[Columns] = []
    for chain, address in tokens:
        token = mappable_token(snapshot, chain, address)
        for as_of in instants:
            found.append(holder_columns(snapshot, view, token, as_of, limit, details))
            if sum(len(columns["rank"]) for columns in found) >= _ROWS:
                yield table_of(TABLES["holders"], joined_columns(found))
                found = []
    if any(columns["rank"] for columns in found):
        yield table_of(TABLES["holders"], joined_columns(found))
