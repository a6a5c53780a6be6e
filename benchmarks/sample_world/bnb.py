"""Tokens of the sample world on BNB Smart Chain: Brambletail, Myriad Moss and Wobble."""

from __future__ import annotations

from typing import Final

from benchmarks.sample_world.actors import Scenario, new_address
from benchmarks.sample_world.calendar import DAY, END_TIME, HOUR, MINUTE, day, every
from benchmarks.sample_world.randomness import Rng
from benchmarks.sample_world.trading import Market, give_part, plan_trades

TWIN_WITHDRAWALS: Final = day(2026, 5, 12, 14, 5)
"""Time of the first of two withdrawals of Brambletail from one exchange, 35 minutes apart, to unrelated wallets."""


def plan(scenario: Scenario) -> None:
    """Plan all transfers of the three sample tokens on BNB Smart Chain."""
    _brambletail(scenario)
    _myriad_moss(scenario)
    _wobble(scenario)


def _brambletail(scenario: Scenario) -> None:
    """Plan the transfers of Brambletail: it is mostly traded at exchanges, whose wallets hold much of it."""
    rng, actors = Rng("brambletail"), scenario.actors["bsc"]
    token = scenario.new_token(rng, "bsc", "Brambletail", "BRMB", 9)
    pool, launch, supply = scenario.new_pool(rng, token), day(2025, 1, 28), 10**12 * 10**9
    maker = new_address(rng, "bsc")
    vault = scenario.new_actor(rng, "bsc", "Northgate: Cold Wallet", is_cex=True, entity_id="northgate")
    scenario.fund(rng, launch - 20 * DAY, actors, maker, 300)
    scenario.mint(launch, token, maker, supply)
    for receiver, percent in ((actors.northgate, 34), (actors.lumen, 21), (pool, 22)):
        scenario.send(launch + HOUR, token, maker, receiver, supply * percent // 100)
    wallets = actors.pick_wallets(rng, 190, launch)
    for wallet in wallets:
        amount = supply // 1_000 * rng.between(1, 9) // 10
        scenario.send(launch + 2 * HOUR + rng.below(20 * DAY), token, rng.choice(actors.exchanges), wallet, amount)
    plan_trades(
        scenario,
        rng,
        Market(token, pool, actors.exchanges, buyers=50, smallest=10**9),
        wallets,
        launch + 3 * DAY,
        END_TIME,
        2_600,
    )
    for time in every(31, launch + 31 * DAY, END_TIME):
        scenario.calendar.at(time, give_part, scenario, token, actors.northgate, vault, 6)
    for number, time in enumerate((TWIN_WITHDRAWALS, TWIN_WITHDRAWALS + 35 * MINUTE)):
        twin = new_address(rng, "bsc")
        scenario.fund(rng, day(2026, 4, 3 + 9 * number), actors, twin, 60)
        scenario.send(time, token, actors.northgate, twin, supply * 2 // 100)
        scenario.address_sets.setdefault("brambletail-twins", []).append(twin)


def _myriad_moss(scenario: Scenario) -> None:
    """Plan the transfers of Myriad Moss: a token with a supply of more than 128 bits."""
    rng, actors = Rng("myriad moss"), scenario.actors["bsc"]
    token = scenario.new_token(rng, "bsc", "Myriad Moss", "MOSS", 18)
    pool, launch, unit = scenario.new_pool(rng, token), day(2025, 5, 5), 10**24 * 10**18
    wallets = actors.pick_wallets(rng, 120, launch)
    for grower in wallets:
        scenario.mint(launch + rng.below(9 * DAY), token, grower, rng.between(4, 30) * unit + rng.below(unit))
    scenario.mint(launch, token, pool, 1_800 * unit)
    plan_trades(scenario, rng, Market(token, pool, smallest=2**128), wallets, launch + 10 * DAY, END_TIME, 1_000)


def _wobble(scenario: Scenario) -> None:
    """Plan the transfers of Wobble: a rebasing token, which is not supported, because its balances change without
    transfers."""
    rng, actors = Rng("wobble"), scenario.actors["bsc"]
    token = scenario.new_token(
        rng,
        "bsc",
        "Wobble",
        "WOBL",
        9,
        unsupported="its balances change without transfers (a rebasing token), so transfers do not show who holds it",
    )
    pool, launch = scenario.new_pool(rng, token), day(2025, 7, 1)
    wallets = actors.pick_wallets(rng, 60, launch)
    for holder in wallets:
        scenario.mint(launch + rng.below(DAY), token, holder, rng.between(100, 900) * 10**9)
    scenario.mint(launch, token, pool, 20_000 * 10**9)
    plan_trades(scenario, rng, Market(token, pool, smallest=10**9), wallets, launch + 2 * DAY, END_TIME, 150)
