"""One pass over many tokens and instants: their maps or holders as the lake's tables, a batch at a time.

Rows are those that ``map_as_of`` and ``holders_as_of`` give, one token and instant after another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from contract.requests import MapOptions
from contract.tables import TABLES, build
from contract.times import utc_now
from engine.balances import mappable_token
from engine.errors import NoHolders
from engine.holders import holder_rows
from engine.maps import MAP_TABLES, map_rows
from engine.store import Store

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
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in MAP_TABLES}
    for chain, address in tokens:
        token = mappable_token(snapshot, chain, address)
        for as_of in instants:
            try:
                found = map_rows(snapshot, view, token, as_of, options, made_at)
            except NoHolders:
                continue
            for name in MAP_TABLES:
                rows[name] += found[name]
            if len(rows["maps"]) == _MAPS:
                yield _built(rows)
    if rows["maps"]:
        yield _built(rows)


def _built(rows: dict[str, list[dict[str, Any]]]) -> dict[str, pa.Table]:
    tables = {name: build(TABLES[name], found) for name, found in rows.items()}
    for found in rows.values():
        found.clear()
    return tables


def sweep_holders(
    store: Store, tokens: Sequence[tuple[str, str]], instants: Sequence[datetime], limit: int, details: bool = False
) -> Iterator[pa.Table]:
    """The lake's ``holders`` rows of every token at every instant, some instants to a batch, as ``sweep`` has them."""
    snapshot = store.remembering()
    view = snapshot.view()
    rows: list[dict[str, Any]] = []
    for chain, address in tokens:
        token = mappable_token(snapshot, chain, address)
        for as_of in instants:
            rows += holder_rows(snapshot, view, token, as_of, limit, details)
            if len(rows) >= _ROWS:
                yield build(TABLES["holders"], rows)
                rows = []
    if rows:
        yield build(TABLES["holders"], rows)
