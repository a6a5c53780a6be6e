"""The behaviour of wallets: where their funds come from, and how they trade."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.sample_world.actors import ChainActors, Scenario
from benchmarks.sample_world.calendar import BEGIN_TIME, DAY, END_TIME
from benchmarks.sample_world.randomness import Rng
from holderlake.core.contract.chains import ZERO_ADDRESS
from holderlake.engine.records import TokenInfo

_SUPPLY: Final = 1_000_000
_DOLLARS: Final = 80_000_000


@dataclass(frozen=True)
class Market:
    """The pool and the exchanges at which a token is traded.

    ``buyers`` is the percentage of a holder's trades that are purchases. ``smallest`` is the least raw amount of a
    transfer.
    """

    token: TokenInfo
    pool: str
    exchanges: tuple[str, ...] = ()
    buyers: int = 45
    smallest: int = 1


def plan_trades(
    scenario: Scenario, rng: Rng, market: Market, wallets: Sequence[str], start: int, end: int, count: int
) -> None:
    """Plan ``count`` trades from ``start`` to ``end`` (unix seconds). Earlier wallets of the list trade more often."""
    for time in rng.times(start, end, count):
        scenario.calendar.at(time, _trade, scenario, rng, market, rng.early_choice(wallets))


def plan_sales(
    scenario: Scenario, rng: Rng, market: Market, sellers: Sequence[str], times: Sequence[int], percent: int
) -> None:
    """Plan a sale of ``percent`` of each seller's balance, within hours after each of the ``times`` (unix seconds)."""
    for time in times:
        for seller in sellers:
            scenario.calendar.at(time + rng.below(40_000), _sell, scenario, market, seller, percent * 10)


def plan_buying(scenario: Scenario, market: Market, buyer: str, times: Sequence[int], per_mille: int) -> None:
    """Plan a purchase of ``per_mille`` thousandths of the pool's balance at each of the ``times`` (unix seconds)."""
    for time in times:
        scenario.calendar.at(time, _buy, scenario, market, buyer, per_mille * 10)


def give_part(
    time: int, scenario: Scenario, token: TokenInfo, sender: str, receiver: str, percent: int, smallest: int = 1
) -> None:
    """Send ``percent`` of the sender's balance at the unix second ``time``.

    Nothing is sent if the raw amount is less than ``smallest``.
    """
    amount = scenario.transfers.balance(token, sender) * percent // 100
    if amount >= smallest:
        scenario.transfers.move(time, token, sender, receiver, amount)


def _trade(time: int, scenario: Scenario, rng: Rng, market: Market, wallet: str) -> None:
    balance = scenario.transfers.balance(market.token, wallet)
    roll = rng.below(100)
    friend = scenario.actors[market.token.chain].friends.get(wallet)
    if market.exchanges and roll < 9:
        _use_exchange(time, scenario, rng, market, wallet)
    elif balance and friend and roll < 14:
        give_part(time, scenario, market.token, wallet, friend, rng.between(10, 40), market.smallest)
    elif balance and rng.below(100) >= market.buyers:
        _sell(time, scenario, market, wallet, 1_000 if rng.is_true(8) else rng.between(60, 600))
    else:
        _buy(time, scenario, market, wallet, rng.between(2, 60))


def _use_exchange(time: int, scenario: Scenario, rng: Rng, market: Market, wallet: str) -> None:
    exchange = rng.choice(market.exchanges)
    if rng.is_true(50):
        give_part(time, scenario, market.token, wallet, exchange, rng.between(20, 90), market.smallest)
    else:
        amount = scenario.transfers.balance(market.token, exchange) * rng.between(4, 40) // 10_000
        if amount >= market.smallest:
            scenario.transfers.move(time, market.token, exchange, wallet, amount)


def _sell(time: int, scenario: Scenario, market: Market, wallet: str, per_mille: int) -> None:
    amount = scenario.transfers.balance(market.token, wallet) * per_mille // 1_000
    if amount >= market.smallest:
        scenario.transfers.move(time, market.token, wallet, market.pool, amount)


def _buy(time: int, scenario: Scenario, market: Market, wallet: str, per_ten_thousand: int) -> None:
    amount = scenario.transfers.balance(market.token, market.pool) * per_ten_thousand // 10_000
    if amount >= market.smallest:
        scenario.transfers.move(time, market.token, market.pool, wallet, amount)


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
