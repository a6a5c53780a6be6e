"""The complete sample world: transfers, tokens, labels, rules, and named sets of addresses."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from holderlake.core.contract.rules import Rules
from holderlake.engine.records import Label, TokenInfo
from holderlake.sources.sample import base, bnb, ethereum, solana, trading
from holderlake.sources.sample.actors import Scenario, add_actors
from holderlake.sources.sample.calendar import END, START, SampleTransfers
from holderlake.sources.sample.randomness import Rng


@dataclass(frozen=True)
class World:
    """The content of the sample world. Every token begins with mints, and no balance is ever negative.

    ``transfers`` has the schema ``engine.records.TRANSFERS``. All transfers are from ``start`` to ``end`` (excluded,
    UTC). ``rules`` has small thresholds, so that the world has supernodes and hypernodes. ``address_sets`` has
    addresses with interesting relationships, by name.
    """

    transfers: pa.Table
    tokens: list[TokenInfo]
    labels: list[Label]
    rules: Rules
    start: datetime
    end: datetime
    address_sets: dict[str, list[str]]


def sample_world() -> World:
    """Return the sample world, the same at every call and on every machine."""
    scenario = Scenario(SampleTransfers(Rng("book")))
    add_actors(scenario)
    for module in (trading, ethereum, base, bnb, solana):
        module.plan(scenario)
    scenario.calendar.run()
    bridges = frozenset(actors.bridge for actors in scenario.actors.values())
    return World(
        transfers=scenario.transfers.table(),
        tokens=scenario.tokens,
        labels=scenario.labels,
        rules=Rules(supernode_degree=150, hypernode_transfers=1_500, time_allowed=bridges),
        start=START,
        end=END,
        address_sets=scenario.address_sets,
    )
