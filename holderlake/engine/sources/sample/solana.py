"""The stories told on Solana: Sunpetal, Driftwood, Latchkey and a payroll in dollars."""

from __future__ import annotations

from holderlake.engine.records import TokenInfo
from holderlake.engine.sources.sample.actors import Cast, Stage, new_address
from holderlake.engine.sources.sample.calendar import DAY, END_TIME, HOUR, MINUTE, day, every
from holderlake.engine.sources.sample.randomness import Draw
from holderlake.engine.sources.sample.trading import Market, give_part, plan_sales, plan_trades


def tell(stage: Stage) -> None:
    """Plans all of them."""
    _sunpetal(stage)
    _driftwood(stage)
    _latchkey(stage)


def _sunpetal(stage: Stage) -> None:
    """A bot with far too many trades, two market makers with far too many partners, and a payroll beside them."""
    draw, cast = Draw("sunpetal"), stage.casts["solana"]
    token = stage.new_token(draw, "solana", "Sunpetal", "SUNP", 6)
    pool, launch, supply = stage.new_pool(draw, token), day(2025, 1, 8), 5 * 10**8 * 10**6
    reserve = stage.new_actor(draw, "solana", "Sunpetal: Reserve", is_contract=True, entity_id="sunpetal")
    stage.mint(launch, token, reserve, supply)
    for receiver, percent in ((pool, 30), (cast.lumen, 8)):
        stage.send(launch + HOUR, token, reserve, receiver, supply * percent // 100)
    crowd = cast.people(draw, 180, launch)
    for wallet in crowd:
        amount = supply // 10_000 * draw.between(2, 30)
        stage.send(launch + 2 * HOUR + draw.below(4 * DAY), token, reserve, wallet, amount)
    market = Market(token, pool, (cast.lumen,), smallest=10**6)
    plan_trades(stage, draw, market, crowd, launch + 6 * DAY, END_TIME, 1_900)
    _bot(stage, draw, cast, market)
    first, second = (_market_maker(stage, draw, cast, token, reserve, supply, number) for number in range(2))
    for time in every(50, day(2025, 7, 1), END_TIME):
        stage.calendar.at(time, give_part, stage, token, first, second, 3)
    _payroll(stage, draw, cast)


def _bot(stage: Stage, draw: Draw, cast: Cast, market: Market) -> None:
    """Buys and sells by turns, some 1,700 times: a hypernode by the world's rules."""
    bot = new_address(draw, "solana")
    stage.fund(draw, day(2025, 3, 1), cast, bot, 3_000)
    stage.send(day(2025, 3, 2), market.token, market.pool, bot, 6_000_000 * 10**6)
    for number, time in enumerate(draw.times(day(2025, 3, 3), END_TIME, 1_700)):
        ends = (market.pool, bot) if number % 2 else (bot, market.pool)
        stage.send(time, market.token, *ends, draw.between(800, 1_200) * 10**6)
    stage.address_sets["sunpetal-machines"] = [bot]


def _market_maker(
    stage: Stage, draw: Draw, cast: Cast, token: TokenInfo, reserve: str, supply: int, number: int
) -> str:
    """Sells a little to 165 people, who hold next to nothing else: a supernode by the world's rules."""
    maker = new_address(draw, "solana")
    stage.fund(draw, day(2025, 2, 1 + 9 * number), cast, maker, 2_000)
    stage.send(day(2025, 2, 20 + number), token, reserve, maker, supply * 3 // 100)
    for client in [new_address(draw, "solana") for _ in range(165)]:
        time = day(2025, 2, 24) + draw.below(420 * DAY)
        stage.fund(draw, time - 15 * DAY, cast, client, draw.between(5, 60))
        stage.send(time, token, maker, client, draw.between(2_000, 9_000) * 10**6)
    stage.address_sets.setdefault("sunpetal-machines", []).append(maker)
    return maker


def _payroll(stage: Stage, draw: Draw, cast: Cast) -> None:
    """Pays 190 people dollars every quarter; without the rule on supernodes it would tie them all together."""
    payer = new_address(draw, "solana")
    stage.fund(draw, day(2025, 2, 3), cast, payer, 5_000)
    staff = cast.people(draw, 190, day(2025, 2, 3))
    for payday in every(91, day(2025, 3, 31), END_TIME):
        stage.send(payday - DAY, cast.stable, cast.northgate, payer, 1_000_000 * cast.dollar)
        for number, worker in enumerate(staff):
            pay = draw.between(900, 4_000) * cast.dollar
            stage.send(payday + number * 10, cast.stable, payer, worker, pay)
        stage.calendar.at(payday + HOUR, give_part, stage, cast.stable, payer, cast.northgate, 100)
    stage.address_sets["sunpetal-machines"].append(payer)


def _driftwood(stage: Stage) -> None:
    """Seven wallets that one purse fills with SOL buy a quarter within two minutes, and dump it a year later."""
    draw, cast = Draw("driftwood"), stage.casts["solana"]
    token = stage.new_token(draw, "solana", "Driftwood", "DRFT", 6)
    pool, launch, supply = stage.new_pool(draw, token), day(2025, 8, 10), 10**9 * 10**6
    stage.mint(launch, token, pool, supply)
    purse, go_between = new_address(draw, "solana"), new_address(draw, "solana")
    snipers = [new_address(draw, "solana") for _ in range(7)]
    stage.fund(draw, launch - 3 * DAY, cast, purse, 50_000)
    stage.send(launch - 2 * DAY, cast.native, purse, go_between, 90 * cast.one)
    for number, sniper in enumerate(snipers):
        filled = launch - DAY + number * 20 * MINUTE
        stage.send(filled, cast.native, go_between, sniper, draw.between(5, 11) * cast.one)
        stage.send(launch + 8 + number * 15, token, pool, sniper, supply * draw.between(32, 41) // 1_000)
    crowd = cast.people(draw, 150, launch)
    market = Market(token, pool, buyers=62, smallest=10**6)
    plan_trades(stage, draw, market, crowd, launch + 3 * MINUTE, launch + 10 * DAY, 450)
    plan_trades(stage, draw, market, crowd, launch + 10 * DAY, END_TIME, 800)
    plan_sales(stage, draw, market, snipers, [day(2026, 6, 15), day(2026, 6, 18), day(2026, 7, 2)], 65)
    stage.address_sets["driftwood-snipers"] = [purse, go_between, *snipers]


def _latchkey(stage: Stage) -> None:
    """Launched late: before the middle of July 2026 nobody holds it."""
    draw, cast = Draw("latchkey"), stage.casts["solana"]
    token = stage.new_token(draw, "solana", "Latchkey", "LATCH", 9)
    pool, launch, supply = stage.new_pool(draw, token), day(2026, 7, 15), 2 * 10**7 * 10**9
    vesting = stage.new_actor(draw, "solana", "Latchkey: Vesting", is_contract=True, entity_id="latchkey")
    stage.mint(launch, token, vesting, supply * 40 // 100)
    stage.mint(launch, token, pool, supply * 35 // 100)
    crowd = cast.people(draw, 160, launch)
    for wallet in crowd:
        stage.mint(launch + draw.below(3 * DAY), token, wallet, supply // 1_000 * draw.between(1, 20) // 10)
    plan_trades(stage, draw, Market(token, pool, smallest=10**9), crowd, launch + 4 * DAY, END_TIME, 700)
