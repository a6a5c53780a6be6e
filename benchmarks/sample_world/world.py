"""The complete sample world: transfers, tokens, labels, rules, and named sets of addresses."""

from __future__ import annotations

from benchmarks.sample_world import base, bnb, ethereum, solana, trading
from benchmarks.sample_world.actors import Scenario, add_actors
from benchmarks.sample_world.calendar import END, START, SampleTransfers
from benchmarks.sample_world.randomness import Rng
from holderlake.core.contract.rules import Rules
from holderlake.sources.sample_world import World


def made_world() -> tuple[World, dict[str, int]]:
    """Return the sample world, the same at every call and on every machine, and the number of each transaction."""
    scenario = Scenario(SampleTransfers(Rng("book")))
    add_actors(scenario)
    for module in (trading, ethereum, base, bnb, solana):
        module.plan(scenario)
    scenario.calendar.run()
    bridges = frozenset(actors.bridge for actors in scenario.actors.values())
    world = World(
        transfers=scenario.transfers.table(),
        tokens=scenario.tokens,
        labels=scenario.labels,
        rules=Rules(supernode_degree=150, hypernode_transfers=1_500, time_allowed=bridges),
        start=START,
        end=END,
        address_sets=scenario.address_sets,
    )
    return world, scenario.transfers.numbers
