"""The stories told on BNB Smart Chain: Brambletail, Myriad Moss and Wobble."""

from __future__ import annotations

from typing import Final

from holderlake.engine.sources.sample.actors import Stage, new_address
from holderlake.engine.sources.sample.calendar import DAY, END_TIME, HOUR, MINUTE, day, every
from holderlake.engine.sources.sample.randomness import Draw
from holderlake.engine.sources.sample.trading import Market, give_part, plan_trades

TWIN_WITHDRAWALS: Final = day(2026, 5, 12, 14, 5)
"""When two wallets that never met draw Brambletail from the same exchange, 35 minutes apart."""


def tell(stage: Stage) -> None:
    """Plans all of them."""
    _brambletail(stage)
    _myriad_moss(stage)
    _wobble(stage)


def _brambletail(stage: Stage) -> None:
    """Mostly traded at exchanges, whose wallets hold a good part of it."""
    draw, cast = Draw("brambletail"), stage.casts["bsc"]
    token = stage.new_token(draw, "bsc", "Brambletail", "BRMB", 9)
    pool, launch, supply = stage.new_pool(draw, token), day(2025, 1, 28), 10**12 * 10**9
    maker = new_address(draw, "bsc")
    vault = stage.new_actor(draw, "bsc", "Northgate: Cold Wallet", is_cex=True, entity_id="northgate")
    stage.fund(draw, launch - 20 * DAY, cast, maker, 300)
    stage.mint(launch, token, maker, supply)
    for receiver, percent in ((cast.northgate, 34), (cast.lumen, 21), (pool, 22)):
        stage.send(launch + HOUR, token, maker, receiver, supply * percent // 100)
    crowd = cast.people(draw, 190, launch)
    for wallet in crowd:
        amount = supply // 1_000 * draw.between(1, 9) // 10
        stage.send(launch + 2 * HOUR + draw.below(20 * DAY), token, draw.one(cast.exchanges), wallet, amount)
    plan_trades(
        stage,
        draw,
        Market(token, pool, cast.exchanges, buyers=50, smallest=10**9),
        crowd,
        launch + 3 * DAY,
        END_TIME,
        2_600,
    )
    for time in every(31, launch + 31 * DAY, END_TIME):
        stage.calendar.at(time, give_part, stage, token, cast.northgate, vault, 6)
    for number, time in enumerate((TWIN_WITHDRAWALS, TWIN_WITHDRAWALS + 35 * MINUTE)):
        twin = new_address(draw, "bsc")
        stage.fund(draw, day(2026, 4, 3 + 9 * number), cast, twin, 60)
        stage.send(time, token, cast.northgate, twin, supply * 2 // 100)
        stage.address_sets.setdefault("brambletail-twins", []).append(twin)


def _myriad_moss(stage: Stage) -> None:
    """Four thousand trillion trillion tokens: amounts beyond 128 bits."""
    draw, cast = Draw("myriad moss"), stage.casts["bsc"]
    token = stage.new_token(draw, "bsc", "Myriad Moss", "MOSS", 18)
    pool, launch, unit = stage.new_pool(draw, token), day(2025, 5, 5), 10**24 * 10**18
    crowd = cast.people(draw, 120, launch)
    for grower in crowd:
        stage.mint(launch + draw.below(9 * DAY), token, grower, draw.between(4, 30) * unit + draw.below(unit))
    stage.mint(launch, token, pool, 1_800 * unit)
    plan_trades(stage, draw, Market(token, pool, smallest=2**128), crowd, launch + 10 * DAY, END_TIME, 1_000)


def _wobble(stage: Stage) -> None:
    """Balances that change by themselves: transfers do not tell who holds what."""
    draw, cast = Draw("wobble"), stage.casts["bsc"]
    token = stage.new_token(
        draw,
        "bsc",
        "Wobble",
        "WOBL",
        9,
        unsupported="its balances change without transfers (a rebasing token), so transfers do not tell who holds it",
    )
    pool, launch = stage.new_pool(draw, token), day(2025, 7, 1)
    crowd = cast.people(draw, 60, launch)
    for holder in crowd:
        stage.mint(launch + draw.below(DAY), token, holder, draw.between(100, 900) * 10**9)
    stage.mint(launch, token, pool, 20_000 * 10**9)
    plan_trades(stage, draw, Market(token, pool, smallest=10**9), crowd, launch + 2 * DAY, END_TIME, 150)
