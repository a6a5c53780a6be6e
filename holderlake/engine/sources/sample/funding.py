"""Native and stable tokens of the sample world: mints, the first transfers to wallets, and the wallets' later
transfers."""

from __future__ import annotations

from typing import Final

from holderlake.contract.chains import ZERO_ADDRESS
from holderlake.engine.sources.sample.actors import ChainActors, Scenario
from holderlake.engine.sources.sample.calendar import BEGIN_TIME, DAY, END_TIME
from holderlake.engine.sources.sample.randomness import Rng
from holderlake.engine.sources.sample.trading import Market, give_part, plan_trades

_SUPPLY: Final = 1_000_000
_DOLLARS: Final = 80_000_000


def plan(scenario: Scenario) -> None:
    """Plan the transfers of native and stable tokens of all chains."""
    for actors in scenario.actors.values():
        rng = Rng(f"money of {actors.chain}")
        _native(scenario, rng, actors)
        _stable(scenario, rng, actors)


def _native(scenario: Scenario, rng: Rng, actors: ChainActors) -> None:
    for holder, percent in ((actors.northgate, 40), (actors.lumen, 25), (actors.bridge, 30)):
        scenario.mint(BEGIN_TIME, actors.native, holder, actors.native_unit * _SUPPLY * percent // 100)
    for wallet in actors.wallets:
        scenario.fund(rng, wallet.born, actors, wallet.address, rng.between(5, 300))
    for time in rng.times(BEGIN_TIME + 30 * DAY, END_TIME, 420):
        scenario.calendar.at(time, _use_native, scenario, rng, actors)


def _use_native(time: int, scenario: Scenario, rng: Rng, actors: ChainActors) -> None:
    """Send a part of a random wallet's native tokens to an exchange or to the wallet's friend."""
    wallet = rng.choice(actors.wallets).address
    friend = actors.friends.get(wallet)
    receiver = friend if friend and rng.is_true(60) else rng.choice(actors.exchanges)
    give_part(time, scenario, actors.native, wallet, receiver, rng.between(10, 50), actors.native_unit // 100)


def _stable(scenario: Scenario, rng: Rng, actors: ChainActors) -> None:
    issuer = scenario.new_actor(rng, actors.chain, "Pebble: Treasury", is_contract=True, entity_id="pebble")
    pool = scenario.new_pool(rng, actors.stable)
    scenario.label(actors.stable.address, actors.chain, "Pebble: PBLD Token", is_contract=True, entity_id="pebble")
    scenario.mint(BEGIN_TIME, actors.stable, issuer, actors.dollar * _DOLLARS)
    for receiver, percent in ((actors.northgate, 30), (actors.lumen, 20), (pool, 20)):
        scenario.send(BEGIN_TIME + DAY, actors.stable, issuer, receiver, actors.dollar * _DOLLARS * percent // 100)
    # redeemed dollars are burnt, so that the supply changes
    for month in range(1, 24):
        scenario.calendar.at(BEGIN_TIME + month * 30 * DAY, give_part, scenario, actors.stable, issuer, ZERO_ADDRESS, 2)
    market = Market(actors.stable, pool, actors.exchanges, smallest=actors.dollar)
    wallets = actors.pick_wallets(rng, 140, BEGIN_TIME + 45 * DAY)
    plan_trades(scenario, rng, market, wallets, BEGIN_TIME + 45 * DAY, END_TIME, 380)
