"""The sample world put together: its transfers, tokens, labels, rules and named sets of addresses."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from holderlake.engine.records import Label, Rules, TokenInfo
from holderlake.engine.sources.sample import base, bnb, ethereum, funding, solana
from holderlake.engine.sources.sample.actors import Stage, build_casts
from holderlake.engine.sources.sample.calendar import END, START, Book
from holderlake.engine.sources.sample.randomness import Draw


@dataclass(frozen=True)
class World:
    """Histories that are whole: every token comes from the zero address, and nobody ever has less than nothing.

    ``transfers`` are in the schema ``engine.records.TRANSFERS``, from ``start`` to before ``end`` (UTC). ``rules``
    have thresholds so small that the world has supernodes and hypernodes. ``address_sets`` name addresses that are
    worth asking relationships of.
    """

    transfers: pa.Table
    tokens: list[TokenInfo]
    labels: list[Label]
    rules: Rules
    start: datetime
    end: datetime
    address_sets: dict[str, list[str]]


def sample_world() -> World:
    """Makes the world, the same each time."""
    stage = Stage(Book(Draw("book")))
    build_casts(stage)
    for stories in (funding, ethereum, base, bnb, solana):
        stories.tell(stage)
    stage.calendar.play()
    bridges = frozenset(cast.bridge for cast in stage.casts.values())
    return World(
        transfers=stage.book.table(),
        tokens=stage.tokens,
        labels=stage.labels,
        rules=Rules(supernode_degree=150, hypernode_transfers=1_500, time_allowed=bridges),
        start=START,
        end=END,
        address_sets=stage.address_sets,
    )
