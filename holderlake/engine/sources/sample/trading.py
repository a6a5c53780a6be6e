"""Habits that several stories share: a crowd that trades with a pool, sells in steps, and gives to friends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holderlake.engine.records import TokenInfo
from holderlake.engine.sources.sample.actors import Stage
from holderlake.engine.sources.sample.randomness import Draw


@dataclass(frozen=True)
class Market:
    """Where a token is traded: its pool, and the exchanges' wallets it is deposited to and withdrawn from.

    Of a hundred who hold, ``buyers`` buy more. ``smallest`` is the least amount worth a transfer.
    """

    token: TokenInfo
    pool: str
    exchanges: tuple[str, ...] = ()
    buyers: int = 45
    smallest: int = 1


def plan_trades(
    stage: Stage, draw: Draw, market: Market, crowd: Sequence[str], start: int, end: int, count: int
) -> None:
    """So many trades of the crowd between two instants; the first of the crowd trade most."""
    for time in draw.times(start, end, count):
        stage.calendar.at(time, _trade, stage, draw, market, draw.early(crowd))


def plan_sales(
    stage: Stage, draw: Draw, market: Market, sellers: Sequence[str], times: Sequence[int], percent: int
) -> None:
    """Each seller sells that part of what is left, a few hours apart, at each of the times."""
    for time in times:
        for seller in sellers:
            stage.calendar.at(time + draw.below(40_000), _sell, stage, market, seller, percent * 10)


def plan_buying(stage: Stage, market: Market, buyer: str, times: Sequence[int], per_mille: int) -> None:
    """The buyer takes that part of the pool at each of the times."""
    for time in times:
        stage.calendar.at(time, _buy, stage, market, buyer, per_mille * 10)


def give_part(
    time: int, stage: Stage, token: TokenInfo, sender: str, receiver: str, percent: int, smallest: int = 1
) -> None:
    """Sends that part of what the sender has; nothing where that is too little."""
    amount = stage.book.held(token, sender) * percent // 100
    if amount >= smallest:
        stage.book.move(time, token, sender, receiver, amount)


def _trade(time: int, stage: Stage, draw: Draw, market: Market, wallet: str) -> None:
    held = stage.book.held(market.token, wallet)
    roll = draw.below(100)
    friend = stage.casts[market.token.chain].friends.get(wallet)
    if market.exchanges and roll < 9:
        _use_exchange(time, stage, draw, market, wallet)
    elif held and friend and roll < 14:
        give_part(time, stage, market.token, wallet, friend, draw.between(10, 40), market.smallest)
    elif held and draw.below(100) >= market.buyers:
        _sell(time, stage, market, wallet, 1_000 if draw.chance(8) else draw.between(60, 600))
    else:
        _buy(time, stage, market, wallet, draw.between(2, 60))


def _use_exchange(time: int, stage: Stage, draw: Draw, market: Market, wallet: str) -> None:
    exchange = draw.one(market.exchanges)
    if draw.chance(50):
        give_part(time, stage, market.token, wallet, exchange, draw.between(20, 90), market.smallest)
    else:
        amount = stage.book.held(market.token, exchange) * draw.between(4, 40) // 10_000
        if amount >= market.smallest:
            stage.book.move(time, market.token, exchange, wallet, amount)


def _sell(time: int, stage: Stage, market: Market, wallet: str, per_mille: int) -> None:
    amount = stage.book.held(market.token, wallet) * per_mille // 1_000
    if amount >= market.smallest:
        stage.book.move(time, market.token, wallet, market.pool, amount)


def _buy(time: int, stage: Stage, market: Market, wallet: str, per_ten_thousand: int) -> None:
    amount = stage.book.held(market.token, market.pool) * per_ten_thousand // 10_000
    if amount >= market.smallest:
        stage.book.move(time, market.token, market.pool, wallet, amount)
