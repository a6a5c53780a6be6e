"""Behaviour that several tokens have in common: trades with a pool, sales in steps, and transfers between friends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holderlake.engine.records import TokenInfo
from holderlake.engine.sources.sample.actors import Scenario
from holderlake.engine.sources.sample.randomness import Rng


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
