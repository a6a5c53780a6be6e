"""Native and stable tokens of each chain: how wallets come to their first coins, and what they do with them."""

from __future__ import annotations

from typing import Final

from holderlake.contract.chains import ZERO_ADDRESS
from holderlake.engine.sources.sample.actors import Cast, Stage
from holderlake.engine.sources.sample.calendar import BEGIN_TIME, DAY, END_TIME
from holderlake.engine.sources.sample.randomness import Draw
from holderlake.engine.sources.sample.trading import Market, give_part, plan_trades

_SUPPLY: Final = 1_000_000
_DOLLARS: Final = 80_000_000


def tell(stage: Stage) -> None:
    """Plans the money of all chains."""
    for cast in stage.casts.values():
        draw = Draw(f"money of {cast.chain}")
        _native(stage, draw, cast)
        _stable(stage, draw, cast)


def _native(stage: Stage, draw: Draw, cast: Cast) -> None:
    for holder, percent in ((cast.northgate, 40), (cast.lumen, 25), (cast.bridge, 30)):
        stage.mint(BEGIN_TIME, cast.native, holder, cast.one * _SUPPLY * percent // 100)
    for wallet in cast.wallets:
        stage.fund(draw, wallet.born, cast, wallet.address, draw.between(5, 300))
    for time in draw.times(BEGIN_TIME + 30 * DAY, END_TIME, 420):
        stage.calendar.at(time, _use_native, stage, draw, cast)


def _use_native(time: int, stage: Stage, draw: Draw, cast: Cast) -> None:
    """A deposit at an exchange, or a gift to a friend."""
    wallet = draw.one(cast.wallets).address
    friend = cast.friends.get(wallet)
    receiver = friend if friend and draw.chance(60) else draw.one(cast.exchanges)
    give_part(time, stage, cast.native, wallet, receiver, draw.between(10, 50), cast.one // 100)


def _stable(stage: Stage, draw: Draw, cast: Cast) -> None:
    issuer = stage.new_actor(draw, cast.chain, "Pebble: Treasury", is_contract=True, entity_id="pebble")
    pool = stage.new_pool(draw, cast.stable)
    stage.label(cast.stable.address, cast.chain, "Pebble: PBLD Token", is_contract=True, entity_id="pebble")
    stage.mint(BEGIN_TIME, cast.stable, issuer, cast.dollar * _DOLLARS)
    for receiver, percent in ((cast.northgate, 30), (cast.lumen, 20), (pool, 20)):
        stage.send(BEGIN_TIME + DAY, cast.stable, issuer, receiver, cast.dollar * _DOLLARS * percent // 100)
    # redeemed dollars are burnt, so that the supply is not a flat line
    for month in range(1, 24):
        stage.calendar.at(BEGIN_TIME + month * 30 * DAY, give_part, stage, cast.stable, issuer, ZERO_ADDRESS, 2)
    market = Market(cast.stable, pool, cast.exchanges, smallest=cast.dollar)
    crowd = cast.people(draw, 140, BEGIN_TIME + 45 * DAY)
    plan_trades(stage, draw, market, crowd, BEGIN_TIME + 45 * DAY, END_TIME, 380)
